"""The rows of uploads that have arrived and that nobody has folded yet: kept back until their fate is known.

Nothing here takes time.  What it does not model: replies themselves; whoever holds one names its ask.
"""

from collections.abc import Callable, Container
from dataclasses import replace
from typing import Protocol

from fedsim.core.record import Row, Transfer


class Planned(Protocol):
    """A wave (`wave.py`), which writes its own rows."""

    def decide(self, place: int, fate: str) -> None:
        """Note what becomes of a reply."""
        ...


class Unread:
    """A server's, or an edge aggregator's; `closed`: from then on nothing is kept back."""

    def __init__(self, node: int, write: Callable[[Row], None]) -> None:
        """Keep nothing yet; `node` is the number of whoever receives the uploads."""
        self._node, self._write = node, write
        self._fresh: dict[int, Transfer] = {}  # just arrived, by client
        self._held: dict[int, Transfer] = {}  # those of replies, by ask
        self._planned: dict[int, tuple[Planned, int]] = {}  # replies of waves, by ask
        self.closed = False

    def moved(self, row: Transfer, asked: Container[int]) -> None:
        """Take the row of an ended transfer; those of uploads of the clients asked are kept back."""
        if row.dst == self._node and row.fate == "delivered" and row.src in asked and not self.closed:
            self._fresh[row.src] = row
        else:
            self._write(row)

    def answer(self, client: int, ask: int) -> None:
        """Hear that what has just arrived from a client is the reply to this ask."""
        if (row := self._fresh.pop(client, None)) is not None:
            self._held[ask] = row

    def plan(self, ask: int, wave: Planned, place: int) -> None:
        """Hear that a wave holds the row of the reply to this ask, in this place."""
        self._planned[ask] = wave, place

    def decide(self, ask: int, fate: str) -> None:
        """Note what becomes of the reply to this ask; nothing where it was decided before, or nothing moved."""
        if (planned := self._planned.pop(ask, None)) is not None:
            wave, place = planned
            wave.decide(place, fate)
        elif (row := self._held.pop(ask, None)) is not None:
            self._write(replace(row, fate=fate))

    def end(self) -> None:
        """Close the books: what nobody has folded is discarded."""
        for row in (*self._fresh.values(), *self._held.values()):
            self._write(replace(row, fate="discarded"))
        self._fresh.clear()
        self._held.clear()
        for wave, place in self._planned.values():
            wave.decide(place, "discarded")
        self._planned.clear()
