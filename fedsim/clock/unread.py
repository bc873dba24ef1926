"""Rows of uploads that have arrived and are not folded yet, kept until their fate is known.

Nothing here takes simulated time.  It holds no replies: each is named by its ask.
"""

from collections.abc import Callable, Container
from dataclasses import replace
from typing import Protocol

from fedsim.core.record import Row, Transfer


class Planned(Protocol):
    """A wave (`wave.py`), which writes its own rows."""

    def decide(self, place: int, fate: str) -> None:
        """Record the fate of a reply."""
        ...


class Unread:
    """The undecided rows of a server or an edge aggregator; once `closed`, rows are written at once."""

    def __init__(self, node: int, write: Callable[[Row], None]) -> None:
        """Start empty; `node` is the number of the node that receives the uploads."""
        self._node, self._write = node, write
        self._fresh: dict[int, Transfer] = {}  # just arrived, by client
        self._held: dict[int, Transfer] = {}  # those of replies, by ask
        self._planned: dict[int, tuple[Planned, int]] = {}  # replies of waves, by ask
        self.closed = False

    def moved(self, row: Transfer, asked: Container[int]) -> None:
        """Take the row of an ended transfer; keep it if it is an upload of a client in `asked`, else write it."""
        if row.dst == self._node and row.fate == "delivered" and row.src in asked and not self.closed:
            self._fresh[row.src] = row
        else:
            self._write(row)

    def answer(self, client: int, ask: int) -> None:
        """Record that a client's upload that has just arrived is the reply to this ask."""
        if (row := self._fresh.pop(client, None)) is not None:
            self._held[ask] = row

    def plan(self, ask: int, wave: Planned, place: int) -> None:
        """Record that a wave holds the row of the reply to this ask, at this place."""
        self._planned[ask] = wave, place

    def decide(self, ask: int, fate: str) -> None:
        """Record the fate of the reply to this ask, unless it was decided before or nothing travelled."""
        if (planned := self._planned.pop(ask, None)) is not None:
            wave, place = planned
            wave.decide(place, fate)
        elif (row := self._held.pop(ask, None)) is not None:
            self._write(replace(row, fate=fate))

    def end(self) -> None:
        """Write the rows that are left as discarded."""
        for row in (*self._fresh.values(), *self._held.values()):
            self._write(replace(row, fate="discarded"))
        self._fresh.clear()
        self._held.clear()
        for wave, place in self._planned.values():
            wave.decide(place, "discarded")
        self._planned.clear()
