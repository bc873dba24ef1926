"""Channel: the passages under way over one access link, or between two nodes, and what limits each of them.

An `AccessChannel` (`access_channel.py`) is one client's access link in one direction, a `CohortChannel`
(`cohort_channel.py`) those of many clients.  A `PairChannel` holds what one node sends another if the route
has no access link of its own, because all its links are shared ones.

A passage is how one transfer proceeds, from handshake to arrival, as plain events with callbacks: Opening
(handshake, a download's request) -> stall -> bytes on the link until a loss is noticed -> the other bytes, as
fast as the window allows -> closing.  A transport may hold a message before its opening and after its closing
(`transport.py`).  A passage can be cut at any moment.  A single message takes, for the client, 2R + stall +
W/r: an upload arrives at the server R/2 earlier, before the client knows.  The bytes of slow start are
counted as moved while they are on the link, not in the stall before, and those that a token bucket lets pass
at once when the flow starts; handshakes are not counted.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import simpy

from fedsim.net.draws import Draws
from fedsim.net.links.flows import Flow
from fedsim.net.links.link import Link
from fedsim.net.links.link_meter import LinkMeter
from fedsim.net.links.mesh_link import Bundle, MeshLink
from fedsim.net.model import NetworkModel
from fedsim.net.tcp.congestion_avoidance import Start
from fedsim.net.tcp.window_reuse import CongestionWindow
from fedsim.net.transfer import Transfer

BITS = 8


@dataclass(frozen=True, slots=True, eq=False)
class SharedRoute:
    """The shared part of a route: its `links`, the `pool` of flows over them, and the `slowest` link's bytes/s."""

    pool: Link | Bundle
    links: tuple[Link | MeshLink, ...]
    slowest: float
    overflows: Draws

    def open(self, rate: int) -> None:
        """Add the bytes/s that a message could use which opens or starts slowly, or subtract them."""
        for link in self.links:
            link.opening += rate

    def cross(self, rtt: float, count: int = 1) -> None:
        """Count a message of this round trip (seconds) on all links, as gone if `count` is -1."""
        for link in self.links:
            link.cross(rtt, count)


class Channel(ABC):
    """The passages on it, and the flows of those that move."""

    def __init__(self, env: simpy.Environment, model: NetworkModel) -> None:
        """Start empty."""
        self.passages: dict[Passage, None] = {}  # under way, in the order of their start
        self._env, self._model = env, model
        self._flows: dict[Passage, Flow] = {}

    @abstractmethod
    def ceiling(self, passage: "Passage", flows: int) -> float:
        """Return the ceiling (bytes/s) of a passage that is one of `flows` that move."""

    def links(self, passage: "Passage") -> tuple[LinkMeter, ...]:
        """Return all links that the passage crosses and others can fill."""
        return passage.route.links

    @abstractmethod
    def carry(self, passage: "Passage", nbytes: float) -> None:
        """Count bytes of a passage that have crossed the access links."""

    def queue(self, passage: "Passage") -> float:
        """Return the seconds that the passage's packets would now wait behind those of others."""
        return self._model.queue(passage.transfer, self.links(passage), self._env.now)

    def start(self, passage: "Passage") -> Start:
        """Return how the passage starts at the rate that it would get now."""
        ceiling = self.ceiling(passage, len(self._flows) + 1)
        rate = self._rate_below(passage, ceiling)
        route = passage.route
        return self._model.start(passage.transfer, passage.size, rate, ceiling, route.links, route.overflows)

    def limit(self, passage: "Passage", start: Start, left: float) -> float:
        """Return what the window allows a passage that has noticed its first loss, for its `left` bytes."""
        return self._model.limit(passage.transfer, left, self.ceiling(passage, len(self._flows) + 1), start)

    def credit(self, passage: "Passage", nbytes: float) -> float:
        """Return how many of these bytes would take no time if the passage joined with them now."""
        links = self.links(passage)
        if not any(link.burst for link in links):
            return 0.0
        rate = self._rate_below(passage, self.ceiling(passage, len(self._flows) + 1))
        return self._model.credit(nbytes, rate, links)

    def enter(self, passage: "Passage", nbytes: float) -> None:
        """Start a passage's flow; `passage.sent` is called when these bytes have been sent."""
        ceiling, weight = self.ceiling(passage, len(self._flows) + 1), self._model.weight(passage.transfer)
        self._flows[passage] = passage.route.pool.join(nbytes, ceiling, passage.sent, weight)
        passage.route.cross(passage.transfer.base_rtt)

    def exit(self, passage: "Passage") -> float:
        """Stop a passage's flow and return the bytes that had not been sent."""
        passage.route.cross(passage.transfer.base_rtt, -1)
        return passage.route.pool.leave(self._flows.pop(passage))

    def _rate_below(self, passage: "Passage", ceiling: float) -> float:
        return passage.route.pool.rate_if_joined(ceiling, self._model.weight(passage.transfer))

    def refresh(self) -> None:
        """Set the ceilings again, after a client's rates have changed."""
        for passage, flow in self._flows.items():
            passage.route.pool.set_ceiling(flow, self.ceiling(passage, len(self._flows)))


class Passage(simpy.Event):
    """A transfer under way in a channel; `arrived` is called when it completes, not when it is cut.

    It is its own timer: since it waits for one thing at a time, the same event is scheduled again for each
    step, and knows the next one.
    """

    _ok = True  # as an event it never fails
    _value = None

    def __init__(
        self,
        env: simpy.Environment,
        transfer: Transfer,
        channel: Channel,
        route: SharedRoute,
        model: NetworkModel,
        arrived: Callable[["Passage"], None],
    ) -> None:
        """Prepare the passage; `begin` starts it."""
        self.env = env  # all that a SimPy event needs besides callbacks
        self.transfer = transfer
        self.channel, self.route = channel, route
        self.size = model.size(transfer)
        self.limit = math.inf  # bytes/s that its window allows
        self.moved = 0.0  # wire bytes
        self._model, self._arrived = model, arrived
        self._segment = 0.0
        self._plan: Start | None = None  # once the connection is open
        self._lost = False  # whether a loss has been noticed
        self._next = _nothing  # what it does when it has waited
        self._moving = False  # whether its bytes are on the link
        self._could_use = 0  # whole bytes/s while it opens, so that their sum on a link is exact
        channel.passages[self] = None

    def begin(self) -> None:
        """Start: open the connection, once the transport lets go of the message."""
        if self.transfer.send_delay:
            self._wait(self._open, self.transfer.send_delay)
        else:
            self._open()

    def cut(self) -> float:
        """End the passage and return the wire bytes that moved; nothing arrives."""
        if self._moving:
            self._count(max(0.0, self._segment - self.channel.exit(self)))
        self._end()
        return self.moved

    def window(self) -> CongestionWindow | None:
        """Return the sender's window once all has been sent; None if there was nothing to send."""
        return self._model.after(self.transfer, self.size, self._plan) if self._plan else None

    def sent(self, flow: object) -> None:
        """Continue after the bytes on the link have been sent."""
        self._moving = False
        self.channel.exit(self)
        self._count(self._segment)
        if self._plan is not None and self._plan.until < self.size and not self._lost:
            self._recover(self._plan)
        else:
            self._close()

    def _open(self) -> None:
        if self.route.slowest < math.inf:
            self._could_use = int(min(self.channel.ceiling(self, 1), self.route.slowest))
            self.route.open(self._could_use)
        self.transfer.queue = self.channel.queue(self)
        self._wait(self._opened, self._model.opening(self.transfer))

    def _opened(self) -> None:
        if not self.size:
            self._close()
            return
        self.transfer.queue = self.channel.queue(self)
        self._plan = self.channel.start(self)
        self._wait(self._start, self._plan.idle)

    def _start(self) -> None:
        assert self._plan is not None
        self.limit, nbytes = self._plan.limit, min(self._plan.until, self.size)
        if credit := self.channel.credit(self, min(nbytes, self._plan.burst)):
            self._count(credit)
        self._enter(nbytes - credit)

    def _recover(self, plan: Start) -> None:
        """Send the rest after a loss."""
        self._lost, left, self.limit = True, self.size - self.moved, math.inf
        if not plan.overflown:  # the queue that has overflown is the flow's own, too
            self.transfer.queue = self.channel.queue(self)
        self.limit = self.channel.limit(self, plan, left)
        self._enter(left)

    def _enter(self, nbytes: float) -> None:
        self._opens_no_more()
        self._segment, self._moving = nbytes, True
        self.channel.enter(self, nbytes)

    def _count(self, nbytes: float) -> None:
        self.moved += nbytes
        self.channel.carry(self, nbytes)

    def _opens_no_more(self) -> None:
        if self._could_use:
            self.route.open(-self._could_use)
            self._could_use = 0

    def _close(self) -> None:
        delay = self._model.closing(self.transfer) + (self._plan.late if self._plan else 0.0)
        self._wait(self._arrive, delay + self.transfer.receive_delay)

    def _arrive(self) -> None:
        self._end()
        self._arrived(self)

    def _end(self) -> None:
        self._opens_no_more()
        self._next, self._moving = _nothing, False
        self.channel.passages.pop(self, None)

    def _wait(self, then: Callable[[], None], delay: float) -> None:
        """Take a step after so many seconds, unless the passage is cut meanwhile."""
        if delay > 0:
            self._next, self.callbacks = then, GO_ON
            self.env.schedule(self, delay=delay)
        else:
            then()


def _nothing() -> None:
    """Do nothing: the passage has not begun to wait, or has ended."""


def _go_on(event: simpy.Event) -> None:
    assert isinstance(event, Passage)
    event._next()


GO_ON: list[Callable[[Any], None]] = [_go_on]
