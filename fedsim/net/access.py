"""Access: a client's access link in one direction, and what moves over it.

Flows of one client in one direction get at most an equal part of its access rate each, wherever they go; what one of
them cannot use is not handed to the others.  Packets of one direction do not slow those of the other, but for
acknowledgements.
"""

import math

import simpy

from fedsim.net.lane import BITS, Lane, Passage
from fedsim.net.model import Access, Model
from fedsim.net.node import Floats, Nodes
from fedsim.net.sharing.bucket import Bucket
from fedsim.net.sharing.line import EXACT, Line, default_buffer


class AccessLane(Lane[Passage]):
    """A lane of one client and one direction.

    It is the first `Line` of its path: its capacity, buffer, tokens and fullness are those of the access link.
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
        """Stand for a client's direction, whose rates are attended to; bytes are added up at `carried[client]`."""
        super().__init__(env, model)
        self.client, self.upload = client, upload
        self._bucket, self._carried = bucket, carried
        self._own, self._opposite = nodes.rates.current[upload], nodes.rates.current[not upload]
        self._buffers = nodes.up_buffer if upload else nodes.down_buffer
        self._rate = self._wanted = 0.0  # the access rate at the last change, and the sum of the flows' ceilings
        self._changed = -math.inf  # when flows came, went or got other ceilings
        self._full_before = math.inf  # the time since which the access link was full when they did and stayed so

    @property
    def capacity(self) -> float:
        """The access rate in bytes/s."""
        return self._own.item(self.client) / BITS

    @property
    def buffer(self) -> float:
        """The bytes that can wait before the access link."""
        told = float(self._buffers[self.client])
        return default_buffer(self.capacity) if math.isnan(told) else told

    @property
    def burst(self) -> float:
        """The bytes that its token bucket holds."""
        return self._bucket.burst if self._bucket else 0.0

    @property
    def tokens(self) -> float:
        """The bytes that would pass at once now: none while a flow moves."""
        return self._bucket.tokens(self.capacity, self._env.now) if self._bucket and not self._flows else 0.0

    @property
    def full_since(self) -> float:
        """The time since which flows have used the access rate up without a break; infinity where they do not.

        Each flow knows since when it has been at its ceiling.  Those that were at the last change of their number have
        kept the link full for as long as it was full then.
        """
        if not self._flows:
            return math.inf
        began = self._all_at_ceiling_since()
        return self._full_before if began <= self._changed and self._full_before < math.inf else began

    def ceiling(self, passage: Passage, flows: int) -> float:
        """Return the ceiling (bytes/s) of a passage that is one of so many on the link."""
        client = self.client
        rate, reverse = self._own.item(client) / BITS, self._opposite.item(client) / BITS
        access = Access(rate, reverse, passage.track.slowest, flows or 1)
        return self._model.ceiling(passage.transfer, access, passage.paused)

    def lines(self, passage: Passage) -> tuple[Line, ...]:
        """Return the access link and those of the passage's track."""
        return (self, *passage.track.lines)

    def shaped(self, passage: Passage) -> tuple[Line, ...]:
        """Return all links that the passage crosses if there is a token bucket among them, else nothing."""
        return self.lines(passage) if self._bucket or passage.track.shaped else ()

    def enter(self, passage: Passage, nbytes: float) -> None:
        """Let the passage move; `passage.sent` is called when these bytes have gone."""
        others, before = len(self._flows) + 1, self.full_since
        self._level(others)
        ceiling, weight = self.ceiling(passage, others), self._model.weight(passage.transfer)
        self._wanted += ceiling
        self._flows[passage] = passage.track.way.join(nbytes, ceiling, passage.sent, weight)
        if others > 1:
            self._note(before)
        else:  # a lone flow says by itself since when the link is full
            self._changed, self._full_before = self._env.now, math.inf

    def exit(self, passage: Passage) -> float:
        """Let the passage move no more and return the bytes that had not gone."""
        before = self.full_since if len(self._flows) > 1 else math.inf
        left = passage.track.way.leave(self._flows.pop(passage))
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

    def carry(self, nbytes: float) -> None:
        """Count bytes that have gone over the access link."""
        self._carried[self.client] += nbytes

    def _level(self, flows: int) -> None:
        self._rate, self._wanted = self.capacity, 0.0
        for passage, flow in self._flows.items():
            ceiling = self.ceiling(passage, flows)
            self._wanted += ceiling
            passage.track.way.set_ceiling(flow, ceiling)

    def _all_at_ceiling_since(self) -> float:
        """Return since when the flows are what they are, where they use the access rate up; else infinity."""
        if not self._flows or not 0 < self._rate * (1 - EXACT) <= self._wanted:
            return math.inf
        return max(passage.track.way.at_ceiling_since(flow) for passage, flow in self._flows.items())

    def _note(self, before: float) -> None:
        """After a change, keep the time since which the access link has been full, `before` it or from now on."""
        self._changed = self._env.now
        full = self._all_at_ceiling_since() < math.inf
        self._full_before = min(before, self._changed) if full else math.inf
