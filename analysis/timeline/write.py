"""A point's tables to one file: trace.json.gz in its folder, the same bytes whenever the tables are the same."""

import gzip
import json
import os
from pathlib import Path
from typing import Any

from analysis.stored import Tables
from analysis.stored import tables as read
from analysis.timeline import hosts, server
from analysis.timeline.arrows import folded_by
from analysis.timeline.counters import POINTS, counters
from analysis.timeline.events import Event, arrow, nanoseconds, titles
from analysis.timeline.hosts import LIMIT

NAME = "trace.json.gz"
ENDS = {"transfers": "arrived", "updates": "time", "spans": "end", "arrivals": "time"}


def write(folder: Path) -> Path:
    """Write the timeline of the point in this folder and return its path.

    Raises NotARunError if a table cannot be read, OSError where the file cannot be written.
    """
    text = json.dumps(timeline(read(folder)), separators=(",", ":"))
    hidden = folder / f".{NAME}.partial"
    hidden.write_bytes(gzip.compress(text.encode(), mtime=0))
    os.replace(hidden, folder / NAME)
    return folder / NAME


def timeline(tables: Tables, limit: int = LIMIT) -> dict[str, Any]:
    """Return the timeline of a point's tables, of at most `limit` clients."""
    seen = hosts.seen(tables)
    clients = hosts.drawn(seen, limit)
    end = max(
        (nanoseconds(tables[name][column].max()) for name, column in ENDS.items() if len(tables[name])), default=0
    )
    sent, others, names = hosts.rows(tables, clients, end)
    updates, (computing, server_names) = server.updates(tables["updates"]), server.computing(tables["spans"])
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
