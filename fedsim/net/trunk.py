"""Trunk: what goes from one node to another over links that are all part of the track.

Between two peers these are the sender's uplink and the receiver's downlink; between an edge aggregator and the server
there are no access links at all.
"""

from collections.abc import Callable, Sequence

import simpy

from fedsim.net.lane import Lane, Passage
from fedsim.net.model import Access, Model
from fedsim.net.node import Floats
from fedsim.net.sharing.line import Line

FASTEST = 1e15  # bytes/s; a flow's ceiling must be finite, also where no link is limited


class Trunk(Lane[Passage]):
    """A lane from one node to another."""

    def __init__(
        self,
        env: simpy.Environment,
        model: Model,
        rates: Callable[[], tuple[float, float]],
        meters: Sequence[tuple[Floats, int]] = (),
    ) -> None:
        """Take how fast it is there and back (bytes/s), and where the bytes are added up: an array and an index."""
        super().__init__(env, model)
        self._rates, self._meters = rates, meters

    def ceiling(self, passage: Passage, flows: int) -> float:
        """Return what the narrowest link, acknowledgements and losses allow; the links share out the rest."""
        there, back = self._rates()
        return self._model.ceiling(
            passage.transfer, Access(min(there, FASTEST), back, passage.track.slowest, 1), passage.paused
        )

    def lines(self, passage: Passage) -> tuple[Line, ...]:
        """Return the links of the track."""
        return passage.track.lines

    def carry(self, nbytes: float) -> None:
        """Count bytes at both ends that are clients."""
        for carried, client in self._meters:
            carried[client] += nbytes
