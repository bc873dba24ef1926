"""The report's tables and words: what was run, the summary, losses, robustness areas, the glossary."""

import math
from html import escape

import pandas as pd

from analysis.axes import ordered, replicates, short
from analysis.cells import figure, key, placed, points
from analysis.load import Runs
from analysis.page import Cell, glossary, paragraph, section, table, text
from analysis.quantity import BYTES, COUNT, MISSING, PERCENT, SECONDS, VERSIONS, show
from analysis.verdict import answers, overall

COLUMNS = [  # heading, column, units
    ("simulated time", "sim_seconds", SECONDS),
    ("up", "bytes_up", BYTES),
    ("down", "bytes_down", BYTES),
    ("between peers", "bytes_peer", BYTES),
    ("wasted", "bytes_wasted", BYTES),
    ("updates", "updates", COUNT),
    ("updates a period", "updates_per_period", COUNT),
    ("staleness", "staleness", VERSIONS),
    ("computing a job", "client_seconds", SECONDS),
    ("computing an update", "server_seconds", SECONDS),
    ("time to target", "seconds_to_target", SECONDS),
    ("bytes to target", "bytes_to_target", BYTES),
]
REACHED = ["seconds_to_target", "bytes_to_target"]
TERMS = {
    "point": "one combination of the sweep's axes and one replicate: one simulated training run",
    "replicate": "one of several runs of the same condition, which differ in what was drawn: in `seed`, or in an axis "
    "that ends so, such as data.split.numpy_seed, which draws the split and the order of the tasks",
    "simulated time": "seconds on the simulation's clock, network and computing included; not real time",
    "update": "one folding of clients' replies into the server's model",
    "up, down": "payload bytes delivered to the server, and from it to clients",
    "between peers": "payload bytes that clients delivered to one another, past any server",
    "wasted": "all other bytes that moved: headers, repeats, transfers that broke off, replies too late to count or "
    "discarded by the protocol's rule",
    "overhead": "headers and repeats of what was delivered",
    "broken off": "transfers that were cut, or lost before a byte had moved",
    "moved on the wire": "everything that went over the links: delivered payload and wasted bytes",
    "transfer time": "of a message that was delivered, from the second in which it was sent to that in which its "
    "transfer ended: waiting for the link, the handshake and all repeats included",
    "asked, folded, lost, late": "clients asked for a reply; replies used; clients or replies that vanished; those "
    "that came when nobody waited any more",
    "score": "the metric over all clients' vertices, mean over the periods met so far; the last one of a run",
    "AM": "average of the scores on all periods once the last has been learned, in percentage points",
    "LA": "learning accuracy: the score on each period right after it was learned, mean over the periods, in "
    "percentage points; of snapshots that are scored ahead it is the mean over the snapshots trained on, where the "
    "score is that of the last one alone; an en dash for a single period",
    "FM": "forgetting: how far the scores on earlier periods have fallen since each was learned, mean, in percentage "
    "points; negative if they rose; an en dash for a single period",
    "prequential": "the score on a period when it reached a client, by the model of that moment, before anything was "
    "trained on it: pooled over clients, mean over periods; what arrived at second 0 is left out",
    "updates a period": "the server's updates from a client's arrival of a period to its next, or to the end of the "
    "run: mean over all arrivals",
    "staleness": "by how many versions the folded replies were behind the server's, mean over replies; among peers, by "
    "how many rounds a share was behind its receiver, negative where the senders were ahead",
    "target": "the score at which time and bytes are read off: the first time it is met, even if lost again later",
    "computing a job, an update": "mean simulated seconds that a client computes for one job, and that the server and "
    "edge aggregators compute for one update, without what is spent waiting",
    "participation": "the share of clients that take part in an update",
    "robustness": "AM (score, where there is one period) as a share of that under the easiest value of an axis, of the "
    "same replicate; the area is 100 % if nothing is lost",
    "±": "one standard deviation over replicates (n - 1); absent for a single one",
    "95 % interval": "Student's t: over the means of the orders where there are several, else over the seeds",
    MISSING: "does not apply, or never happened",
}


def what_was_run(runs: Runs, finished: pd.DataFrame) -> str:
    """Return the section that tells axes, replicates, versions, failed and stalled points, and scenarios as given."""
    axes = [*runs.axes, "algorithm", *replicates(finished.columns)]
    rows = [[text(axis), Cell(", ".join(ordered(finished[axis].astype(str))), "", "prose")] for axis in axes]
    for name, values in _versions(runs).items():
        rows.append([text(f"version of {name}"), Cell(", ".join(values), "", "prose")])
    seconds = show(finished["real_seconds"].sum(), SECONDS)
    done, listed = len(finished), len(runs.points)
    words = f"{done} of {listed} points have results, made in {seconds} of computing."
    parts = [paragraph(words), table(["what", "values"], rows)]
    odd = runs.points[runs.points["status"] != "done"]
    if len(odd):
        heads = ["point", "status", *axes]
        cells = [[text(str(row[head]) or MISSING) for head in heads] for _, row in odd.iterrows()]
        note = (
            "A failed point is missing from everything above. A stalled one, where nothing more could happen before "
            "the protocol was through, is in it, with what it had come to."
        )
        parts += ["<h3>Points that did not end well</h3>", table(heads, cells), paragraph(note, "note")]
    for run, given in runs.scenarios.items():
        parts.append(
            f"<details><summary>Scenario {escape(run)}, as given</summary><pre>{escape(given)}</pre></details>"
        )
    return section("run", "What was run", *parts)


def first(means: pd.DataFrame, axes: list[str]) -> str:
    """Return the section that answers which algorithm reaches the target first."""
    found = answers(means, axes)
    rows = [
        [text(answer.condition, i), Cell(answer.sentence, answer.first or "", "prose")]
        for i, answer in enumerate(found)
    ]
    summary = overall(found) or found[0].sentence
    parts = [paragraph(summary, "first")]
    if (means["reached"] == means["n"]).any() and means["seconds_to_target"].notna().any():
        parts.append(_firsts(means, axes))
    if len(found) > 1:
        parts.append(table(["condition", "answer"], rows))
    note = "Computed from means over replicates: first means the smallest mean, whatever the spread."
    return section("first", "Which is first", *parts, paragraph(note, "note"))


def _firsts(means: pd.DataFrame, axes: list[str]) -> str:
    """Return a table of who is first to the target, at what bytes, and who is cheapest, one row a condition."""
    rows = []
    sure = means[means["reached"] == means["n"]]
    for _, group in means.groupby(axes, sort=False, dropna=False) if axes else [((), means)]:
        there = sure.loc[sure.index.intersection(group.index)].dropna(subset=REACHED)
        cells = placed(group.iloc[0], axes)
        for column in REACHED:
            if there.empty:
                cells += [text(MISSING, ""), *(Cell(MISSING, "") for _ in REACHED)]
            else:
                best = there.sort_values(column, kind="stable").iloc[0]
                cells.append(text(best["algorithm"]))
                cells += [figure(best, name, units) for name, units in zip(REACHED, (SECONDS, BYTES), strict=True)]
        rows.append(cells)
    heads = [*map(short, axes), "first", "after", "for", "cheapest", "after", "for"]
    return table(heads, rows)


def summary(means: pd.DataFrame, axes: list[str]) -> str:
    """Return the section with one row a condition and algorithm, mean ± sd over replicates."""
    heads = [
        *map(short, axes),
        "algorithm",
        "n",
        "score",
        "AM",
        "LA",
        "FM",
        "prequential",
        "reached",
        *(head for head, _, _ in COLUMNS),
    ]
    rows = []
    for _, row in means.iterrows():
        n, reached = int(row["n"]), int(row["reached"])
        untargeted = math.isnan(row["target"])
        cells = [*placed(row, [*axes, "algorithm"]), Cell(str(n), n), figure(row, "score", PERCENT)]
        cells += [points(row[name], row[f"{name}_sd"]) for name in ("am", "la", "fm")]
        cells.append(figure(row, "prequential", PERCENT))
        cells.append(Cell(MISSING, "") if untargeted else Cell(f"{reached} of {n}", reached / n))
        rows.append(cells + [figure(row, name, units) for _, name, units in COLUMNS])
    note = (
        "Mean ± one standard deviation over n replicates. AM, LA and FM in percentage points. Click a heading to sort."
    )
    return section("summary", "Summary", table(*_told(heads, rows, len(axes) + 2)), paragraph(note, "note"))


def _told(heads: list[str], rows: list[list[Cell]], first: int) -> tuple[list[str], list[list[Cell]]]:
    """Return the table without the columns, from the `first` on, that have nothing to tell of any row."""
    kept = [i for i in range(len(heads)) if i < first or any(row[i].shown != MISSING for row in rows)]
    return [heads[i] for i in kept], [[row[i] for i in kept] for row in rows]


def losses(means: pd.DataFrame, axes: list[str]) -> str:
    """Return the section on clients asked, replies folded, lost, late and (where there were any) refused, per run."""
    names = ["asked", "folded", "lost", "late", *(["refused"] if (means["refused"] > 0).any() else [])]
    heads = [*map(short, axes), "algorithm", *names, "lost, share", "late, share", "staleness"]
    rows = []
    for _, row in means.iterrows():
        cells = placed(row, [*axes, "algorithm"])
        cells += [figure(row, name, COUNT) for name in names]
        for name in ("lost", "late"):
            share = row[name] / row["asked"] if row["asked"] else float("nan")
            cells.append(Cell(show(share, PERCENT), key(share)))
        rows.append([*cells, figure(row, "staleness", VERSIONS)])
    note = "Totals of a run, mean ± standard deviation over replicates; staleness of the folded replies, in versions."
    if "refused" in names:
        note += " Refused replies held numbers that are infinite or none."
    return section("losses", "Losses and late replies", table(heads, rows), paragraph(note, "note"))


def wasted(frame: pd.DataFrame, axes: list[str]) -> str:
    """Return a table of wasted bytes by cause (see tables.wasted_bytes)."""
    causes = {"overhead": "overhead", "late": "late", "discarded": "discarded", "broken off": "broken", "all": "wasted"}
    rows = [
        placed(row, [*axes, "algorithm"]) + [figure(row, column, BYTES) for column in causes.values()]
        for _, row in frame.iterrows()
    ]
    return "<h3>Wasted bytes, by cause</h3>" + table([*map(short, axes), "algorithm", *causes], rows)


def transfer_times(frame: pd.DataFrame, axes: list[str]) -> str:
    """Return the section on how long delivered messages took (see tables.transfer_times)."""
    columns = {"median": "median", "95th percentile": "p95", "largest": "largest"}
    rows = [
        placed(row, [*axes, "algorithm", "direction"])
        + [Cell(show(row["transfers"], COUNT), row["transfers"])]
        + [Cell(show(row[column], SECONDS), key(row[column])) for column in columns.values()]
        for _, row in frame.iterrows()
    ]
    note = "Delivered messages only, those of all replicates together; from a message's sending to its transfer's end."
    heads = [*map(short, axes), "algorithm", "direction", "transfers", *columns]
    return section("times", "Transfer times", table(heads, rows), paragraph(note, "note"))


def periods(means: pd.DataFrame, axes: list[str], score: str) -> str:
    """Return a table of the updates had per period, prequential and final score (see tables.means)."""
    heads = [*map(short, axes), "algorithm", "updates a period", "prequential", f"final {score}"]
    rows = [
        [*placed(row, [*axes, "algorithm"]), figure(row, "updates_per_period", COUNT)]
        + [figure(row, name, PERCENT) for name in ("prequential", "score")]
        for _, row in means.iterrows()
    ]
    return table(heads, rows)


def areas(frame: pd.DataFrame, axis: str, others: list[str], reference: str, what: str) -> str:
    """Return a table of the area under the robustness curve: columns algorithm, `others`, n, area, area_sd."""
    heads = [*map(short, others), "algorithm", f"area of {what} over {short(axis)}"]
    rows = [[*placed(row, [*others, "algorithm"]), figure(row, "area", PERCENT)] for _, row in frame.iterrows()]
    note = f"Area under the shares of the {what} at {short(axis)} {reference}; 100 % loses nothing."
    return table(heads, rows) + paragraph(note, "note")


def compute_time(frame: pd.DataFrame, axes: list[str]) -> str:
    """Return the section on computing (see compute_time.compute_times)."""
    columns = {"a client's job": "client_seconds", "a server's update": "server_seconds"}
    columns |= {"all clients, whole run": "client_total", "server, whole run": "server_total"}
    columns |= {"real time of a point": "real_seconds"}
    heads = [*map(short, axes), "rank", "algorithm", "n", *columns]
    rows = [
        [*placed(row, axes), Cell(str(row["rank"]), row["rank"]), *placed(row, ["algorithm"])]
        + [Cell(str(row["n"]), row["n"])]
        + [figure(row, column, SECONDS) for column in columns.values()]
        for _, row in frame.iterrows()
    ]
    note = (
        "Simulated seconds of computing, which follow from operations over a node's speed: of a client's job and of a "
        "server's update, mean ± standard deviation over replicates. The rank is by job and update together, the least "
        "first; what is not known counts nothing. An algorithm that asks for several steps a round has as many jobs, "
        "which the whole run shows. Real time is the host's for a whole point, with set-up and scoring, and "
        "depends on what else the host did."
    )
    table_of = table(*_told(heads, rows, len(axes) + 3))
    return section("computing", "Computing time", table_of, paragraph(note, "note"))


def words() -> str:
    """Return the glossary."""
    return section("words", "Words", glossary(TERMS))


def _versions(runs: Runs) -> dict[str, list[str]]:
    found: dict[str, set[str]] = {}
    for versions in runs.versions.values():
        for name, value in versions.items():
            found.setdefault(name, set()).add(value)
    return {name: sorted(values) for name, values in found.items()}
