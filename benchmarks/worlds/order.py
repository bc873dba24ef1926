"""What must come in order: causes before effects, one thing at a time, periods one after the other."""

from collections import defaultdict
from itertools import pairwise
from typing import Any

import numpy as np
from tables import CLOSE, WHOLE, Findings, Point


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
