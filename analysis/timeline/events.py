"""Events of Chrome's trace format: slices, instants, counters, arrows, and the names of rows.

A moment is kept in whole nanoseconds, so that what ends where another begins does so in the file too; the format counts
microseconds.  Source: "Trace Event Format", Google, 2016 (phases X, i, C, s, f and M).

What it does not model: the format's nested asynchronous events; what overlaps gets a row of its own.
"""

from typing import Any

Event = dict[str, Any]
Named = dict[tuple[int, int], str]  # the names of rows, by group and row
NANO, PER_MICRO = 10**9, 1000
SERVER, EDGES, CLIENTS, LINKS = 1, 2, 3, 4  # the groups of rows
GROUPS = {SERVER: "server", EDGES: "edge aggregators", CLIENTS: "clients", LINKS: "links"}


def nanoseconds(seconds: float) -> int:
    """Return simulated seconds as whole nanoseconds."""
    return round(float(seconds) * NANO)


def micro(moment: int) -> float:
    """Return nanoseconds as the format's microseconds."""
    return moment / PER_MICRO


def piece(group: int, row: int, name: str, start: int, end: int, **args: Any) -> Event:
    """Return a slice of a row, from start to end (nanoseconds)."""
    place = {"pid": group, "tid": row, "ts": micro(start), "dur": micro(end - start)}
    return {"ph": "X", "name": name, **place, "args": args}


def instant(group: int, row: int, name: str, moment: int, **args: Any) -> Event:
    """Return a mark at one moment (nanoseconds) of a row."""
    return {"ph": "i", "s": "t", "name": name, "pid": group, "tid": row, "ts": micro(moment), "args": args}


def counter(name: str, moment: int, value: float) -> Event:
    """Return the value of a counter from a moment (nanoseconds) on."""
    return {"ph": "C", "name": name, "pid": LINKS, "tid": 0, "ts": micro(moment), "args": {"value": value}}


def arrow(number: int, tail: Event, head: Event) -> list[Event]:
    """Return the two ends of an arrow from the last nanosecond of one slice to that of another.

    An end belongs to the slice around it, and where a slice ends it is no longer around.
    """
    both = []
    for phase, at in (("s", tail), ("f", head)):
        last = round((at["ts"] + at["dur"]) * PER_MICRO) - bool(at["dur"])
        both.append({"ph": phase, "name": "folded", "cat": "folded", "id": number, "ts": micro(last)})
        both[-1] |= {"pid": at["pid"], "tid": at["tid"]}
    both[1]["bp"] = "e"
    return both


def titles(rows: Named) -> list[Event]:
    """Return the names and the order of the groups, and of these rows."""
    found = []
    for group, name in GROUPS.items():
        found.append({"ph": "M", "name": "process_name", "pid": group, "tid": 0, "args": {"name": name}})
        found.append({"ph": "M", "name": "process_sort_index", "pid": group, "tid": 0, "args": {"sort_index": group}})
    for (group, row), name in rows.items():
        found.append({"ph": "M", "name": "thread_name", "pid": group, "tid": row, "args": {"name": name}})
        found.append({"ph": "M", "name": "thread_sort_index", "pid": group, "tid": row, "args": {"sort_index": row}})
    return found
