"""The second ledger: what must hold of a point's tables, written from the documentation of their columns.

Nothing of fedsim is imported.  Each check returns sentences, one for each promise that is broken.
"""

import json
import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from links import End, Links, quantity

TABLES = {
    "transfers": "sent arrived src dst kind version nbytes wire_bytes fate",
    "updates": "time version step asked folded lost late staleness refused epsilon wanted",
    "spans": "client start end what",
    "arrivals": "time client period version",
    "partitions": "time snapshot owners vertices edges cut largest moved scanned unowned majority",
    "scores": "time version client period seen model split metric value weight",
}
WHOLE = ("delivered", "late", "discarded")
CLOSE = 1e-9  # seconds, and relative to the time: rounding of sums of times
Findings = Iterator[str]


class Point:
    """A point's row of the summary and its tables, with the scenario that it was given."""

    def __init__(self, folder: Path, row: dict[str, Any], scenario: dict[str, Any], files: dict[str, str]) -> None:
        """Read the tables; raises OSError if one is missing."""
        self.row, self.scenario, self.links = row, scenario, Links(scenario, files)
        self.tables = {name: pd.read_parquet(folder / f"{name}.parquet") for name in TABLES}
        self.protocol = scenario["protocol"]["name"]
        self.topology = scenario["network"]["topology"]["name"]
        self.effects = {effect["name"] for effect in scenario["network"]["effects"]}

    def rows(self, name: str) -> list[Any]:
        """Return the rows of a table as named tuples."""
        return list(self.tables[name].itertuples(index=False))


def check(out: Path, scenario: dict[str, Any], files: dict[str, str]) -> list[str]:
    """Return all findings about a folder of results."""
    summary = pd.read_csv(out / "summary.csv", dtype={"point": str})
    axis = scenario.get("grid", {}).get("network.latency", [None])
    found = [] if len(summary) == len(set(axis)) else [f"the summary has {len(summary)} rows for {len(axis)} points"]
    for row in summary.to_dict("records"):
        folder = out / str(row["point"])
        own = json.loads(json.dumps(scenario))
        if "grid" in own:
            own["network"]["latency"] = row.get("network.latency", row.get("latency", own["network"].get("latency")))
        point = Point(folder, row, own, files)
        for each in (shapes, times, bytes_moved, sums, asks, causes, spans, speeds, loads, arrivals, scores):
            found += [f"{each.__name__}: {finding}" for finding in _few(each(point))]
    return found


def _few(findings: Findings) -> list[str]:
    every = list(findings)
    return every[:2] + ([f"and {len(every) - 2} more"] if len(every) > 2 else [])


def shapes(point: Point) -> Findings:
    """Tables have the documented columns, in that order."""
    for name, columns in TABLES.items():
        if list(point.tables[name].columns) != columns.split():
            yield f"{name} has the columns {list(point.tables[name].columns)}"


def times(point: Point) -> Findings:
    """Times are finite, not negative, not after the end, and do not go back."""
    end, until = point.row["sim_seconds"], point.scenario.get("measure", {}).get("until")
    limit = until.get("time") if isinstance(until, dict) else until
    if limit is not None and end > quantity(limit) * (1 + CLOSE):
        yield f"it ends at {end}, after {limit}"
    for name, columns in {
        "transfers": ["sent", "arrived"], "updates": ["time"], "spans": ["start", "end"], "arrivals": ["time"],
        "scores": ["time"], "partitions": ["time"],
    }.items():  # fmt: skip
        table = point.tables[name]
        values = table[columns].to_numpy(dtype=float)
        if not np.isfinite(values).all() or (values < 0).any():
            yield f"{name} holds times that are negative or not finite"
        if len(values) and not values.max() <= end * (1 + CLOSE):
            yield f"{name} goes on until {values.max()}, after the end at {end}"
        if (np.diff(values[:, -1]) < 0).any():
            yield f"{name} is not in the order of its times"
        if len(columns) == 2 and (values[:, 0] > values[:, 1]).any():
            yield f"{name} holds rows that end before they begin"


def bytes_moved(point: Point) -> Findings:
    """Each message has one fate that fits what moved of it, and no size is negative."""
    for row in point.rows("transfers"):
        if row.nbytes < 0 or row.wire_bytes < 0:
            yield f"a negative size: {row}"
        if row.fate in WHOLE:
            if row.wire_bytes < row.nbytes:
                yield f"less moved than was sent: {row}"
        elif row.fate not in ("cut", "lost") or (row.fate == "lost") != (row.wire_bytes == 0):
            yield f"a fate that does not fit: {row}"
        if row.src == row.dst:
            yield f"a message to itself: {row}"


def _level(node: int) -> int:
    return 0 if node >= 0 else 2 if node == -1 else 1


def sums(point: Point) -> Findings:
    """The summary's sums are those of the tables."""
    moved, updates = point.rows("transfers"), point.tables["updates"]
    came = [row for row in moved if row.fate == "delivered"]
    rise: Counter[int] = Counter()
    for row in came:
        rise[int(np.sign(_level(row.dst) - _level(row.src)))] += int(row.nbytes)
    told = {"bytes_up": rise[1], "bytes_down": rise[-1]}
    if point.topology == "peers" and moved:
        told = {"bytes_peer": rise[0]}
    told["bytes_wasted"] = sum(int(row.wire_bytes) for row in moved) - sum(rise.values())
    counted = updates[updates["step"] != "restart"]
    told["updates"] = int((counted["folded"] > 0).sum())
    told |= {name: int(counted[name].sum()) for name in ("asked", "folded", "lost", "late", "refused") if len(updates)}
    for name, value in told.items():
        if value < 0 or not _same(point.row[name], value):
            yield f"{name} is {point.row[name]} in the summary and {value} in the tables"


def _same(one: float, other: float) -> bool:
    return (math.isnan(one) and other == 0) or abs(one - other) <= 1e-9 * max(abs(one), abs(other))


def asks(point: Point) -> Findings:
    """Each ask is folded, lost, late or refused; versions count; what was folded had been delivered."""
    updates = point.tables["updates"]
    parts = updates[["folded", "lost", "late", "refused"]]
    if (parts < 0).any(axis=None) or (updates["asked"] != parts.sum(axis=1)).any():
        yield "asked is not the sum of folded, lost, late and refused"
    counted = updates[updates["step"] != "restart"]
    if counted["version"].tolist() != (counted["folded"] > 0).cumsum().tolist():
        yield f"the versions are {counted['version'].tolist()[:20]}"
    if (updates["staleness"] < 0).any() or (updates["epsilon"].dropna().diff() < -1e-12).any():
        yield "a negative staleness, or epsilon falls"
    until = point.scenario.get("measure", {}).get("until")
    most = until.get("updates") if isinstance(until, dict) else None
    if most is not None and point.protocol not in ("gossip", "isolated") and len(counted) > most:
        yield f"{len(counted)} updates, and {most} end the run"
    if point.protocol in ("hierarchical", "gossip", "isolated", "replay"):
        return
    moved, folded = point.tables["transfers"], int(counted["folded"].sum())
    ups = moved[(moved["src"] >= 0) & (moved["dst"] == -1)]
    for step, those in counted.groupby("step"):
        came = int(((ups["kind"] == step) & (ups["fate"] == "delivered")).sum())
        if len(moved) and int(those["folded"].sum()) != came:
            yield f"{int(those['folded'].sum())} replies of the step {step} were folded and {came} delivered"
        requests = int(((moved["src"] == -1) & (moved["kind"] == step)).sum())
        if len(moved) and point.protocol in ("sync", "deadline") and int(those["asked"].sum()) > requests:
            yield f"{int(those['asked'].sum())} asks of the step {step} and {requests} requests"
    if len(moved) and folded > len(ups):
        yield f"{folded} replies were folded and {len(ups)} sent"


def causes(point: Point) -> Findings:
    """A client replies once to a request that has reached it, of the version that it had, when its work has ended."""
    if point.protocol in ("gossip", "isolated", "replay"):
        return
    rows = [row for row in point.rows("transfers") if row.kind not in ("repartition", "share", "replay")]
    requests: defaultdict[tuple[Any, ...], list[float]] = defaultdict(list)
    for row in rows:
        if row.dst >= 0 and row.fate in WHOLE:
            requests[row.dst, row.src, row.kind, row.version].append(row.arrived)
    ends = {(span.client, span.end) for span in point.rows("spans") if span.what in ("train", "mask")}
    for row in sorted((row for row in rows if row.src >= 0), key=lambda row: row.sent):
        there = requests[row.src, row.dst, row.kind, row.version]
        if not there or min(there) > row.sent + CLOSE * (1 + row.sent):
            yield f"a reply without a request: {row}"
            continue
        there.remove(min(there))
        if (row.src, row.sent) not in ends:
            yield f"a reply that no work has preceded: {row}"


def spans(point: Point) -> Findings:
    """A client does one thing at a time, nothing while it is offline; a server no more than it has cores."""
    doing: defaultdict[int, list[tuple[float, float]]] = defaultdict(list)
    away: defaultdict[int, list[tuple[float, float]]] = defaultdict(list)
    for span in point.rows("spans"):
        if span.client >= 0 and span.what != "left":
            (away if span.what == "offline" else doing)[span.client].append((span.start, span.end))
    for client, some in [*doing.items(), *away.items()]:
        for one, other in pairwise(sorted(some)):
            if one[1] > other[0] + CLOSE * (1 + one[1]):
                yield f"client {client} does two things at a time: {one}, {other}"
    for row in point.rows("transfers"):
        for end in {row.src, row.dst} & set(away):
            doing[end].append((row.sent, row.arrived))
    for client, gone in away.items():
        for start, stop in gone:
            for begin, end in doing[client]:
                if min(end, stop) - max(begin, start) > CLOSE * (1 + stop):
                    yield f"client {client} is offline from {start} to {stop} and busy from {begin} to {end}"
    cores = point.scenario.get("server", {}).get("cores", 1)
    served = [span for span in point.rows("spans") if span.what == "serve" and span.client == -1]
    edges = sorted([(span.start, 1) for span in served] + [(span.end, -1) for span in served])
    if edges and max(np.cumsum([step for _, step in edges])) > cores:
        yield f"the server computes more than {cores} things at a time"


def speeds(point: Point) -> Findings:
    """No transfer is faster than its latencies and its bytes over each link that it passes."""
    for row in point.rows("transfers"):
        passed, slack = point.links.ends(row.src, row.dst), CLOSE * (1 + row.arrived)
        least = max(max(0.0, row.wire_bytes - 1 - end.burst) / end.rate for end in passed)
        if row.fate in WHOLE:
            least += sum(end.latency for end in passed)
        if row.arrived - row.sent < least * (1 - CLOSE) - slack:
            yield f"{row} took {row.arrived - row.sent} s and needs {least} s"


def loads(point: Point) -> Findings:
    """No link carries more, in any stretch of time, than its rate times the stretch, and its bucket."""
    if point.links.naive:
        return
    rows, crossing = point.rows("transfers"), defaultdict(list)
    for row in rows[:3000]:
        crossing[row.src, row.src >= 0].append(row)
        crossing[row.dst, row.dst < 0].append(row)
    for (node, upload), those in crossing.items():
        end: End = point.links.end(node, upload)
        if math.isinf(end.rate):
            continue
        begins, ends = (np.array([getattr(row, name) for row in those]) for name in ("sent", "arrived"))
        size = np.array([max(0, row.wire_bytes - 1) for row in those], dtype=float)
        for start in np.unique(begins):
            inside = begins >= start
            order = np.argsort(ends[inside])
            moved, last = np.cumsum(size[inside][order]), ends[inside][order]
            room = (last - start + CLOSE * (1 + last)) * end.rate * (1 + CLOSE) + end.burst
            if (moved > room + 1).any():
                worst = int(np.argmax(moved - room))
                yield f"node {node} ({'up' if upload else 'down'}) moves {moved[worst]} B from {start} to {last[worst]}"
                break


def arrivals(point: Point) -> Findings:
    """Periods reach a client one after the other; the version stamped is that of the moment."""
    last: dict[int, int] = {}
    updates = point.tables["updates"]["time"].to_numpy(dtype=float)
    own = point.tables["updates"]["version"].max() if len(updates) else 0
    for row in point.rows("arrivals"):
        if row.period != last.get(row.client, -1) + 1:
            yield f"period {row.period} of client {row.client} after {last.get(row.client, 'none')}"
        last[row.client] = row.period
        if not 0 <= row.version <= own:
            yield f"a version that there was not: {row}"


def scores(point: Point) -> Findings:
    """Scores are finite, of versions there were, and the summary's is their mean: over vertices, then over periods."""
    table = point.tables["scores"]
    if table.empty:
        return
    shares = table[~table["metric"].str.startswith("exchanged")]
    if not shares["value"].between(0, 1).all() or (table["weight"] < 0).any():
        yield "values outside 0 and 1, or negative weights"
    known = point.tables["updates"]["version"].max() if len(point.tables["updates"]) else 0
    if table["version"].max() > known:
        yield f"version {table['version'].max()} is scored, of {known}"
    if isinstance(point.row["score"], float) and not math.isnan(point.row["score"]):
        measure = point.scenario.get("measure", {})
        model = measure.get("models", ["global"])[0]
        those = shares[(shares["metric"] == point.row["metric"]) & (shares["model"] == model)]
        those = those[(those["split"] == measure.get("splits", ["test"])[0]) & (those["period"] < those["seen"])]
        those = those[those["time"] == those["time"].max()]
        those = those[those["version"] == those["version"].max()]
        means = _means(those)
        if means and abs(np.mean(means) - point.row["score"]) > 1e-6:
            yield f"the score is {point.row['score']} in the summary and {np.mean(means)} in the table"


def _means(table: pd.DataFrame) -> list[float]:
    kept = [group for _, group in table.groupby("period") if group["weight"].sum()]
    return [float(np.average(group["value"], weights=group["weight"])) for group in kept]


def said(findings: Iterable[str]) -> str:
    """Return findings as the lines of a comment."""
    return "".join(f"# {line}\n" for finding in findings for line in finding.splitlines())
