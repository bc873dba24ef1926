"""Events of Chrome's trace format: slices, instants, counters, arrows, and the names of rows.

A moment is kept in whole nanoseconds, so that what ends where another begins does so in the file too; the format counts
microseconds.  Source: "Trace Event Format", Google, 2016 (phases X, i, C, s, f and M).

What it does not model: the format's nested asynchronous events; what overlaps gets a row of its own.
"""

from collections.abc import Iterator
from typing import Any

Event = dict[str, Any]
Named = dict[tuple[int, int], str]  # the names of rows, by group and row
NANO, PER_MICRO = 10**9, 1000
SERVER, EDGES, CLIENTS, LINKS = 1, 2, 3, 4  # the groups of rows
GROUPS = {SERVER: "server", EDGES: "edge aggregators", CLIENTS: "clients", LINKS: "links"}


def nanoseconds(seconds: float) -> int:
    """Return simulated seconds as whole nanoseconds."""
    return round(float(seconds) * NANO)


def event(phase: str, name: str, group: int, row: int, moment: int, **more: Any) -> Event:
    """Return an event at a moment (nanoseconds) of a row."""
    return {"ph": phase, "name": name, "pid": group, "tid": row, "ts": moment / PER_MICRO, **more}


def piece(group: int, row: int, name: str, start: int, end: int, **args: Any) -> Event:
    """Return a slice of a row, from start to end (nanoseconds)."""
    return event("X", name, group, row, start, dur=(end - start) / PER_MICRO, args=args)


def arrow(number: int, tail: Event, head: Event) -> list[Event]:
    """Return the two ends of an arrow from the last nanosecond of one slice to that of another.

    An end belongs to the slice around it, and where a slice ends it is no longer around.
    """
    both = []
    for phase, at in (("s", tail), ("f", head)):
        last = round((at["ts"] + at["dur"]) * PER_MICRO) - bool(at["dur"])
        both.append(event(phase, "folded", at["pid"], at["tid"], last, cat="folded", id=number))
    both[1]["bp"] = "e"
    return both


def titles(rows: Named) -> Iterator[Event]:
    """Yield the names and the order of the groups, and of these rows."""
    for group, name in GROUPS.items():
        yield from _title("process", group, 0, name, group)
    for (group, row), name in rows.items():
        yield from _title("thread", group, row, name, row)


def _title(kind: str, group: int, row: int, name: str, order: int) -> Iterator[Event]:
    place = {"ph": "M", "pid": group, "tid": row}
    yield {**place, "name": f"{kind}_name", "args": {"name": name}}
    yield {**place, "name": f"{kind}_sort_index", "args": {"sort_index": order}}
