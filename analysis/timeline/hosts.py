"""The rows of clients and edge aggregators, from the tables of spans, transfers and arrivals.

A client's row holds its downloads, training and uploads, the stretches when it was offline, and `waiting` for the
rest; overlapping slices get a row below.  A message between peers is in its sender's row.  Of more
than LIMIT clients every so many-th is drawn, by number.

What it does not model: what a client waits for.
"""

from collections.abc import Iterator

import pandas as pd

from analysis.stored import Tables
from analysis.timeline.events import CLIENTS, EDGES, Event, Named, instant, nanoseconds, piece
from analysis.timeline.lanes import Stretch, gaps, lanes, records, stretch_of

LIMIT = 200  # clients drawn
LANES = 1000  # rows reserved per host, more than any needs


def seen(tables: Tables) -> list[int]:
    """Return the clients that were asked, got data or sent anything, in order, but not those that were only offline."""
    moved, spans = tables["transfers"], tables["spans"]
    busy = spans.loc[spans["what"] != "offline", "client"]
    found = {*moved["src"], *moved["dst"], *busy, *tables["arrivals"]["client"]}
    return sorted(int(client) for client in found if client >= 0)


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
        made = lanes(held[host]) or [[]]
        if host >= 0:
            made[0] += [Stretch(start, stop, "waiting") for start, stop in gaps(held[host], end)]
        for number, lane in enumerate(made):
            row = place * LANES + number
            names[group, row] = _title(host, number)
            for one in lane:
                event = piece(group, row, one.name, one.start, one.end, **one.args)
                if one.key >= 0:
                    sent[one.key] = event
                else:
                    others.append(event)
    marks = [instant(CLIENTS, client * LANES, name, moment) for client, name, moment in _marks(tables, {*clients})]
    return sent, others + marks, names


def _held(tables: Tables, clients: set[int]) -> dict[int, list[Stretch]]:
    """Return what each drawn client and each edge aggregator has done, by its number."""
    held: dict[int, list[Stretch]] = {client: [] for client in clients}
    moved, spans = tables["transfers"], tables["spans"]
    for row in records(spans[(spans["what"] != "left") & _of_clients(spans["client"], clients)]):
        held.setdefault(row["client"], []).append(stretch_of(row))
    mine = _of_clients(moved["src"], clients) | _of_clients(moved["dst"], clients)
    for row in records(moved[mine].reset_index(names="key")):
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
    for row in records(spans[(spans["what"] == "left") & spans["client"].isin(clients)]):
        yield row["client"], "left", nanoseconds(row["start"])
    for row in records(arrivals[arrivals["client"].isin(clients)]):
        yield row["client"], f"period {row['period']} arrives", nanoseconds(row["time"])


def _title(host: int, lane: int) -> str:
    name = f"client {host}" if host >= 0 else f"edge {-2 - host}"
    return name if not lane else f"{name}, meanwhile"
