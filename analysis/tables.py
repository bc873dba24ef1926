"""The frames behind a report: each is written as a CSV and drawn or printed from.

`by` below is the sweep's axes followed by the algorithm: what tells conditions apart; their replicates are averaged.
"""

from collections.abc import Callable

import pandas as pd

from analysis.arrivals import prequential_scores, updates_had
from analysis.axes import ordered, replicates
from analysis.communication import by_client, by_direction, by_step, durations, wasted_parts
from analysis.forgetting import matrix
from analysis.frontier import curve, pareto
from analysis.load import COUNTS, Runs
from analysis.spread import over_replicates

FIGURES = ["score", "am", "la", "fm", "prequential", "sim_seconds", *COUNTS, "updates_per_period", "staleness"]
FIGURES += ["bytes_up", "bytes_down", "bytes_peer", "bytes_wasted", "bytes_moved", "client_seconds", "server_seconds"]
REACHED = ["target", "seconds_to_target", "bytes_to_target"]


def finished(runs: Runs) -> pd.DataFrame:
    """Return the finished points in the order of their axes, with bytes_moved (on the wire, all directions)."""
    points = runs.points[runs.points["status"] != "failed"]
    transfers = runs.split("transfers")
    points = points.assign(bytes_moved=[float(transfers[str(p)]["wire_bytes"].sum()) for p in points["point"]])
    ranks = {axis: {value: i for i, value in enumerate(ordered(points[axis]))} for axis in runs.axes}
    order = sorted(range(len(points)), key=lambda i: [ranks[axis][points[axis].iloc[i]] for axis in runs.axes])
    return points.iloc[order].reset_index(drop=True)


def means(points: pd.DataFrame, by: list[str]) -> pd.DataFrame:
    """Return every figure's mean and `_sd` over replicates, with n, reached (runs that reached the target)."""
    rows = over_replicates(points, by, [*FIGURES, *REACHED])
    reached = points.assign(reached=points["seconds_to_target"].notna()).groupby(by, sort=False)["reached"].sum()
    rows["reached"] = reached.to_numpy(int)
    for name, cost in (("frontier_bytes", "bytes_moved"), ("frontier_time", "sim_seconds")):
        rows[name] = pareto(rows, cost)
    return rows


def curves(runs: Runs, points: pd.DataFrame, by: list[str]) -> pd.DataFrame:
    """Return every point's curve (see frontier.curve), with `by`, replicates and point."""
    scores, transfers = runs.split("scores"), runs.split("transfers")
    heads = _headlines(points)
    return _each(points, by, lambda point: curve(scores[point], transfers[point], *heads[point]))


def direction_bytes(runs: Runs, points: pd.DataFrame, by: list[str]) -> pd.DataFrame:
    """Return mean bytes by direction (up, down, peer: delivered payload; wasted: the rest), n, total, total_sd."""
    transfers = runs.split("transfers")

    def of(point: str) -> pd.DataFrame:
        rows = by_direction(transfers[point])
        wasted = pd.DataFrame({"direction": ["wasted"], "bytes": [rows["wasted"].sum()]})
        paid = pd.DataFrame({"direction": rows["direction"], "bytes": rows["payload"]})
        return pd.concat([paid, wasted], ignore_index=True)

    return _mean_parts(_each(points, by, of), points, by, "direction")


def step_bytes(runs: Runs, points: pd.DataFrame, by: list[str]) -> pd.DataFrame:
    """Return mean wire bytes by step (kind), both directions together, n, total, total_sd."""
    transfers = runs.split("transfers")

    def of(point: str) -> pd.DataFrame:
        sums = by_step(transfers[point]).groupby("kind", as_index=False)[["wire"]].sum()
        return pd.DataFrame({"kind": sums["kind"], "bytes": sums["wire"]})

    return _mean_parts(_each(points, by, of), points, by, "kind")


def wasted_bytes(runs: Runs, points: pd.DataFrame, by: list[str]) -> pd.DataFrame:
    """Return mean wasted bytes and `_sd` by cause (see communication.wasted_parts), with n and their sum, `wasted`."""
    transfers = runs.split("transfers")
    parts = _each(points, by, lambda point: pd.DataFrame([wasted_parts(transfers[point])]))
    causes = [column for column in parts.columns if column not in [*by, *replicates(points.columns), "point"]]
    return over_replicates(parts.assign(wasted=parts[causes].sum(axis=1)), by, [*causes, "wasted"])


def transfer_times(runs: Runs, points: pd.DataFrame, by: list[str]) -> pd.DataFrame:
    """Return how long delivered messages took: `by`, direction, transfers (count), median, p95, largest (seconds).

    The messages of all replicates count together, so that a quantile is one of messages and not a mean of quantiles.
    """
    transfers, frames = runs.split("transfers"), []
    for _, group in points.groupby(by, sort=False, dropna=False):
        took = pd.concat([durations(transfers[str(point)]) for point in group["point"]], ignore_index=True)
        cells = took.groupby("direction")["seconds"]
        parts = {
            "transfers": cells.size(),
            "median": cells.median(),
            "p95": cells.quantile(0.95),
            "largest": cells.max(),
        }
        found = pd.DataFrame(parts).reset_index()
        for place, name in enumerate(by):
            found.insert(place, name, group[name].iloc[0])
        frames.append(found)
    return pd.concat(frames, ignore_index=True)


def periods(runs: Runs, points: pd.DataFrame, by: list[str]) -> pd.DataFrame:
    """Return what each period (from 1) was given, mean and `_sd` over runs: `by`, period, n, updates, prequential.

    `updates` is the mean number of the server's updates from a client's arrival to its next; see arrivals.updates_had.
    """
    arrivals, updates, scores = runs.split("arrivals"), runs.split("updates"), runs.split("scores")
    heads = _headlines(points)

    def of(point: str) -> pd.DataFrame:
        had = updates_had(arrivals[point], updates[point]).groupby("period", as_index=False)[["updates"]].mean()
        foreseen = prequential_scores(scores[point], *heads[point]).rename(columns={"value": "prequential"})
        rows = had.merge(foreseen, on="period", how="left")
        return rows.assign(period=rows["period"] + 1)

    cells = _each(points, by, of)
    return over_replicates(cells, [*by, "period"], ["updates", "prequential"]) if len(cells) else cells


def client_bytes(runs: Runs, points: pd.DataFrame, by: list[str]) -> pd.DataFrame:
    """Return every point's bytes by client and direction (see communication.by_client)."""
    transfers = runs.split("transfers")
    return _each(points, by, lambda point: by_client(transfers[point]))


def forgetting_matrices(runs: Runs, points: pd.DataFrame, by: list[str]) -> pd.DataFrame:
    """Return mean A[i][j] over runs: `by`, learned (i + 1), tested (j + 1), value, value_sd, n; no empty cells."""
    scores = runs.split("scores")
    heads = _headlines(points)

    def of(point: str) -> pd.DataFrame:
        A = matrix(scores[point], *heads[point])
        cells = [(i + 1, j + 1, A[i, j]) for i in range(len(A)) for j in range(i + 1)]
        return pd.DataFrame(cells, columns=["learned", "tested", "value"]).dropna()

    cells = _each(points, by, of)
    return over_replicates(cells, [*by, "learned", "tested"], ["value"]) if len(cells) else cells


def _each(points: pd.DataFrame, by: list[str], of: Callable[[str], pd.DataFrame]) -> pd.DataFrame:
    frames = []
    for _, row in points.iterrows():
        frame = of(str(row["point"]))
        for place, name in enumerate([*by, *replicates(points.columns), "point"]):
            frame.insert(place, name, str(row[name]))
        frames.append(frame)
    filled = [frame for frame in frames if len(frame)]
    return pd.concat(filled or frames[:1], ignore_index=True)


def _mean_parts(rows: pd.DataFrame, points: pd.DataFrame, by: list[str], part: str) -> pd.DataFrame:
    """Average over replicates, with total and total_sd of all parts together.

    A run without a part sent no bytes of it, which counts as zero.
    """
    runs = points.groupby(by, sort=False).size().rename("n")
    wholes = rows.groupby([*by, "point"], sort=False)["bytes"].sum().groupby(by, sort=False)
    totals = pd.DataFrame({"total": wholes.mean(), "total_sd": wholes.std(ddof=1)})
    sums = rows.groupby([*by, part], sort=False)["bytes"].sum().reset_index()
    sums = sums.join(runs, on=by).join(totals, on=by)
    return sums.assign(bytes=sums["bytes"] / sums["n"])


def _headlines(points: pd.DataFrame) -> dict[str, tuple[str, str, str]]:
    """Return each point's headline: model, metric and split."""
    columns = points[["point", "scored_model", "metric", "scored_split"]]
    return {str(point): (model, metric, split) for point, model, metric, split in columns.itertuples(index=False)}
