"""A point's tables to one file: trace.json.gz in its folder, the same bytes whenever the tables are the same.

Arrows lead from uploads to the updates that folded them.  Replies are folded in the order of their arrival, so the
delivered uploads of a step are assigned to its updates, as many to each as it has folded; what edge aggregators send is
folded by the next update.  Where the numbers do not add up there is no arrow, nor between peers, which fold locally.

Not modelled: which of several uploads at one instant came first, if an update is between them.
"""

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from analysis.read.stored import Tables
from analysis.read.stored import tables as read
from analysis.timeline import hosts
from analysis.timeline.counters import POINTS, counters
from analysis.timeline.events import SERVER, Event, Named, arrow, nanoseconds, piece, titles
from analysis.timeline.hosts import LIMIT, lanes, stretch_of
from fedsim.core import record, whole_files

NAME = "trace.json.gz"
ENDS = {"transfers": "arrived", "updates": "time", "spans": "end", "arrivals": "time"}


def write(folder: Path) -> Path:
    """Write the timeline of the point in this folder and return its path.

    Raises NotARunError if a table cannot be read, OSError where the file cannot be written.
    """
    text = json.dumps(timeline(read(folder)), separators=(",", ":"))
    whole_files.replace(folder / NAME, gzip.compress(text.encode(), mtime=0))
    return folder / NAME


def timeline(tables: Tables, limit: int = LIMIT) -> dict[str, Any]:
    """Return the timeline of a point's tables, of at most `limit` clients."""
    seen = hosts.seen(tables)
    clients = hosts.drawn(seen, limit)
    ends = [nanoseconds(tables[name][column].max()) for name, column in ENDS.items() if len(tables[name])]
    sent, others, names = hosts.rows(tables, clients, max(ends, default=0))
    updates, (computing, server_names) = _updates(tables["updates"]), _computing(tables["spans"])
    flows: list[Event] = []
    for upload, taker in folded_by(tables["transfers"], tables["updates"]):
        if upload in sent:
            flows += arrow(upload, sent[upload], updates[taker])
    return {
        "traceEvents": [
            *titles(server_names | names), *updates, *computing, *sent.values(), *others, *flows,
            *counters(tables["transfers"]),
        ],
        "displayTimeUnit": "ms",
        "otherData": {
            "time": "simulated",
            "clients": f"{len(clients)} of {len(seen)} that took part are drawn, evenly spaced by number",
            "counters": f"all clients; above {POINTS} changes at evenly spaced moments",
        },
    }  # fmt: skip


def _updates(table: pd.DataFrame) -> list[Event]:
    """Return the slice of each update, in the table's order: it lasts from the update before, as long as the round."""
    before, slices = 0, []
    for row in table.to_dict("records"):
        now = nanoseconds(row["time"])
        details = {
            str(key): value for key, value in row.items() if key != "time" and value == value
        }  # NaN: not known then
        slices.append(piece(SERVER, 0, f"{row['step']} to version {row['version']}", before, now, **details))
        before = now
    return slices


def _computing(spans: pd.DataFrame) -> tuple[list[Event], Named]:
    """Return the slices of the server's work, not core by core, and the names of all its rows."""
    rows = lanes([stretch_of(row) for row in spans[spans["client"] == record.SERVER].to_dict("records")])
    names = {(SERVER, 0): "updates", **{(SERVER, row): "computing" for row in range(1, 1 + len(rows))}}
    slices = [piece(SERVER, row, part.name, part.start, part.end) for row, lane in enumerate(rows, 1) for part in lane]
    return slices, names


def folded_by(transfers: pd.DataFrame, updates: pd.DataFrame) -> Iterator[tuple[int, int]]:
    """Yield (place in the table of transfers, place in that of updates) of each upload that the server has folded."""
    came = transfers[(transfers["dst"] == record.SERVER) & (transfers["fate"] == "delivered")]
    for step, uploads in came[came["src"] >= 0].groupby("kind", sort=True):
        of = np.flatnonzero(updates["step"] == step)
        takers = np.repeat(of, updates["folded"].to_numpy()[of])
        if len(takers) == len(uploads) and (uploads["arrived"].to_numpy() <= updates["time"].to_numpy()[takers]).all():
            yield from zip(uploads.index.tolist(), takers.tolist(), strict=True)
    edges = came[came["src"] < record.SERVER]  # what these send is folded by the update that comes next
    takers = np.searchsorted(updates["time"].to_numpy(float), edges["arrived"].to_numpy(float), side="left")
    for upload, taker in zip(edges.index.tolist(), takers.tolist(), strict=True):
        if taker < len(updates):
            yield upload, taker
