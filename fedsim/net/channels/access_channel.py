"""AccessChannel: a client's access link in one direction, and what moves over it; PairChannel: routes without one.

Each flow of one client in one direction gets at most an equal part of its access rate, wherever it goes; what
one flow cannot use is not given to the others.  Packets in one direction do not slow those in the other,
except for acknowledgements.
"""

import math
from collections.abc import Callable, Sequence

import simpy

from fedsim.core.arrays import Floats
from fedsim.net.channels.channel import BITS, Channel, Passage
from fedsim.net.links.link_meter import RATE_TOLERANCE, LinkMeter
from fedsim.net.model import Access, NetworkModel
from fedsim.net.node import Nodes
from fedsim.net.tcp.congestion_avoidance import FASTEST


class AccessChannel(Channel, LinkMeter):
    """A channel of one client and one direction.

    It is itself the first link of its passages' routes, with the access link's capacity, buffer, tokens and
    fullness.
    """

    def __init__(
        self,
        env: simpy.Environment,
        nodes: Nodes,
        client: int,
        upload: bool,
        model: NetworkModel,
        carried: Floats,
        idle_since: float,
    ) -> None:
        """Start empty, and idle since the given time; bytes are counted in `carried[client]`.

        The client's rates must be attended to.
        """
        self._own, self._opposite = nodes.rates.current[upload], nodes.rates.current[not upload]
        Channel.__init__(self, env, model)
        LinkMeter.__init__(self, env, self._own.item(client) / BITS, *nodes.queueing(client, upload))
        self.client, self.upload, self.idle_since = client, upload, idle_since
        self._carried = carried
        self._ceilings = 0.0  # their sum
        self._changed = -math.inf  # when flows last came, left or changed their ceilings
        self._full_earlier = math.inf  # since when the access link was full at that change, if it still is

    @property
    def full_since(self) -> float:  # type: ignore[override]
        """The time since which flows have saturated the access link without a break; infinity if they do not.

        Each flow knows since when it has run at its ceiling.  If all did already at the last change of their
        number, the link has been full for as long as it was full then.
        """
        if not self._flows:
            return math.inf
        began = self._all_at_ceiling_since()
        return self._full_earlier if began <= self._changed and self._full_earlier < math.inf else began

    def ceiling(self, passage: Passage, flows: int) -> float:
        """Return the ceiling (bytes/s) of a passage that is one of `flows` on the link."""
        reverse = self._opposite.item(self.client) / BITS
        access = Access(self.capacity, reverse, passage.route.slowest, flows or 1)
        return self._model.ceiling(passage.transfer, access, passage.limit)

    def links(self, passage: Passage) -> tuple[LinkMeter, ...]:
        """Return the access link and those of the passage's route."""
        return (self, *passage.route.links)

    def enter(self, passage: Passage, nbytes: float) -> None:
        """Start a passage's flow; `passage.sent` is called when these bytes have been sent."""
        before = self.full_since
        self.flows = len(self._flows) + 1
        self._level(self.flows)
        super().enter(passage, nbytes)
        self._ceilings += self._flows[passage].ceiling
        if self.flows > 1:
            self._note(before)
        else:  # a single flow knows itself since when the link is full
            self._changed, self._full_earlier = self._env.now, math.inf

    def exit(self, passage: Passage) -> float:
        """Stop a passage's flow and return the bytes that had not been sent."""
        before = self.full_since if len(self._flows) > 1 else math.inf
        left = super().exit(passage)
        self.part(1, self._env.now)
        if self._flows:
            self._level(len(self._flows))
            self._note(before)
        return left

    def refresh(self) -> None:
        """Set the ceilings again, after the client's rates have changed."""
        before, self.capacity = self.full_since, self._own.item(self.client) / BITS
        self._level(len(self._flows))
        self._note(before)

    def carry(self, passage: Passage, nbytes: float) -> None:
        """Count bytes that have crossed the access link."""
        self._carried[self.client] += nbytes

    def _level(self, flows: int) -> None:
        self._ceilings = 0.0
        for passage, flow in self._flows.items():
            ceiling = self.ceiling(passage, flows)
            self._ceilings += ceiling
            passage.route.pool.set_ceiling(flow, ceiling)

    def _all_at_ceiling_since(self) -> float:
        """Return since when all flows have run at their ceilings if they saturate the access link, else infinity."""
        if not self._flows or not 0 < self.capacity * (1 - RATE_TOLERANCE) <= self._ceilings:
            return math.inf
        return max(passage.route.pool.at_ceiling_since(flow) for passage, flow in self._flows.items())

    def _note(self, before: float) -> None:
        """After a change, record since when the access link has been full: since `before` it, or from now on."""
        self._changed = self._env.now
        full = self._all_at_ceiling_since() < math.inf
        self._full_earlier = min(before, self._changed) if full else math.inf


class PairChannel(Channel):
    """A channel from one node to another over links that are all part of the shared route.

    Between two peers these are the sender's uplink and the receiver's downlink; between an edge aggregator
    and the server there are no access links.
    """

    def __init__(
        self,
        env: simpy.Environment,
        model: NetworkModel,
        rates: Callable[[], tuple[float, float]],
        meters: Sequence[tuple[Floats, int]] = (),
    ) -> None:
        """Start empty; `rates` returns the bytes/s there and back, `meters` are the arrays and indices to count in."""
        super().__init__(env, model)
        self._rates, self._meters = rates, meters

    def ceiling(self, passage: Passage, flows: int) -> float:
        """Return what the narrowest link, acknowledgements and losses allow; the pool shares the links' rates."""
        forward, reverse = self._rates()  # a ceiling must be finite even if no link is limited
        access = Access(min(forward, FASTEST), reverse, passage.route.slowest, 1)
        return self._model.ceiling(passage.transfer, access, passage.limit)

    def carry(self, passage: Passage, nbytes: float) -> None:
        """Count bytes at both ends that are clients."""
        for carried, client in self._meters:
            carried[client] += nbytes
