"""PairChannel: what one node sends another over links that are all part of the shared route.

Between two peers these are the sender's uplink and the receiver's downlink; between an edge aggregator and the server
there are no access links.
"""

from collections.abc import Callable, Sequence

import simpy

from fedsim.net.channel import Channel, Passage
from fedsim.net.lone import Access
from fedsim.net.model import Model
from fedsim.net.node import Floats
from fedsim.net.sharing.link_state import LinkState

FASTEST = 1e15  # bytes/s; a flow's ceiling must be finite even if no link is limited


class PairChannel(Channel[Passage]):
    """A channel from one node to another."""

    def __init__(
        self,
        env: simpy.Environment,
        model: Model,
        rates: Callable[[], tuple[float, float]],
        meters: Sequence[tuple[Floats, int]] = (),
    ) -> None:
        """Start empty; `rates` returns the bytes/s there and back, `meters` are the arrays and indices to count in."""
        super().__init__(env, model)
        self._rates, self._meters = rates, meters

    def ceiling(self, passage: Passage, flows: int) -> float:
        """Return what the narrowest link, acknowledgements and losses allow; the pool shares the links' rates."""
        there, back = self._rates()
        return self._model.ceiling(
            passage.transfer, Access(min(there, FASTEST), back, passage.route.slowest, 1), passage.limit
        )

    def links(self, passage: Passage) -> tuple[LinkState, ...]:
        """Return the links of the route."""
        return passage.route.links

    def carry(self, passage: Passage, nbytes: float) -> None:
        """Count bytes at both ends that are clients."""
        for carried, client in self._meters:
            carried[client] += nbytes
