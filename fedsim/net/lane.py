"""Lane: what one client has under way in one direction, and its access link there.

Flows of one client in one direction get at most an equal part of its access rate each; what one of them cannot use
is not handed to the others.  Packets of one direction do not slow those of the other, but for acknowledgements.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any, Generic, Protocol, TypeVar

import simpy

from fedsim.net.bucket import Bucket
from fedsim.net.line import EXACT, Line, default_buffer
from fedsim.net.model import Access, Model
from fedsim.net.node import Floats, Nodes
from fedsim.net.transfer import Transfer

BITS = 8


class Rider(Protocol):
    """What a lane needs of a transfer under way, which is a `passage.Passage`."""

    transfer: Transfer
    paused: bool

    def sent(self, flow: Any) -> None:
        """Hear that the bytes on the link have gone."""
        ...

    def __hash__(self) -> int:
        """Tell it from others."""
        ...


class Way(Protocol):
    """What carries the flows beyond the client's own link: a shared `Link`, or a path over several."""

    def join(self, nbytes: float, ceiling: float, done: Callable[[Any], None], weight: float = 1.0) -> Any:
        """Add a flow; `done` is called with it when it has ended."""
        ...

    def leave(self, flow: Any) -> float:
        """Take a flow off and return the bytes it still had to go."""
        ...

    def set_ceiling(self, flow: Any, ceiling: float) -> None:
        """Change a flow's ceiling (bytes/s)."""
        ...

    def rate_if_joined(self, ceiling: float, weight: float = 1.0) -> float:
        """Return about the rate that one more flow would get."""
        ...

    def at_ceiling_since(self, flow: Any) -> float:
        """Return the time since which a flow has run at its ceiling without a break; infinity where it does not.

        A flow that has ended at this instant counts as it stood when it did.
        """
        ...


Passage = TypeVar("Passage", bound=Rider)


class Lane(Generic[Passage]):
    """The passages of one client in one direction, those of them that move now, and the access link they share.

    It is the first `Line` of its path: its capacity, buffer, tokens and fullness are those of the access link.
    """

    def __init__(
        self,
        env: simpy.Environment,
        nodes: Nodes,
        client: int,
        upload: bool,
        way: Way,
        shared: Sequence[Line],
        server: float,
        model: Model,
        bucket: Bucket | None,
        carried: Floats,
    ) -> None:
        """Stand for a client's direction, which goes on over a way made of `shared` links.

        `server` is the server's own rate there in bytes/s; `carried[client]` is where the bytes are added up.
        """
        self.client, self.upload, self.way = client, upload, way
        self.passages: dict[Passage, None] = {}  # under way, in the order of their start
        self.lines: tuple[Line, ...] = (self, *shared)
        self._env, self._server, self._model, self._bucket, self._carried = env, server, model, bucket, carried
        self._own, self._opposite = (nodes.uplink, nodes.downlink) if upload else (nodes.downlink, nodes.uplink)
        self._buffers = nodes.up_buffer if upload else nodes.down_buffer
        self._shaped = self.lines if any(line.burst for line in self.lines) else ()
        self._flows: dict[Passage, Any] = {}
        self._rate = self._wanted = 0.0  # the access rate at the last change, and the sum of the flows' ceilings
        self._changed = -math.inf  # when flows came, went or got other ceilings
        self._full_before = math.inf  # the time since which the access link was full when they did and stayed so

    @property
    def capacity(self) -> float:
        """The access rate in bytes/s."""
        return float(self._own[self.client]) / BITS

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
        began = self._all_at_ceiling_since()
        return self._full_before if began <= self._changed and self._full_before < math.inf else began

    def ceiling(self, passage: Passage, flows: int) -> float:
        """Return the ceiling (bytes/s) of a passage that is one of so many on the link."""
        reverse = float(self._opposite[self.client]) / BITS
        access = Access(self.capacity, reverse, self._server, max(1, flows))
        return self._model.ceiling(passage.transfer, access, passage.paused)

    def rate_if_joined(self, passage: Passage) -> float:
        """Return about the rate (bytes/s) that the passage would get if it joined now."""
        ceiling = self.ceiling(passage, len(self._flows) + 1)
        return self.way.rate_if_joined(ceiling, self._model.weight(passage.transfer))

    def queue(self, passage: Passage) -> float:
        """Return the seconds that the passage's packets would wait behind those of others now."""
        return self._model.queue(passage.transfer, self.lines, self._env.now)

    def start(self, passage: Passage) -> tuple[float, float]:
        """Return the seconds of slow start that leave the link idle, and the bytes that come after them."""
        return self._model.start(passage.transfer, self.rate_if_joined(passage), self._shaped)

    def credit(self, passage: Passage, nbytes: float) -> float:
        """Return how many of these bytes would cost no time if the passage joined with them now."""
        return self._model.credit(nbytes, self.rate_if_joined(passage), self._shaped) if self._shaped else 0.0

    def enter(self, passage: Passage, nbytes: float) -> None:
        """Let the passage move; `passage.sent` is called when these bytes have gone."""
        others, before = len(self._flows) + 1, self.full_since
        self._level(others)
        ceiling, weight = self.ceiling(passage, others), self._model.weight(passage.transfer)
        self._wanted += ceiling
        self._flows[passage] = self.way.join(nbytes, ceiling, passage.sent, weight)
        self._note(before)

    def exit(self, passage: Passage) -> float:
        """Let the passage move no more and return the bytes that had not gone."""
        before = self.full_since if len(self._flows) > 1 else math.inf
        left = self.way.leave(self._flows.pop(passage))
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
            self.way.set_ceiling(flow, ceiling)

    def _all_at_ceiling_since(self) -> float:
        """Return since when the flows are what they are, where they use the access rate up; else infinity."""
        if not self._flows or not 0 < self._rate * (1 - EXACT) <= self._wanted:
            return math.inf
        return max(map(self.way.at_ceiling_since, self._flows.values()))

    def _note(self, before: float) -> None:
        """After a change, keep the time since which the access link has been full, `before` it or from now on."""
        self._changed = self._env.now
        full = self._all_at_ceiling_since() < math.inf
        self._full_before = min(before, self._changed) if full else math.inf
