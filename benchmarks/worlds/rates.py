"""What no link can do: be faster than its rate and latency, for one transfer and for all of them together."""

import math
from collections import defaultdict
from typing import Any

import numpy as np
from links import End
from tables import CLOSE, WHOLE, Findings, Point


def _ahead(point: Point, row: Any, end: End) -> float:
    """Return the bytes that may cross a link at once: those of its bucket.

    Where a message is cut, what any bucket of its way would let pass at once has been counted as moved.
    """
    if row.fate != "cut":
        return end.burst
    return max(each.burst for each in point.links.ends(row.src, row.dst))


def speeds(point: Point) -> Findings:
    """No transfer is faster than its latencies and its bytes over each link that it passes."""
    for row in point.rows("transfers"):
        passed, slack = point.links.ends(row.src, row.dst), CLOSE * (1 + row.arrived)
        least = max(max(0.0, row.wire_bytes - 1 - _ahead(point, row, end)) / end.rate for end in passed)
        if row.fate in WHOLE:
            least += sum(end.latency for end in passed)
        if row.arrived - row.sent < least * (1 - CLOSE) - slack:
            yield f"{row} took {row.arrived - row.sent} s and needs {least} s"


def _above(point: Point, row: Any, end: End) -> float:
    return max(0.0, _ahead(point, row, end) - end.burst)


def loads(point: Point) -> Findings:
    """No link carries more, in any stretch of time, than its rate times the stretch, and its bucket.

    What a client's own bucket lets pass at once takes no room on the server's link (docs/validation.md), so that it may
    come on top there.
    """
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
        size = np.array([max(0.0, row.wire_bytes - 1 - _above(point, row, end)) for row in those])
        if node == -1:
            own = [point.links.end(row.src if upload else row.dst, upload).burst for row in those]
            size = np.maximum(0.0, size - own)
        for start in np.unique(begins):
            inside = begins >= start
            order = np.argsort(ends[inside])
            moved, last = np.cumsum(size[inside][order]), ends[inside][order]
            room = (last - start + CLOSE * (1 + last)) * end.rate * (1 + CLOSE) + end.burst
            if (moved > room + 1).any():
                worst = int(np.argmax(moved - room))
                yield f"node {node} ({'up' if upload else 'down'}) moves {moved[worst]} B from {start} to {last[worst]}"
                break
