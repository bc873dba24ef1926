"""Link: one direction of a shared access link, on which flows share the capacity max–min fairly.

A flow's rate is min(its ceiling, x), where the water level x fills the capacity C: the sum of min(ceiling, x) is C,
or x is infinite where all ceilings fit.  Flows below the level (CAPPED) end at a date; those at the level (FREE) end
when the virtual clock V, which runs at x bytes a second, reaches their tag.  Each change takes O(log n), amortised.
Not modelled: queues, packets, weights for unequal round trips, paths over more than one such link.
"""

import math
from collections.abc import Callable
from enum import Enum, auto

import simpy

from fedsim.net.heap import LazyHeap


class Where(Enum):
    """Where a flow stands."""

    FREE = auto()  # its ceiling is above the level
    CAPPED = auto()  # it runs at its ceiling
    PARKED = auto()  # its ceiling is 0
    GONE = auto()  # it has ended or left


class Flow:
    """Bytes on their way over a link; `due` is its tag while FREE, its date while CAPPED, its bytes while PARKED."""

    __slots__ = ("ceiling", "done", "due", "stamp", "where")

    def __init__(self, ceiling: float, done: Callable[["Flow"], None]) -> None:
        self.ceiling = ceiling
        self.done = done
        self.where = Where.GONE
        self.due = 0.0
        self.stamp = 0


class Link:
    """One direction of an access link of `capacity` bytes/s (it may be infinite)."""

    def __init__(self, env: simpy.Environment, capacity: float) -> None:
        """Start idle; ValueError for a negative capacity."""
        self.env = env
        self.capacity = _checked_capacity(capacity)
        self.level = math.inf  # x
        self._clock = 0.0  # V
        self._seen = env.now  # the time to which V has been brought
        self._free = self._capped = 0
        self._sum_capped = 0.0
        self._tags: LazyHeap[Flow] = LazyHeap()
        self._lowest: LazyHeap[Flow] = LazyHeap()
        self._dates: LazyHeap[Flow] = LazyHeap()
        self._highest: LazyHeap[Flow] = LazyHeap()
        self._wake: simpy.Event | None = None
        self._wake_at = math.inf

    def join(self, nbytes: float, ceiling: float, done: Callable[[Flow], None]) -> Flow:
        """Add a flow of that many bytes and at most `ceiling` bytes/s; `done` is called with it when it has ended.

        Raises ValueError where a number is negative or not finite.
        """
        if not (math.isfinite(nbytes) and nbytes >= 0):
            raise ValueError(f"a flow of {nbytes} bytes cannot join a link")
        self._advance()
        flow = Flow(_checked_ceiling(ceiling), done)
        self._enter(flow, nbytes)
        self._settle()
        return flow

    def leave(self, flow: Flow) -> float:
        """Take a flow off the link and return the bytes it still had to go; 0 if it had ended."""
        if flow.where is Where.GONE:
            return 0.0
        self._advance()
        left = self._exit(flow)
        self._settle()
        return left

    def set_ceiling(self, flow: Flow, ceiling: float) -> None:
        """Change a flow's ceiling (bytes/s) from now on; ValueError as in `join`."""
        if _checked_ceiling(ceiling) != flow.ceiling and flow.where is not Where.GONE:
            self._advance()
            left = self._exit(flow)
            flow.ceiling = ceiling
            self._enter(flow, left)
            self._settle()

    def set_capacity(self, capacity: float) -> None:
        """Change the capacity (bytes/s) from now on; ValueError if it is negative."""
        self._advance()
        self.capacity = _checked_capacity(capacity)
        self._settle()

    @property
    def load(self) -> float:
        """The sum of all present rates in bytes/s."""
        return self._sum_capped + (self._free * self.level if self._free else 0.0)

    def rate(self, flow: Flow) -> float:
        """Return a flow's present rate in bytes/s."""
        if flow.where is Where.GONE:
            return 0.0
        return self.level if flow.where is Where.FREE else flow.ceiling

    def remaining(self, flow: Flow) -> float:
        """Return the bytes a flow still has to go."""
        self._advance()
        return self._left(flow)

    def rate_if_joined(self, ceiling: float) -> float:
        """Return in O(1) about the rate that one more flow with this ceiling would get now (exact on an idle link).

        It is never more than that rate, which the flows may come to by giving way more than is counted here.
        """
        share = (self.capacity - self._sum_capped) / (self._free + 1)
        fair = self.capacity / (self._free + self._capped + 1)
        return min(ceiling, max(share, fair))

    def _advance(self) -> None:
        now = self.env.now
        if self._free and now > self._seen:
            self._clock += self.level * (now - self._seen)
        self._seen = now

    def _left(self, flow: Flow) -> float:
        if flow.where is Where.FREE:
            return max(0.0, flow.due - self._clock)
        if flow.where is Where.CAPPED:
            return max(0.0, (flow.due - self._seen) * flow.ceiling)
        return flow.due if flow.where is Where.PARKED else 0.0

    def _enter(self, flow: Flow, nbytes: float) -> None:
        if flow.ceiling > 0:
            self._to_free(flow, nbytes)
        else:
            flow.where, flow.due = Where.PARKED, nbytes

    def _exit(self, flow: Flow) -> float:
        """Take the flow out of where it stands, and return its bytes to go; V or the sum starts afresh when it can."""
        left = self._left(flow)
        if flow.where is Where.FREE:
            self._free -= 1
            if not self._free:
                self._clock = 0.0
        elif flow.where is Where.CAPPED:
            self._capped -= 1
            self._sum_capped = self._sum_capped - flow.ceiling if self._capped else 0.0
        flow.stamp += 1
        flow.where = Where.GONE
        return left

    def _to_free(self, flow: Flow, left: float) -> None:
        self._free += 1
        flow.where, flow.due = Where.FREE, self._clock + left
        self._tags.push(flow.due, flow, self._free)
        self._lowest.push(flow.ceiling, flow, self._free)

    def _to_capped(self, flow: Flow, left: float) -> None:
        self._capped += 1
        self._sum_capped += flow.ceiling
        flow.where, flow.due = Where.CAPPED, self._seen + left / flow.ceiling
        self._dates.push(flow.due, flow, self._capped)
        self._highest.push(-flow.ceiling, flow, self._capped)

    def _settle(self) -> None:
        """Find the level again and arm the wake-up.

        Both loops can only raise the level that they begin with, so after the second no capped flow is above it,
        and rounding cannot make a flow go to and fro.
        """
        self.level = self._find_level()
        while (top := self._highest.top()) and -top[0] > self.level:
            self._to_free(top[1], self._exit(top[1]))
            self.level = self._find_level()
        while (top := self._lowest.top()) and top[0] <= self.level:
            self._to_capped(top[1], self._exit(top[1]))
            self.level = self._find_level()
        self._arm()

    def _find_level(self) -> float:
        if self._free:
            return max(0.0, (self.capacity - self._sum_capped) / self._free)
        return math.inf if self._sum_capped <= self.capacity else 0.0

    def _arm(self) -> None:
        """See to it that a wake-up comes no later than the next flow ends; one that comes too early arms again."""
        at = math.inf
        if top := self._dates.top():
            at = top[0]
        if self.level > 0 and (top := self._tags.top()):
            at = min(at, self._seen + (top[0] - self._clock) / self.level)
        if at < self._wake_at:
            self._wake_at = at
            self._wake = simpy.Timeout(self.env, max(0.0, at - self.env.now))
            self._wake.callbacks.append(self._on_wake)

    def _on_wake(self, event: simpy.Event) -> None:
        if event is not self._wake:
            return  # an earlier one has been armed since
        self._wake, self._wake_at = None, math.inf
        self._advance()
        ended = self._take_ended()
        self._settle()
        for flow in ended:
            flow.done(flow)

    def _take_ended(self) -> list[Flow]:
        """Take off the flows that have ended, but for what rounding leaves of them: else time could stand still."""
        ended = []
        instant = 1e-9 * max(1.0, self._seen)
        while (top := self._dates.top()) and self._left(top[1]) <= max(instant * top[1].ceiling, 1e-6):
            self._exit(top[1])
            ended.append(top[1])
        while (top := self._tags.top()) and self._left(top[1]) <= max(instant * self.level, 1e-6):
            self._exit(top[1])
            ended.append(top[1])
        return ended


def _checked_ceiling(ceiling: float) -> float:
    if not (math.isfinite(ceiling) and ceiling >= 0):
        raise ValueError(f"a flow's ceiling is {ceiling} bytes/s: it must be finite and not negative")
    return ceiling


def _checked_capacity(capacity: float) -> float:
    if not capacity >= 0:
        raise ValueError(f"a link's capacity is {capacity} bytes/s: it must not be negative")
    return capacity
