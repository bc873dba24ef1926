"""Passage: how one transfer proceeds, from handshake to arrival, as plain events with callbacks.

Opening (handshake, a download's request) -> stall -> bytes on the link until a loss is noticed -> the other bytes, as
fast as the window allows -> closing.  A transport may hold a message before its opening and after its closing
(`transport.py`).  A passage can be cut at any moment.  A single message takes, for the client,
2R + stall + W/r: an upload arrives at the server R/2 earlier, before the client knows.  The bytes of slow start are
counted as moved while they are on the link, not in the stall before, and those that a token bucket lets pass at once
when the flow starts; handshakes are not counted.
"""

import math
from collections.abc import Callable
from enum import Enum, auto
from typing import Any

import simpy

from fedsim.net.channel import Channel, SharedRoute
from fedsim.net.kept import Window
from fedsim.net.model import Model
from fedsim.net.transfer import Transfer
from fedsim.net.window import Start


class Phase(Enum):
    """What a passage waits for, or that its bytes are on the link, or that it has ended."""

    HELD = auto()
    OPENING = auto()
    STARTING = auto()
    FLUID = auto()
    CLOSING = auto()
    ENDED = auto()


HELD, OPENING, STARTING, FLUID, CLOSING, ENDED = Phase  # faster than Enum attributes


class Passage(simpy.Event):
    """A transfer under way in a channel; `arrived` is called when it completes, not when it is cut.

    It is its own timer: since it waits for one thing at a time, the same event is scheduled again for each step.
    """

    _ok = True  # as an event it never fails
    _value = None

    def __init__(
        self,
        env: simpy.Environment,
        transfer: Transfer,
        channel: "Channel[Passage]",
        route: SharedRoute,
        model: Model,
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
        self._phase = OPENING
        channel.passages[self] = None

    def begin(self) -> None:
        """Start: open the connection, once the transport lets go of the message."""
        if self.transfer.held:
            self._wait(HELD, self.transfer.held)
        else:
            self._open()

    def cut(self) -> float:
        """End the passage and return the wire bytes that moved; nothing arrives."""
        if self._phase is FLUID:
            self._count(max(0.0, self._segment - self.channel.exit(self)))
        self._end()
        return self.moved

    def window(self) -> Window | None:
        """Return the sender's window once all has been sent; None if there was nothing to send."""
        return self._model.after(self.transfer, self.size, self._plan) if self._plan else None

    def sent(self, flow: object) -> None:
        """Continue after the bytes on the link have been sent."""
        self.channel.exit(self)
        self._count(self._segment)
        if self._plan is not None and self._plan.until < self.size and not self._lost:
            self._recover(self._plan)
        else:
            self._close()

    def _open(self) -> None:
        self.transfer.queue = self.channel.queue(self)
        self._wait(OPENING, self._model.opening(self.transfer))

    def _opened(self) -> None:
        if not self.size:
            self._close()
            return
        self.transfer.queue = self.channel.queue(self)
        self._plan = self.channel.start(self)
        self._wait(STARTING, self._plan.idle)

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
        self._segment, self._phase = nbytes, FLUID
        self.channel.enter(self, nbytes)

    def _count(self, nbytes: float) -> None:
        self.moved += nbytes
        self.channel.carry(self, nbytes)

    def _close(self) -> None:
        late = self._plan.late if self._plan else 0.0
        self._wait(CLOSING, self._model.closing(self.transfer) + late + self.transfer.handed)

    def _arrive(self) -> None:
        self._end()
        self._arrived(self)

    def _end(self) -> None:
        self._phase = ENDED
        self.channel.passages.pop(self, None)

    def _wait(self, phase: Phase, delay: float) -> None:
        self._phase = phase
        if delay > 0:
            self.callbacks = GO_ON
            self.env.schedule(self, delay=delay)
        else:
            _go_on(self)


def _go_on(event: simpy.Event) -> None:
    """Take the next step of a passage, unless it has been cut meanwhile."""
    assert isinstance(event, Passage)
    phase = event._phase
    if phase is OPENING:
        event._opened()
    elif phase is STARTING:
        event._start()
    elif phase is CLOSING:
        event._arrive()
    elif phase is HELD:
        event._open()


GO_ON: list[Callable[[Any], None]] = [_go_on]
