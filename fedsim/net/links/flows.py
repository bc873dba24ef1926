"""Flows: bytes under way at one water level, on one link or on the same links of a mesh.

A flow's rate is min(its ceiling, w x), where w is its weight (1 by default) and x the water level.  Flows
held by their ceiling (CAPPED) end at a known date; those at the level (BOTTLENECKED) end when the virtual
clock V, which runs at x bytes per second, reaches their tag, so that a new level costs nothing per flow.  The
level, and with it which flows are BOTTLENECKED, is set by `link.py` if the flows share one link and by
`filling.py` if they share several.
"""

import math
from collections.abc import Callable
from enum import Enum, auto

import simpy

from fedsim.net.links.heap import LazyHeap

OUTAGE = 1e-9  # bytes/s; no flow ends at such a rate, and the date on which it would is not finite
SLACK = 1e-6  # bytes/s by which rounding may overload a link, beyond a relative error
BYTES = 1e-6  # with no more than that left a flow has ended, as the rounding of V and of dates is of that size


class InvariantError(Exception):
    """A link carries more than its capacity, or the clock has gone backwards."""


class Where(Enum):
    """The state of a flow."""

    BOTTLENECKED = auto()  # its ceiling is above the level
    CAPPED = auto()  # it runs at its ceiling
    STALLED = auto()  # its ceiling is 0, or next to 0
    GONE = auto()  # it has ended or left


BOTTLENECKED, CAPPED, STALLED, GONE = Where  # read several times per flow, and faster than Enum attributes


class Flow:
    """Bytes under way; `due` is the tag if BOTTLENECKED, the date if CAPPED, the remaining bytes if STALLED."""

    __slots__ = ("capped_since", "capped_until", "ceiling", "done", "due", "stamp", "weight", "where")

    def __init__(self, nbytes: float, ceiling: float, done: Callable[["Flow"], None], weight: float) -> None:
        """Belong to no pool yet; ValueError if a number is negative or not finite, or the weight is 0."""
        if not 0 <= nbytes < math.inf:
            raise ValueError(f"a flow of {nbytes} bytes cannot join a link")
        if not 0 < weight < math.inf:
            raise ValueError(f"a flow's weight is {weight}: it must be above 0 and finite")
        self.ceiling = ceiling if 0 <= ceiling < math.inf else checked_ceiling(ceiling)
        self.done = done
        self.weight = weight
        self.where = GONE
        self.due = 0.0
        self.stamp = 0
        self.capped_since = self.capped_until = -math.inf


class Flows:
    """Flows at the level `level`: CAPPED ones take `capped_rate` in all, BOTTLENECKED ones weigh `free_weight`."""

    def __init__(self, env: simpy.Environment) -> None:
        """Start without flows."""
        self.env = env
        self.level = math.inf  # x
        self.free_weight = self.capped_weight = self.capped_rate = 0.0
        self._reach = 0.0  # no CAPPED flow reaches its ceiling above this level
        self._clock = 0.0  # V
        self._seen = env.now  # the time to which V has been brought
        self._free = self._capped = 0  # how many
        self._tags: LazyHeap[Flow] = LazyHeap()
        self._lowest: LazyHeap[Flow] = LazyHeap()
        self._dates: LazyHeap[Flow] = LazyHeap()
        self._highest: LazyHeap[Flow] = LazyHeap()

    @property
    def load(self) -> float:
        """The sum of all present rates in bytes/s."""
        return self.capped_rate + (self.free_weight * self.level if self._free else 0.0)

    def at_ceiling_since(self, flow: Flow) -> float:
        """Return the time since which a flow has run at its ceiling without a break; infinity if it does not.

        A flow that has ended at this instant counts as it was when it ended.
        """
        if flow.where is CAPPED or (flow.where is GONE and flow.capped_until == self.env.now):
            return flow.capped_since
        return math.inf

    def _advance(self) -> None:
        """Advance V to the present, before anything changes."""
        now = self.env.now
        if now != self._seen:
            if now < self._seen:
                raise InvariantError(f"the clock of a link went back from {self._seen} s to {now} s")
            if self._free:
                self._clock += self.level * (now - self._seen)
            self._seen = now

    def _left(self, flow: Flow) -> float:
        if flow.where is BOTTLENECKED:
            return max(0.0, flow.due - self._clock) * flow.weight
        if flow.where is CAPPED:
            return max(0.0, (flow.due - self._seen) * flow.ceiling)
        return flow.due if flow.where is STALLED else 0.0

    def _enter(self, flow: Flow, nbytes: float) -> None:
        """Add a flow with `nbytes` remaining, as a BOTTLENECKED one until the level is computed again."""
        if flow.ceiling > OUTAGE:
            self._to_free(flow, nbytes)
        else:
            flow.where, flow.due = STALLED, nbytes

    def _exit(self, flow: Flow) -> float:
        """Remove a flow and return its remaining bytes; V or the sums restart from zero when they can."""
        left = self._left(flow)
        self._drop(flow)
        return left

    def _drop(self, flow: Flow) -> None:
        if flow.where is BOTTLENECKED:
            self._free -= 1
            self.free_weight -= flow.weight
            if not self._free:
                self._clock = self.free_weight = 0.0
        elif flow.where is CAPPED:
            self._capped -= 1
            self.capped_rate -= flow.ceiling
            self.capped_weight -= flow.weight
            flow.capped_until = self._seen
            if not self._capped:
                self.capped_rate = self.capped_weight = self._reach = 0.0
        flow.stamp += 1
        flow.where = GONE

    def _to_free(self, flow: Flow, left: float) -> None:
        self._free += 1
        self.free_weight += flow.weight
        flow.where, flow.due = BOTTLENECKED, self._clock + left / flow.weight
        self._tags.push(flow.due, flow, self._free)
        self._lowest.push(flow.ceiling / flow.weight, flow, self._free)

    def _to_capped(self, flow: Flow, left: float) -> None:
        self._capped += 1
        self.capped_rate += flow.ceiling
        self.capped_weight += flow.weight
        flow.where, flow.due = CAPPED, self._seen + left / flow.ceiling
        if flow.capped_until < self._seen:
            flow.capped_since = self._seen
        reach = flow.ceiling / flow.weight
        if reach > self._reach:
            self._reach = reach
        self._dates.push(flow.due, flow, self._capped)
        self._highest.push(-reach, flow, self._capped)

    def next_end(self) -> float:
        """Return the time at which the next flow ends, if the level stays as it is."""
        at = self._dates.key() if self._capped else math.inf
        if self._free and self.level > 0:
            first = self._seen + (self._tags.key() - self._clock) / self.level
            if first < at:
                at = first
        return at

    def _take_ended(self) -> list[Flow]:
        """Remove the flows that have ended up to rounding; without that tolerance time could stand still."""
        ended = []
        soon = instant(self._seen)
        while self._capped and (top := self._dates.top()):
            flow = top[1]
            left = (top[0] - self._seen) * flow.ceiling
            if left > BYTES and left > soon * flow.ceiling:
                break
            self._drop(flow)
            ended.append(flow)
        while self._free and (top := self._tags.top()):
            flow = top[1]
            left = (top[0] - self._clock) * flow.weight
            if left > BYTES and left > soon * self.level * flow.weight:
                break
            self._drop(flow)
            ended.append(flow)
        return ended


def instant(now: float) -> float:
    """Return the seconds after `now` within which the clock cannot place an event more exactly.

    A flow that ends within them has ended.  They are a few steps of the floats about `now`, and no more: a
    share of the clock would let flows of short transfers end early, late in a long run.
    """
    return 4 * math.ulp(now)


def checked_ceiling(ceiling: float) -> float:
    """Return the ceiling; ValueError if it is negative or not finite."""
    if not 0 <= ceiling < math.inf:
        raise ValueError(f"a flow's ceiling is {ceiling} bytes/s: it must be finite and not negative")
    return ceiling


def checked_capacity(capacity: float) -> float:
    """Return the capacity; ValueError if it is negative or NaN."""
    if not capacity >= 0:
        raise ValueError(f"a link's capacity is {capacity} bytes/s: it must not be negative")
    return capacity
