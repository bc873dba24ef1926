"""Parts of the report's sections: tables of cost, losses, bytes and computing, each with an explanation."""

import math

import numpy as np
import pandas as pd

from analysis.answer import Races, incomplete
from analysis.axes import short
from analysis.cells import figure, key, placed, points, spread_in_words
from analysis.groups import joined
from analysis.load import RECOVERY
from analysis.page import Cell, paragraph
from analysis.quantity import BYTES, COUNT, MISSING, PERCENT, SECONDS, VERSIONS, show
from analysis.sheet import part, sheet
from analysis.spread import over_replicates
from analysis.unchanging import settled

COLUMNS = [  # heading, column, units
    ("simulated time", "sim_seconds", SECONDS),
    ("up", "bytes_up", BYTES),
    ("down", "bytes_down", BYTES),
    ("between peers", "bytes_peer", BYTES),
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


def firsts_frame(known: Races) -> pd.DataFrame:
    """Return who is first in each condition: for each measure the leaders, their best mean, who is next, its mean, who
    has it in some runs only, and of how many runs how many met the target at the first score that counts.
    """
    rows = [
        {**one[0].condition, **{
            f"{name}_{key}": value
            for name, found in zip(("time", "bytes", "score"), one, strict=True)
            for key, value in (
                ("first", " / ".join(found.leaders)), ("mean", found.means.get("".join(found.leaders[:1]))),
                ("next", found.next), ("next_mean", found.means.get(found.next)), ("tested", found.tested),
                ("in_some_runs", incomplete(found)), ("at_first", found.at_first), ("runs", found.known),
            )
        }}
        for one in zip(known.times, known.moved, known.best, strict=True)
    ]  # fmt: skip
    return pd.DataFrame(rows)


def each_period(targets: pd.DataFrame, by: list[str]) -> str:
    """Return a table of the cost of the target on each period (see digest.Digest); "" if the target is not on each."""
    if targets.empty:
        return ""
    got = targets.assign(reached=targets["seconds"].notna())
    frame = over_replicates(got, [*by, "period"], ["seconds", "bytes", "periods"])
    sums = got.groupby([*by, "period"], sort=False, dropna=False)[["reached", "at_first"]].sum()
    frame[["reached", "at_first"]] = sums.to_numpy(int)
    rows = [
        [*placed(row, by), Cell(f"{row['period']:.0f}", row["period"])]
        + [Cell(f"{row['reached']} of {row['n']}", row["reached"] / row["n"])]
        + [figure(row, name, units) for name, units in (("seconds", SECONDS), ("bytes", BYTES), ("periods", COUNT))]
        + [Cell(str(row["at_first"]), row["at_first"])]
        for _, row in frame.iterrows()
    ]
    heads = [*map(short, by), "period", "reached", "time", "bytes", "periods met by then", "at the first score"]
    note = (
        "From the arrival of a period at a client to the first score on that period at or above the target, and the "
        f"bytes moved meanwhile: means over the clients and over the runs that reached it{spread_in_words(frame)}. "
        "Runs that were there at the first score that counted say only when counting began."
    )
    return part("each", "Period by period", sheet(heads, rows, "targets", len(by), note))


def recovery(means: pd.DataFrame, axes: list[str], score: str) -> str:
    """Return a table of how long after an arrival the score over what has been met is at the target again."""
    frame = means[means["arrivals"].notna()]
    frame, axes, same = settled(frame, axes, [*RECOVERY])
    heads = [*map(short, axes), "algorithm", "arrivals", "at the target again after", "in one scoring", "never"]
    rows = [
        [*placed(row, [*axes, "algorithm"]), figure(row, "arrivals", COUNT), figure(row, "recovery_seconds", SECONDS)]
        + [figure(row, name, COUNT) for name in ("recovery_at_first", "never_recovered")]
        for _, row in frame.iterrows()
    ]
    note = (
        f"From each arrival after second 0 to the first scoring at which the {score} over the periods met so far is at "
        f"the target: mean over the arrivals that it came back from, in one scoring or more, then over runs"
        f"{spread_in_words(frame)}. The score over the periods met is on a new test after each arrival. {same}"
    )
    return sheet(heads, rows, "summary", len(axes) + 1, note)


def summary(means: pd.DataFrame, axes: list[str], score: str) -> str:
    """Return the table with one row for each condition and algorithm, means over replicates."""
    shares = {"AM": "am", "LA": "la", "FM": "fm"}
    same = bool(np.allclose(means["am"], means["score"], rtol=0, atol=1e-9))
    shares = {head: name for head, name in shares.items() if means[name].notna().any() and not (same and head == "AM")}
    heads = [*map(short, axes), "algorithm", "n", score, *shares, "prequential", "reached"]
    heads += [head for head, _, _ in COLUMNS]
    rows = []
    for _, row in means.iterrows():
        n, reached = int(row["n"]), int(row["reached"])
        untargeted = math.isnan(row["target"])
        cells = [*placed(row, [*axes, "algorithm"]), Cell(str(n), n), figure(row, "score", PERCENT)]
        cells += [points(row, name) for name in shares.values()]
        cells.append(figure(row, "prequential", PERCENT))
        cells.append(Cell(MISSING, "") if untargeted else Cell(f"{reached} of {n}", reached / n))
        rows.append(cells + [figure(row, name, units) for _, name, units in COLUMNS])
    note = f"Means over n replicates{spread_in_words(means)}." if means["n"].max() > 1 else ""
    note += f" In percentage points: {joined([*shares])}." if shares else ""
    return part("summary", "All figures", sheet(heads, rows, "summary", len(axes) + 2, note))


def losses(means: pd.DataFrame, axes: list[str]) -> str:
    """Return the part on clients asked and on replies folded, lost, late and refused; a sentence if all went well."""
    if not (means[LOST].fillna(0) > 0).any(axis=None):
        return part("losses", "Lost and late replies", paragraph("Every client that was asked replied in time."))
    names = ["asked", "folded", *(name for name in LOST if (means[name] > 0).any())]
    means, axes, same = settled(means, axes, names)
    called = [{"folded": "aggregated"}.get(name, name) for name in names]
    heads = [*map(short, axes), "algorithm", *called, "share lost", "share late", "staleness"]
    rows = []
    for _, row in means.iterrows():
        cells = placed(row, [*axes, "algorithm"])
        cells += [figure(row, name, COUNT) for name in names]
        for name in ("lost", "late"):
            share = row[name] / row["asked"] if row["asked"] else float("nan")
            cells.append(Cell(show(share, PERCENT), key(share)))
        rows.append([*cells, figure(row, "staleness", VERSIONS)])
    note = (
        f"Totals of a run, means over replicates{spread_in_words(means)}; staleness of aggregated replies, in versions."
    )
    if "refused" in names:
        note += " Refused replies held numbers that are not finite."
    return part("losses", "Lost and late replies", sheet(heads, rows, "summary", len(axes) + 1, f"{note} {same}"))


def served(means: pd.DataFrame, axes: list[str]) -> str:
    """Return the part on how evenly clients are served and take part (see served.served); "" if nothing says."""
    columns = {head: name for head, name in SERVED.items() if means[name].notna().any()}
    if not columns:
        return ""
    means, axes, same = settled(means, axes, [*columns.values()])
    rows = [
        [*placed(row, [*axes, "algorithm"]), *(figure(row, name, PERCENT) for name in columns.values())]
        for _, row in means.iterrows()
    ]
    note = (
        f"Of a run's last scores and of its delivered uploads, means over replicates{spread_in_words(means)}. Evenness "
        f"is Jain's index: 100 % if all clients have the same, 1/n if one of n has everything. {same}"
    )
    heads = [*map(short, axes), "algorithm", *columns]
    return part("evenness", "Clients, evenly or not", sheet(heads, rows, "summary", len(axes) + 1, note))


def wasted(frame: pd.DataFrame, axes: list[str]) -> str:
    """Return a table of wasted bytes by cause (see tables.wasted_bytes); "" if nothing was."""
    if not (frame["wasted"] > 0).any():
        return ""
    causes = {"late": "late", "discarded": "discarded", "aborted": "broken", "all": "wasted"}
    causes = {head: column for head, column in causes.items() if head == "all" or (frame[column] > 0).any()}
    frame, axes, same = settled(frame, axes, list(causes.values()))
    rows = [
        placed(row, [*axes, "algorithm"]) + [figure(row, column, BYTES) for column in causes.values()]
        for _, row in frame.iterrows()
    ]
    heads = [*map(short, axes), "algorithm", *causes]
    note = f"Means over replicates{spread_in_words(frame)}. In tables/summary.csv bytes_wasted has the overhead too."
    return part("wasted", "Wasted bytes, by cause", sheet(heads, rows, "bytes_wasted", len(axes) + 1, f"{note} {same}"))


def transfer_times(frame: pd.DataFrame, axes: list[str]) -> str:
    """Return the part on how long delivered messages took (see tables.transfer_times)."""
    columns = {"median": "median", "95th percentile": "p95", "longest": "largest"}
    rows = [
        placed(row, [*axes, "algorithm", "direction"])
        + [Cell(show(row["transfers"], COUNT), row["transfers"])]
        + [Cell(show(row[column], SECONDS), key(row[column])) for column in columns.values()]
        for _, row in frame.iterrows()
    ]
    note = "Delivered messages only, those of all replicates together, from the sending to the end of the transfer."
    heads = [*map(short, axes), "algorithm", "direction", "transfers", *columns]
    return part("times", "Transfer times", sheet(heads, rows, "transfer_times", len(axes) + 2, note))


def periods(means: pd.DataFrame, axes: list[str], score: str) -> str:
    """Return a table of the updates per period, prequential and the score (see tables.means)."""
    means, axes, same = settled(means, axes, ["updates_per_period", "prequential", "score"])
    heads = [*map(short, axes), "algorithm", "updates per period", "prequential", score]
    rows = [
        [*placed(row, [*axes, "algorithm"]), figure(row, "updates_per_period", COUNT)]
        + [figure(row, name, PERCENT) for name in ("prequential", "score")]
        for _, row in means.iterrows()
    ]
    note = (
        "How many updates the server made between a client's arrival of one period and the next, or the end of the "
        f"run; where data arrive by the clock, a slower network leaves fewer. Means over replicates. {same}"
    )
    return sheet(heads, rows, "periods", len(axes) + 1, note)


def areas(frame: pd.DataFrame, axis: str, others: list[str], reference: str, what: str, full: str) -> str:
    """Return a table of the area under the robustness curve: columns algorithm, `others`, n, area, area_sd."""
    heads = [*map(short, others), "algorithm", f"area of {what} over {short(axis)}"]
    rows = [[*placed(row, [*others, "algorithm"]), figure(row, "area", PERCENT)] for _, row in frame.iterrows()]
    note = f"Area under the share of the {what} that is kept of that at {short(axis)} {reference}; 100 % loses nothing."
    return sheet(heads, rows, full, len(others) + 1, note)


def compute_time(frame: pd.DataFrame, axes: list[str]) -> str:
    """Return the part on computing (see compute_time.compute_times)."""
    columns = {"per client job": "client_seconds", "per server update": "server_seconds"}
    columns |= {"all clients, whole run": "client_total", "server, whole run": "server_total"}
    columns |= {"real time per trained point": "real_seconds"}
    frame, axes, same = settled(frame, axes, ["client_seconds", "server_seconds", "client_total", "server_total"])
    heads = [*map(short, axes), "rank", "algorithm", "n", *columns]
    rows = [
        [*placed(row, axes), Cell(str(row["rank"]), row["rank"]), *placed(row, ["algorithm"])]
        + [Cell(str(row["n"]), row["n"])]
        + [figure(row, column, SECONDS) for column in columns.values()]
        for _, row in frame.iterrows()
    ]
    note = (
        "Simulated seconds of computing: operations divided by a node's speed. Means over replicates"
        f"{spread_in_words(frame)}. Ranked by job and update together, least first. An algorithm with several steps "
        "per round has as many jobs, which the figures for the whole run include. Real time is that of the computer "
        f"that ran the simulation, for a whole point with set-up and scoring, without the points that followed what "
        f"another had learned. {same}"
    )
    return part("computing", "Computing time", sheet(heads, rows, "compute_time", len(axes) + 3, note))
