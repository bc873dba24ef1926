"""Rows of uploads that have arrived and are not folded yet, kept until their fate is known.

Nothing here takes simulated time.  It holds no replies: each is named by its ask, those of a wave by the wave's first.
"""

from collections.abc import Callable, Container, Sequence
from dataclasses import replace
from typing import Protocol

import numpy as np
import numpy.typing as npt

from fedsim.core.record import Row, Transfer
from fedsim.learner.batch import Replies
from fedsim.learner.ticket import Reply

Places = npt.NDArray[np.int64]


class Planned(Protocol):
    """A wave (`wave.py`), which writes its own rows; `undecided` (K,) are its replies whose fate is open."""

    @property
    def undecided(self) -> npt.NDArray[np.bool_]:
        """Which members have replied and are neither folded nor dropped yet."""
        ...

    def decide(self, places: Places, fate: str) -> None:
        """Record the fate of replies that are undecided."""
        ...


class Unread:
    """The undecided rows of a server or an edge aggregator; once `closed`, rows are written at once."""

    def __init__(self, node: int, write: Callable[[Row], None]) -> None:
        """Start empty; `node` is the number of the node that receives the uploads."""
        self._node, self._write = node, write
        self._fresh: dict[int, Transfer] = {}  # just arrived, by client
        self._held: dict[int, Transfer] = {}  # those of replies, by ask
        self._waves: dict[int, Planned] = {}  # by the number of their first ask, ascending
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

    def plan(self, first: int, wave: Planned) -> None:
        """Record that a wave holds the rows of its replies, to the asks numbered from `first`."""
        self._waves[first] = wave

    def forget(self, first: int) -> None:
        """Drop a wave that has written its rows."""
        self._waves.pop(first, None)

    def decide(self, ask: int, fate: str) -> None:
        """Record the fate of the reply to this ask, unless it was decided before or nothing travelled."""
        if (row := self._held.pop(ask, None)) is not None:
            self._write(replace(row, fate=fate))
            return
        for first, wave in self._waves.items():
            if first <= ask < first + len(wave.undecided):
                self._decide(first, np.array([ask - first]), fate)
                return

    def decide_all(self, replies: Sequence[Reply], fate: str) -> None:
        """Record the same fate of several replies."""
        if isinstance(replies, Replies):
            self._decide(replies.first, replies.places, fate)
            return
        for reply in replies:
            self.decide(reply.ask, fate)

    def end(self) -> None:
        """Write the rows that are left as discarded."""
        for row in (*self._fresh.values(), *self._held.values()):
            self._write(replace(row, fate="discarded"))
        self._fresh.clear()
        self._held.clear()
        for first, wave in [*self._waves.items()]:
            self._decide(first, np.flatnonzero(wave.undecided), "discarded")

    def _decide(self, first: int, places: Places, fate: str) -> None:
        wave = self._waves.get(first)
        if wave is not None and len(still := places[wave.undecided[places]]):
            wave.decide(still, fate)
