"""Stretches: when clients are online, read from a table with the columns client, on_s and off_s."""

import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fedsim.core.table import Column, fault, read_lines

COLUMNS = (Column("client", whole=True, low=0), Column("on_s", low=0), Column("off_s", required=False, low=0))


@dataclass(frozen=True)
class Stretch:
    """A client is online from `on` to `off` (seconds; infinity: for good); `line` is the last of its lines."""

    client: int
    on: float
    off: float
    line: int


def read(path: Path) -> list[Stretch]:
    """Return the stretches of a table, by client and time, with adjacent ones merged.

    An empty cell of `off_s` means for good.  Raises UserError, naming the line, if a stretch ends before it
    begins or overlaps with another of its client.
    """
    columns, lines = read_lines(path, COLUMNS)
    clients, on = columns["client"], columns["on_s"]
    off = np.nan_to_num(columns.get("off_s", np.full(len(on), math.inf)), nan=math.inf)
    stretches: list[Stretch] = []
    for row in np.lexsort((on, clients)).tolist():
        this = Stretch(int(clients[row]), float(on[row]), float(off[row]), int(lines[row]))
        if this.off <= this.on:
            raise fault(path, this.line, f"off_s is {this.off:g}: it must come after on_s, which is {this.on:g}")
        last = stretches[-1] if stretches and stretches[-1].client == this.client else None
        if last and this.on < last.off:
            when = f"from {last.on:g} to {last.off:g} s" if math.isfinite(last.off) else f"from {last.on:g} s for good"
            raise fault(path, this.line, f"client {this.client} is online {when} already (line {last.line})")
        if last and this.on == last.off:
            stretches[-1] = Stretch(this.client, last.on, this.off, this.line)
        else:
            stretches.append(this)
    return stretches
