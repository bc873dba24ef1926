"""The rows of clients and edge aggregators, from the tables of spans, transfers and arrivals.

A client's row holds its downloads, training and uploads, the stretches when it was offline, and `waiting` for the
rest; overlapping slices get a row below.  A message between peers is in its sender's row.  Of more
than LIMIT clients every so many-th is drawn, by number.

What it does not model: what a client waits for.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from analysis.read.stored import Tables
from analysis.timeline.events import CLIENTS, EDGES, Event, Named, event, nanoseconds, piece

LIMIT = 200  # clients drawn
LANES = 1000  # rows reserved per host, more than any needs


@dataclass(frozen=True, slots=True)
class Stretch:
    """Something that lasts from start to end (nanoseconds); `key` leads back to its row of the table."""

    start: int
    end: int
    name: str
    args: dict[str, Any] = field(default_factory=dict, hash=False)
    key: int = -1


def stretch_of(span: Mapping[Any, Any]) -> Stretch:
    """Return the stretch of a row of the table of spans."""
    return Stretch(nanoseconds(span["start"]), nanoseconds(span["end"]), span["what"])


def lanes(stretches: Sequence[Stretch]) -> list[list[Stretch]]:
    """Return the stretches in as few lanes as can be, those of each in order and none over another."""
    rows: list[list[Stretch]] = []
    for stretch in sorted(stretches, key=lambda stretch: (stretch.start, stretch.end)):
        free = next((row for row in rows if row[-1].end <= stretch.start), None)
        if free is None:
            rows.append(free := [])
        free.append(stretch)
    return rows


def gaps(stretches: Sequence[Stretch], end: int) -> list[tuple[int, int]]:
    """Return the stretches of time between 0 and `end` (nanoseconds) that none of these covers."""
    between, covered = [], 0
    for stretch in [*sorted(stretches, key=lambda stretch: stretch.start), Stretch(end, end, "")]:
        if stretch.start > covered:
            between.append((covered, stretch.start))
        covered = max(covered, stretch.end)
    return between


def seen(tables: Tables) -> list[int]:
    """Return the clients that were asked, got data or sent anything, in order, but not those that were only offline."""
    moved, spans = tables["transfers"], tables["spans"]
    busy = spans.loc[spans["what"] != "offline", "client"]
    hosts = {*moved["src"], *moved["dst"], *busy, *tables["arrivals"]["client"]}
    return sorted(int(client) for client in hosts if client >= 0)


def drawn(clients: list[int], limit: int = LIMIT) -> list[int]:
    """Return at most `limit` of the clients, evenly spaced."""
    if len(clients) <= limit:
        return clients
    return [clients[place * len(clients) // limit] for place in range(limit)]


def rows(tables: Tables, clients: list[int], end: int) -> tuple[dict[int, Event], list[Event], Named]:
    """Return the slices of transfers by their place in the table, all other events, and the names of the rows.

    `end` is the last moment (nanoseconds), up to which a client waits.
    """
    held = _held(tables, {*clients})
    sent: dict[int, Event] = {}
    others, names = [], Named()
    for host in sorted(held):
        group, place = (CLIENTS, host) if host >= 0 else (EDGES, -host)
        host_lanes = lanes(held[host]) or [[]]
        if host >= 0:
            host_lanes[0] += [Stretch(start, stop, "waiting") for start, stop in gaps(held[host], end)]
        for row, lane in enumerate(host_lanes, place * LANES):
            names[group, row] = _title(host, row % LANES)
            for stretch in lane:
                slice_ = piece(group, row, stretch.name, stretch.start, stretch.end, **stretch.args)
                if stretch.key >= 0:
                    sent[stretch.key] = slice_
                else:
                    others.append(slice_)
    marks = _marks(tables, {*clients})
    others += [event("i", name, CLIENTS, client * LANES, time, s="t", args={}) for client, name, time in marks]
    return sent, others, names


def _held(tables: Tables, clients: set[int]) -> dict[int, list[Stretch]]:
    """Return what each drawn client and each edge aggregator has done, by its number."""
    held: dict[int, list[Stretch]] = {client: [] for client in clients}
    moved, spans = tables["transfers"], tables["spans"]
    for row in spans[(spans["what"] != "left") & _of_clients(spans["client"], clients)].to_dict("records"):
        held.setdefault(row["client"], []).append(stretch_of(row))
    mine = _of_clients(moved["src"], clients) | _of_clients(moved["dst"], clients)
    for row in moved[mine].reset_index(names="key").to_dict("records"):
        host, way = _whose(row["src"], row["dst"])
        if host >= 0 and host not in clients:
            continue  # a peer that is not drawn sends to one that is
        details = {key: row[key] for key in ("version", "nbytes", "wire_bytes", "fate")}
        name = f"{way} {row['kind']}" + ("" if row["fate"] == "delivered" else f" ({row['fate']})")
        times = nanoseconds(row["sent"]), nanoseconds(row["arrived"])
        held.setdefault(host, []).append(Stretch(*times, name, details, row["key"]))
    return held


def _of_clients(numbers: pd.Series, clients: set[int]) -> pd.Series:
    return numbers.isin(clients) | (numbers < -1)


def _whose(source: int, target: int) -> tuple[int, str]:
    """Return the host whose row a message belongs to, and its name there."""
    if source >= 0:
        return source, f"send to {target}" if target >= 0 else "upload"
    if target >= 0:
        return target, "download"
    return (source, "upload") if target == -1 else (target, "download")


def _marks(tables: Tables, clients: set[int]) -> Iterator[tuple[int, str, int]]:
    spans, arrivals = tables["spans"], tables["arrivals"]
    for row in spans[(spans["what"] == "left") & spans["client"].isin(clients)].to_dict("records"):
        yield row["client"], "left", nanoseconds(row["start"])
    for row in arrivals[arrivals["client"].isin(clients)].to_dict("records"):
        yield row["client"], f"period {row['period']} arrives", nanoseconds(row["time"])


def _title(host: int, lane: int) -> str:
    name = f"client {host}" if host >= 0 else f"edge {-2 - host}"
    return name if not lane else f"{name}, meanwhile"
