"""The frames behind a report: each is written as a CSV and drawn or printed from.

`by` below is the sweep's axes followed by the algorithm, which identify a condition; its replicates are averaged.
"""

from collections.abc import Sequence

import pandas as pd

from analysis.axes import ordered
from analysis.measures.budgets import is_chosen
from analysis.measures.communication import CAUSES, wasted_parts
from analysis.measures.frontier import pareto
from analysis.read.load import COUNTS, RECOVERY, SERVED, Runs
from analysis.statistics.spread import over_replicates

FIGURES = ["score", "periods", "am", "la", "fm", "prequential", "sim_seconds", *COUNTS]
FIGURES += ["updates_per_period", "staleness", *SERVED]
FIGURES += ["bytes_up", "bytes_down", "bytes_peer", "bytes_wasted", "bytes_moved", "client_seconds", "server_seconds"]
REACHED = ["target", "seconds_to_target", "bytes_to_target", "periods_at_target", "target_at_first", *RECOVERY]


def finished(runs: Runs) -> pd.DataFrame:
    """Return the finished points in the order of their axes."""
    points = runs.points[runs.points["status"] != "failed"]
    ranks = {axis: {value: i for i, value in enumerate(ordered(points[axis]))} for axis in runs.axes}
    order = sorted(range(len(points)), key=lambda i: [ranks[axis][points[axis].iloc[i]] for axis in runs.axes])
    return points.iloc[order].reset_index(drop=True)


def means(points: pd.DataFrame, by: list[str]) -> pd.DataFrame:
    """Return every figure's mean and `_sd` over replicates, with n, reached (runs that reached the target).

    `points` have bytes_moved (on the wire, all directions) beside the columns of `finished`. `frontier_time` and
    `frontier_bytes` say what nothing beats under the same conditions, which nobody chooses (see budgets.is_chosen).
    """
    rows = over_replicates(points, by, [*FIGURES, *REACHED])
    reached = points.assign(reached=points["seconds_to_target"].notna()).groupby(by, sort=False)["reached"].sum()
    rows["reached"] = reached.to_numpy(int)
    for name, cost in (("frontier_bytes", "bytes_moved"), ("frontier_time", "sim_seconds")):
        rows[name] = pareto(rows, cost, [axis for axis in by if axis != "algorithm" and not is_chosen(axis)])
    return rows


def wire_bytes(booked: pd.DataFrame, points: pd.DataFrame, by: list[str], part: str) -> pd.DataFrame:
    """Return mean wire bytes by direction (up, down, peer) or by step (kind), n, total, total_sd.

    `booked` here and below are the rows of all points (see digest.Digest).
    """
    return mean_parts(booked.assign(bytes=booked["wire"]), points, by, part)


def wasted_bytes(booked: pd.DataFrame, points: pd.DataFrame, by: list[str]) -> pd.DataFrame:
    """Return mean wasted bytes and `_sd` by cause (see communication.wasted_parts), with n and their sum, `wasted`."""
    parts = points[[*by, "run"]].merge(wasted_parts(booked, ["run"]), on="run", how="left")
    parts = parts.fillna(dict.fromkeys(CAUSES, 0))
    causes = list(CAUSES)
    return over_replicates(parts.assign(wasted=parts[causes].sum(axis=1)), by, [*causes, "wasted"])


def mean_parts(
    rows: pd.DataFrame, points: pd.DataFrame, by: list[str], part: str, bar: Sequence[str] = ()
) -> pd.DataFrame:
    """Return mean `bytes` over replicates: columns `by`, `bar`, `part`, bytes, n, and of all parts of a bar together
    total, total_sd, total_min and total_max. A bar is a condition, with `bar` one of its steps.

    A run without a part sent no bytes of it, which counts as zero.
    """
    order = {point: place for place, point in enumerate(points["run"])}
    rows = rows.assign(place=rows["run"].map(order)).sort_values(["place", *bar, part], kind="stable")
    runs, whole = points.groupby(by, sort=False).size().rename("n"), [*by, *bar]
    wholes = rows.groupby([*whole, "run"], sort=False)["bytes"].sum().groupby(whole, sort=False)
    totals = pd.DataFrame({
        "total": wholes.sum(), "total_sd": wholes.std(ddof=1), "total_min": wholes.min(), "total_max": wholes.max(),
    })  # fmt: skip
    sums = rows.groupby([*whole, part], sort=False)["bytes"].sum().reset_index()
    sums = sums.join(runs, on=by).join(totals, on=whole)
    return sums.assign(bytes=sums["bytes"] / sums["n"], total=sums["total"] / sums["n"])


def fate_bytes(booked: pd.DataFrame) -> pd.DataFrame:
    """Return `booked` rows (see communication.booked) by fate, with the columns fate and bytes added;
    fates without bytes have no row.
    """
    came = booked["fate"] == "delivered"
    parts = [
        booked[came].assign(bytes=lambda rows: rows["payload"]),
        booked[came].assign(fate="overhead", bytes=lambda rows: rows["wasted"]),
        booked[~came].assign(bytes=lambda rows: rows["wire"]),
    ]
    rows = pd.concat(parts, ignore_index=True)
    return rows[rows["bytes"] > 0]


def by_fate(booked: pd.DataFrame, points: pd.DataFrame, by: list[str]) -> pd.DataFrame:
    """Return mean bytes over replicates: `by`, kind, fate, bytes, n, and of the step's bar total and total_sd.

    `booked` are the rows of all points, with `by` and `run`.
    """
    return mean_parts(fate_bytes(booked), points, by, "fate", bar=["kind"])
