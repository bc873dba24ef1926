"""AccessChannel: a client's access link in one direction, and what moves over it.

Each flow of one client in one direction gets at most an equal part of its access rate, wherever it goes; what one flow
cannot use is not given to the others.  Packets in one direction do not slow those in the other, except for
acknowledgements.
"""

import math

import simpy

from fedsim.net.channel import BITS, Channel, Passage
from fedsim.net.lone import Access
from fedsim.net.model import Model
from fedsim.net.node import Floats, Nodes
from fedsim.net.sharing.bucket import Bucket
from fedsim.net.sharing.link_state import EXACT, LinkState, default_buffer


class AccessChannel(Channel[Passage]):
    """A channel of one client and one direction.

    It is itself the first link of its passages' routes, with the access link's capacity, buffer, tokens and fullness.
    """

    def __init__(
        self,
        env: simpy.Environment,
        nodes: Nodes,
        client: int,
        upload: bool,
        model: Model,
        bucket: Bucket | None,
        carried: Floats,
    ) -> None:
        """Start empty; the client's rates must be attended to, and bytes are counted in `carried[client]`."""
        super().__init__(env, model)
        self.client, self.upload = client, upload
        self._bucket, self._carried = bucket, carried
        self._own, self._opposite = nodes.rates.current[upload], nodes.rates.current[not upload]
        self._buffers = nodes.up_buffer if upload else nodes.down_buffer
        self._rate = self._wanted = 0.0  # the access rate at the last change, and the sum of ceilings
        self._changed = -math.inf  # when flows last came, left or changed their ceilings
        self._full_before = math.inf  # since when the access link was full at that change, if it still is

    @property
    def capacity(self) -> float:
        """The access rate in bytes/s."""
        return self._own.item(self.client) / BITS

    @property
    def buffer(self) -> float:
        """The bytes that can wait in front of the access link."""
        given = float(self._buffers[self.client])
        return default_buffer(self.capacity) if math.isnan(given) else given

    @property
    def burst(self) -> float:
        """The size of its token bucket in bytes."""
        return self._bucket.burst if self._bucket else 0.0

    @property
    def tokens(self) -> float:
        """The bytes that would pass at once if sent now: none while a flow moves."""
        return self._bucket.tokens(self.capacity, self._env.now) if self._bucket and not self._flows else 0.0

    @property
    def full_since(self) -> float:
        """The time since which flows have saturated the access link without a break; infinity if they do not.

        Each flow knows since when it has run at its ceiling.  If all did already at the last change of their number,
        the link has been full for as long as it was full then.
        """
        if not self._flows:
            return math.inf
        began = self._all_at_ceiling_since()
        return self._full_before if began <= self._changed and self._full_before < math.inf else began

    def ceiling(self, passage: Passage, flows: int) -> float:
        """Return the ceiling (bytes/s) of a passage that is one of `flows` on the link."""
        client = self.client
        rate, reverse = self._own.item(client) / BITS, self._opposite.item(client) / BITS
        access = Access(rate, reverse, passage.route.slowest, flows or 1)
        return self._model.ceiling(passage.transfer, access, passage.limit)

    def links(self, passage: Passage) -> tuple[LinkState, ...]:
        """Return the access link and those of the passage's route."""
        return (self, *passage.route.links)

    def shaped(self, passage: Passage) -> tuple[LinkState, ...]:
        """Return all links that the passage crosses if one of them has a token bucket, else none."""
        return self.links(passage) if self._bucket or passage.route.shaped else ()

    def enter(self, passage: Passage, nbytes: float) -> None:
        """Start a passage's flow; `passage.sent` is called when these bytes have been sent."""
        others, before = len(self._flows) + 1, self.full_since
        self._level(others)
        ceiling, weight = self.ceiling(passage, others), self._model.weight(passage.transfer)
        self._wanted += ceiling
        self._flows[passage] = passage.route.pool.join(nbytes, ceiling, passage.sent, weight)
        passage.route.join(passage.transfer.quiet_trip)
        if others > 1:
            self._note(before)
        else:  # a single flow knows itself since when the link is full
            self._changed, self._full_before = self._env.now, math.inf

    def exit(self, passage: Passage) -> float:
        """Stop a passage's flow and return the bytes that had not been sent."""
        before = self.full_since if len(self._flows) > 1 else math.inf
        passage.route.leave(passage.transfer.quiet_trip)
        left = passage.route.pool.leave(self._flows.pop(passage))
        if self._flows:
            self._level(len(self._flows))
            self._note(before)
        elif self._bucket:
            self._bucket.rest(self._env.now)
        return left

    def refresh(self) -> None:
        """Set the ceilings again, after the client's rates have changed."""
        before = self.full_since
        self._level(len(self._flows))
        self._note(before)

    def carry(self, passage: Passage, nbytes: float) -> None:
        """Count bytes that have crossed the access link."""
        self._carried[self.client] += nbytes

    def _level(self, flows: int) -> None:
        self._rate, self._wanted = self.capacity, 0.0
        for passage, flow in self._flows.items():
            ceiling = self.ceiling(passage, flows)
            self._wanted += ceiling
            passage.route.pool.set_ceiling(flow, ceiling)

    def _all_at_ceiling_since(self) -> float:
        """Return since when all flows have run at their ceilings if they saturate the access link, else infinity."""
        if not self._flows or not 0 < self._rate * (1 - EXACT) <= self._wanted:
            return math.inf
        return max(passage.route.pool.at_ceiling_since(flow) for passage, flow in self._flows.items())

    def _note(self, before: float) -> None:
        """After a change, record since when the access link has been full: since `before` it, or from now on."""
        self._changed = self._env.now
        full = self._all_at_ceiling_since() < math.inf
        self._full_before = min(before, self._changed) if full else math.inf
