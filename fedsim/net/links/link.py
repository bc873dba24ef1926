"""Link: one direction of a shared access link, on which flows share the capacity max–min fairly.

Its flows are at the water level x that fills the capacity C: the rates add up to C, or x is infinite if all
ceilings fit.  Each change takes O(log n), amortised.  Not modelled here: packets, routes over several such
links (`mesh.py`). The buffer's queue and the bucket's credit are computed in `link_meter.py`.
"""

import math
from collections.abc import Callable
from typing import Any

import simpy

from fedsim.net.links.flows import GONE, OUTAGE, SLACK, Flow, Flows, InvariantError, checked_capacity, checked_ceiling
from fedsim.net.links.link_meter import RATE_TOLERANCE, LinkMeter


class Wake(simpy.Event):
    """The event of a wake-up; it never fails."""

    _ok = True
    _value = None


class Link(Flows, LinkMeter):
    """One direction of an access link of `capacity` bytes/s (it may be infinite)."""

    def __init__(
        self, env: simpy.Environment, capacity: float, buffer: float | None = None, burst: float = 0.0
    ) -> None:
        """Start idle; see `LinkMeter`."""
        Flows.__init__(self, env)
        LinkMeter.__init__(self, env, capacity, buffer, burst)
        self._wake: Wake | None = None
        self._on_waking: list[Callable[[Any], None]] = [self._on_wake]
        self._wake_at = math.inf
        self._resize(capacity)

    def join(self, nbytes: float, ceiling: float, done: Callable[[Flow], None], weight: float = 1.0) -> Flow:
        """Add a flow of that many bytes and at most `ceiling` bytes/s; `done` is called with it when it has ended.

        Raises ValueError if a number is negative or not finite, or the weight not above 0.
        """
        flow = Flow(nbytes, ceiling, done, weight)
        if self.env.now != self._seen:
            self._advance()
        self.flows += 1
        if not self._free and self._has_room(flow):
            self._to_capped(flow, nbytes / weight * weight)
        else:
            self._enter(flow, nbytes)
        self._settle()
        return flow

    def leave(self, flow: Flow) -> float:
        """Remove a flow from the link and return its remaining bytes; 0 if it had ended."""
        if flow.where is GONE:
            return 0.0
        self._advance()
        left = self._exit(flow)
        self.part(1, self._seen)
        self._settle()
        return left

    def set_ceiling(self, flow: Flow, ceiling: float) -> None:
        """Change a flow's ceiling (bytes/s) from now on; ValueError as in `join`."""
        if checked_ceiling(ceiling) != flow.ceiling and flow.where is not GONE:
            self._advance()
            left = self._exit(flow)
            flow.ceiling = ceiling
            self._enter(flow, left)
            self._settle()

    def set_capacity(self, capacity: float) -> None:
        """Change the capacity (bytes/s) from now on; ValueError if it is negative."""
        self._advance()
        self._resize(capacity)
        self._settle()

    def rate_if_joined(self, ceiling: float, weight: float = 1.0) -> float:
        """Return in O(1) approximately the rate that one more flow with this ceiling would get (exact on an idle link).

        It is a lower bound: the flows on the link may give way by more than is counted here.
        """
        share = (self.capacity - self.capped_rate) * weight / (self.free_weight + weight)
        fair = self.capacity * weight / (self.free_weight + self.capped_weight + weight)
        return min(ceiling, max(share, fair))

    def _resize(self, capacity: float) -> None:
        self.capacity = checked_capacity(capacity)
        self._full_from = capacity * (1 - RATE_TOLERANCE) or math.inf  # the load; a link without capacity is never full
        self._most = capacity * (1 + RATE_TOLERANCE) + SLACK

    def _has_room(self, flow: Flow) -> bool:
        """Return whether a new flow can be CAPPED at once where none is BOTTLENECKED, as the level would make it."""
        if flow.ceiling <= OUTAGE:
            return False
        level = (self.capacity - self.capped_rate) / flow.weight
        return flow.ceiling / flow.weight <= level and self._reach <= level

    def _settle(self) -> None:
        """Compute the level again, check the load, and schedule the wake-up: at every change, so nothing is called."""
        load, capacity, level = self.capped_rate, self.capacity, math.inf
        if self._free:
            level = (capacity - load) / self.free_weight
            self.level = level = level if level > 0 else 0.0
            if self._reach > level or self._lowest.key() <= level:
                self._sort()
                load, level = self.capped_rate, self.level
        elif load <= capacity:
            self.level = level
        else:
            self.level = 0.0
            self._sort()
            load, level = self.capped_rate, self.level
        at = self._dates.key() if self._capped else math.inf
        if self._free:
            load += self.free_weight * level
            if level > 0:
                first = self._seen + (self._tags.key() - self._clock) / level
                if first < at:
                    at = first
        if load > self._most or (load >= self._full_from) == (self.full_since == math.inf):
            self._change_load(load)
        if at < self._wake_at:
            self._arm(at)

    def _sort(self) -> None:
        """Make flows BOTTLENECKED or CAPPED as the level demands, and update the level, until both agree.

        Both loops can only raise the level they start with, so after the second no capped flow is above it,
        and rounding cannot make a flow switch back and forth.
        """
        while self._reach > self.level and (top := self._highest.top()) and -top[0] > self.level:
            self._to_free(top[1], self._exit(top[1]))
            self.level = self._find_level()
        while self._free and (top := self._lowest.top()) and top[0] <= self.level:
            self._to_capped(top[1], self._exit(top[1]))
            self.level = self._find_level()

    def _change_load(self, load: float) -> None:
        """Note since when flows saturate the link, or that they no longer do; InvariantError if it carries too much."""
        if load > self._most:
            raise InvariantError(f"at {self._seen} s a link of {self.capacity} bytes/s carries {load}")
        self.note_full(load >= self._full_from, self._seen)

    def _find_level(self) -> float:
        if self._free:
            level = (self.capacity - self.capped_rate) / self.free_weight
            return level if level > 0 else 0.0
        return math.inf if self.capped_rate <= self.capacity else 0.0

    def _arm(self, at: float) -> None:
        """Schedule a wake-up no later than the next end of a flow; one that comes too early schedules another."""
        self._wake_at = at
        wait = at - self.env.now
        self._wake = wake = Wake(self.env)
        wake.callbacks = self._on_waking
        self.env.schedule(wake, delay=wait if wait > 0 else 0.0)

    def _on_wake(self, event: simpy.Event) -> None:
        if event is not self._wake:
            return  # an earlier one has been scheduled since
        self._wake, self._wake_at = None, math.inf
        if self.env.now != self._seen:
            self._advance()
        ended = self._take_ended()
        if ended:
            self.part(len(ended), self._seen)
        self._settle()
        for flow in ended:
            flow.done(flow)
