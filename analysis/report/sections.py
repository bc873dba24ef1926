"""Parts of the report's sections: tables of cost, losses, bytes and computing, each with an explanation."""

import math
from typing import Any

import numpy as np
import pandas as pd

from analysis.axes import joined
from analysis.quantity import BYTES, COUNT, MISSING, PERCENT, SECONDS, VERSIONS
from analysis.read.load import RECOVERY
from analysis.report.cells import figure, placed, plain, points, whole
from analysis.report.page import Cell, paragraph
from analysis.report.sheet import figures_table, part
from analysis.statistics.answer import Races, incomplete
from analysis.statistics.spread import over_replicates

COLUMNS = [  # heading, column, units
    ("simulated time", "sim_seconds", SECONDS),
    ("payload up", "bytes_up", BYTES),
    ("payload down", "bytes_down", BYTES),
    ("payload between peers", "bytes_peer", BYTES),
    ("updates", "updates", COUNT),
    ("updates per period", "updates_per_period", COUNT),
    ("staleness", "staleness", VERSIONS),
    ("computing per job", "client_seconds", SECONDS),
    ("computing per update", "server_seconds", SECONDS),
    ("time to target", "seconds_to_target", SECONDS),
    ("bytes to target", "bytes_to_target", BYTES),
    ("periods met at the target", "periods_at_target", COUNT),
]
LOST = ["lost", "late", "refused"]
SERVED = {
    "worst tenth of clients": "worst_decile",
    "evenness of scores": "score_jain",
    "clients that took part": "took_part",
    "evenness of uploads": "upload_jain",
    "classes that they hold": "classes_covered",
}
COMPUTING = {
    "per client job": "client_seconds", "per server update": "server_seconds",
    "all clients, whole run": "client_total", "server, whole run": "server_total",
    "real time per trained run": "real_seconds",
}  # fmt: skip


def firsts_frame(known: Races) -> pd.DataFrame:
    """Return who is first in each condition: for each measure the leaders, their best mean, who is next, its mean, who
    has it in some runs only, and of how many runs how many met the target at the first score that counts.
    """
    rows = []
    for races in zip(known.times, known.moved, known.best, strict=True):
        row: dict[str, Any] = {**races[0].condition}
        for name, race in zip(("time", "bytes", "score"), races, strict=True):
            facts = {
                "first": " / ".join(race.leaders), "mean": race.means.get("".join(race.leaders[:1])),
                "next": race.next, "next_mean": race.means.get(race.next), "tested": race.tested,
                "in_some_runs": incomplete(race), "at_first": race.at_first, "runs": race.known,
            }  # fmt: skip
            row |= {f"{name}_{fact}": value for fact, value in facts.items()}
        rows.append(row)
    return pd.DataFrame(rows)


def each_period(targets: pd.DataFrame, by: list[str]) -> str:
    """Return a table of the cost of the target on each period (see digest.Digest); "" if the target is not on each."""
    if targets.empty:
        return ""
    got = targets.assign(reached=targets["seconds"].notna())
    frame = over_replicates(got, [*by, "period"], ["seconds", "bytes", "periods"])
    sums = got.groupby([*by, "period"], sort=False, dropna=False)[["reached", "at_first"]].sum()
    frame[["reached", "at_first"]] = sums.to_numpy(int)
    columns = [
        ("period", whole("period")),
        ("reached", _reached),
        ("time", figure("seconds", SECONDS)),
        ("bytes", figure("bytes", BYTES)),
        ("periods met by then", figure("periods", COUNT)),
        ("at the first score", whole("at_first")),
    ]
    return part("each", "Period by period", figures_table(frame, by, columns, "targets", "each_period"))


def _reached(row: "pd.Series[Any]") -> Cell:
    """Return a cell of how many of a row's runs reached the target."""
    return Cell(f"{row['reached']} of {row['n']}", row["reached"] / row["n"])


def recovery(means: pd.DataFrame, axes: list[str], score: str) -> str:
    """Return a table of how long after an arrival the score over what has been met is at the target again."""
    frame = means[means["arrivals"].notna()]
    heads = ["arrivals", "at the target again after", "in one scoring", "never"]
    units = [COUNT, SECONDS, COUNT, COUNT]
    columns = [(head, figure(name, unit)) for head, name, unit in zip(heads, RECOVERY, units, strict=True)]
    return figures_table(frame, [*axes, "algorithm"], columns, "summary", "recovery", RECOVERY, score=score)


def summary(means: pd.DataFrame, axes: list[str], score: str) -> str:
    """Return the table with one row for each condition and algorithm, means over replicates."""
    shares = {"AM": "am", "LA": "la", "FM": "fm"}
    same = bool(np.allclose(means["am"], means["score"], rtol=0, atol=1e-9))
    shares = {head: name for head, name in shares.items() if means[name].notna().any() and not (same and head == "AM")}
    columns = [("n", whole("n")), (score, figure("score", PERCENT))]
    columns += [(head, points(name)) for head, name in shares.items()]
    columns += [
        ("prequential", figure("prequential", PERCENT)),
        ("reached", lambda row: Cell(MISSING, "") if math.isnan(row["target"]) else _reached(row)),
    ]
    columns += [(head, figure(name, units)) for head, name, units in COLUMNS]
    facts = {"several": means["n"].max() > 1, "shares": joined([*shares])}
    by = [*axes, "algorithm"]
    return part("summary", "All figures", figures_table(means, by, columns, "summary", **facts))


def losses(means: pd.DataFrame, axes: list[str]) -> str:
    """Return the part on clients asked and on replies folded, lost, late and refused; a sentence if all went well."""
    if not (means[LOST].fillna(0) > 0).any(axis=None):
        return part("losses", "Lost and late replies", paragraph("Every client that was asked replied in time."))
    names = ["asked", "folded", *(name for name in LOST if (means[name] > 0).any())]
    shares = {f"share_{name}": means[name] / means["asked"].where(means["asked"] != 0) for name in ("lost", "late")}
    columns = [({"folded": "aggregated"}.get(name, name), figure(name, COUNT)) for name in names]
    columns += [(name.replace("_", " "), plain(name, PERCENT)) for name in shares]
    columns.append(("staleness", figure("staleness", VERSIONS)))
    frame, by = means.assign(**shares), [*axes, "algorithm"]
    rows = figures_table(frame, by, columns, "summary", "losses", names, refused="refused" in names)
    return part("losses", "Lost and late replies", rows)


def served(means: pd.DataFrame, axes: list[str]) -> str:
    """Return the part on how evenly clients are served and take part (see served.served); "" if nothing says."""
    known = {head: name for head, name in SERVED.items() if means[name].notna().any()}
    if not known:
        return ""
    columns = [(head, figure(name, PERCENT)) for head, name in known.items()]
    rows = figures_table(means, [*axes, "algorithm"], columns, "summary", "evenness", [*known.values()])
    return part("evenness", "Clients, evenly or not", rows)


def wasted(frame: pd.DataFrame, axes: list[str]) -> str:
    """Return a table of wasted bytes by cause (see tables.wasted_bytes); "" if nothing was."""
    if not (frame["wasted"] > 0).any():
        return ""
    causes = {"late": "late", "discarded": "discarded", "aborted": "broken", "all": "wasted"}
    causes = {head: column for head, column in causes.items() if head == "all" or (frame[column] > 0).any()}
    columns = [(head, figure(column, BYTES)) for head, column in causes.items()]
    rows = figures_table(frame, [*axes, "algorithm"], columns, "bytes_wasted", "wasted", [*causes.values()])
    return part("wasted", "Wasted bytes, by cause", rows)


def transfer_times(frame: pd.DataFrame, axes: list[str]) -> str:
    """Return the part on how long delivered messages took (see tables.transfer_times)."""
    lengths = {"median": "median", "95th percentile": "p95", "longest": "largest"}
    columns = [("transfers", plain("transfers", COUNT))]
    columns += [(head, plain(column, SECONDS)) for head, column in lengths.items()]
    by = [*axes, "algorithm", "direction"]
    return part("times", "Transfer times", figures_table(frame, by, columns, "transfer_times"))


def periods(means: pd.DataFrame, axes: list[str], score: str) -> str:
    """Return a table of the updates per period, prequential and the score (see tables.means)."""
    settle = ["updates_per_period", "prequential", "score"]
    columns = [("updates per period", figure(settle[0], COUNT))]
    columns += [("prequential", figure("prequential", PERCENT)), (score, figure("score", PERCENT))]
    return figures_table(means, [*axes, "algorithm"], columns, "periods", settle=settle)


def compute_time(frame: pd.DataFrame, axes: list[str]) -> str:
    """Return the part on computing (see compute_time.compute_times)."""
    columns = [("rank", whole("rank")), ("algorithm", lambda row: placed(row, ["algorithm"])[0]), ("n", whole("n"))]
    columns += [(head, figure(column, SECONDS)) for head, column in COMPUTING.items()]
    settle = [*COMPUTING.values()][:4]
    return part("computing", "Computing time", figures_table(frame, axes, columns, "compute_time", settle=settle))
