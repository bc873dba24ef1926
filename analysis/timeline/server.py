"""The server's rows: its updates and its computing.

An update's slice lasts from the update before it, so it shows how long the round took.

What it does not model: which core computes; what is computed at the same time gets rows in order.
"""

import pandas as pd

from analysis import communication
from analysis.timeline.events import SERVER, Event, Named, nanoseconds, piece
from analysis.timeline.lanes import lanes, records, stretch_of


def updates(table: pd.DataFrame) -> list[Event]:
    """Return the slice of each update, in the table's order."""
    before, found = 0, []
    for row in records(table):
        now = nanoseconds(row["time"])
        details = {key: value for key, value in row.items() if key != "time" and value == value}  # NaN: not known then
        found.append(piece(SERVER, 0, f"{row['step']} to version {row['version']}", before, now, **details))
        before = now
    return found


def computing(spans: pd.DataFrame) -> tuple[list[Event], Named]:
    """Return the slices of the server's work, and the names of all its rows."""
    made = lanes([stretch_of(row) for row in records(spans[spans["client"] == communication.SERVER])])
    names = {(SERVER, 0): "updates", **{(SERVER, 1 + number): "computing" for number in range(len(made))}}
    pieces = [piece(SERVER, 1 + row, one.name, one.start, one.end) for row, lane in enumerate(made) for one in lane]
    return pieces, names
