"""Timetable: clients' rates over time, read from a table of client, time_s, uplink_mbps, downlink_mbps."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fedsim.core.arrays import Floats, Ints
from fedsim.core.table import Column, fault, read_lines

MBIT = 1e6
COLUMNS = (
    Column("client", whole=True, low=0),
    Column("time_s", low=0),
    Column("uplink_mbps", required=False, low=0),
    Column("downlink_mbps", required=False, low=0),
)


@dataclass(frozen=True, eq=False)
class Timetable:
    """One entry per change, by time: the client, the time (s), the new rates (bit/s; NaN: as before), the line."""

    clients: Ints
    times: Floats
    up: Floats
    down: Floats
    lines: Ints


def read(path: Path) -> Timetable:
    """Return the changes of a table.

    Raises UserError, naming the line, if a client has two lines for one time, or if no rate is given at all.
    """
    columns, lines = read_lines(path, COLUMNS)
    clients, times = columns["client"], columns["time_s"]
    if "uplink_mbps" not in columns and "downlink_mbps" not in columns:
        raise fault(path, 1, "no rates; add a column 'uplink_mbps', 'downlink_mbps' or both")
    up, down = (MBIT * columns.get(name, np.full(len(times), np.nan)) for name in ("uplink_mbps", "downlink_mbps"))
    order = np.lexsort((lines, clients, times))
    clients, times, lines = clients[order], times[order], lines[order]
    twice = np.flatnonzero((clients[1:] == clients[:-1]) & (times[1:] == times[:-1]))
    if len(twice):
        first, second = int(lines[twice[0]]), int(lines[twice[0] + 1])
        what = f"client {clients[twice[0]]} has rates for {times[twice[0]]:g} s"
        raise fault(path, second, f"{what} already (line {first}); keep one")
    return Timetable(clients, times, up[order], down[order], lines)
