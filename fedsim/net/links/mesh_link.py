"""MeshLink: one direction of a link that is part of routes over several links; and the bundles of flows that cross it.

A bundle is the flows over the same links of a mesh; they share one water level, whatever else their links
carry.  How flows share the links is computed in `filling.py`, for all links of a route at once.  Not
modelled: queues and packets.
"""

import math
from collections.abc import Callable

import simpy

from fedsim.net.links.flows import GONE, SLACK, STALLED, Flow, Flows, InvariantError, checked_capacity, checked_ceiling
from fedsim.net.links.link_meter import RATE_TOLERANCE, LinkMeter


class MeshLink(LinkMeter):
    """One direction of a link that is part of a mesh; made by `Mesh.link`."""

    def __init__(
        self,
        env: simpy.Environment,
        touch: Callable[["Bundle"], None],
        number: int,
        capacity: float,
        buffer: float | None,
        burst: float,
    ) -> None:
        """Start idle; see `LinkMeter`.  `touch` a bundle before it changes."""
        super().__init__(env, capacity, buffer, burst)
        self._touch, self._number = touch, number
        self.bundles: dict[Bundle, None] = {}  # those with moving flows, in the order in which they began to move
        self.may_bind = False  # whether it could be full at the last settlement

    def set_capacity(self, capacity: float) -> None:
        """Change the capacity (bytes/s) from now on; ValueError if it is negative."""
        checked_capacity(capacity)
        for bundle in self.bundles:
            self._touch(bundle)
        self.capacity = capacity

    @property
    def load(self) -> float:
        """The sum of the rates of all flows on it as of the last settlement, in bytes/s."""
        return sum((bundle.load for bundle in self.bundles), 0.0)

    def before(self, other: "MeshLink") -> bool:
        """Return whether it is the narrower of the two, which limits what reaches the other; ties are broken."""
        return (self.capacity, self._number) < (other.capacity, other._number)

    def could_bind(self) -> bool:
        """Return whether more than its capacity could arrive through the narrower links of its flows."""
        room = self.capacity
        for bundle in self.bundles:
            room -= bundle.most_through(self)
            if room < 0:
                return True
        return False

    def level_with(self, weight: float) -> float:
        """Return a lower bound of the level that one more flow of this weight would reach on this link.

        No bundle takes more than it could send, nor more than it takes at that level with its flows in their
        present states, or with all of them at the level: whichever of the two leaves more room.
        """
        if self.capacity == math.inf:
            return math.inf
        now = [(bundle.capped_rate, bundle.free_weight, bundle.most_through(self)) for bundle in self.bundles]
        alike = [(0.0, bundle.weight, bundle.most_through(self)) for bundle in self.bundles]
        return max(_level(self.capacity, now, weight), _level(self.capacity, alike, weight))

    def check(self, now: float) -> None:
        """Record since when it has been full; raise InvariantError if it carries more than its capacity."""
        load = self.load
        if load > self.capacity * (1 + RATE_TOLERANCE) + SLACK:
            raise InvariantError(f"at {now} s a link of {self.capacity} bytes/s carries {load}")
        self.note_full(0 < self.capacity * (1 - RATE_TOLERANCE) <= load, now)


def _level(room: float, parts: list[tuple[float, float, float]], weight: float) -> float:
    """Return the level at which parts of min(fixed + rising x level, most) and one more weight fill the room."""
    while True:
        fixed, rising = sum(part[0] for part in parts), sum(part[1] for part in parts)
        level = max(0.0, (room - fixed) / (rising + weight))
        below = [part for part in parts if part[0] + part[1] * level <= part[2]]
        if len(below) == len(parts):
            return level
        room -= sum(part[2] for part in parts if part[0] + part[1] * level > part[2])
        parts = below


class Bundle(Flows):
    """The flows over the same links, with the interface of a `Link`; their level is computed in `filling.py`."""

    def __init__(
        self,
        env: simpy.Environment,
        links: tuple[MeshLink, ...],
        touch: Callable[["Bundle"], None],
        settle: Callable[[], None],
    ) -> None:
        """Start without flows; made by `Mesh.pool`."""
        super().__init__(env)
        self.links, self._touch, self._settle = links, touch, settle
        self.stamp = 0
        self.stirred = False  # whether its next end must be computed again
        self._wanted = self._peak = 0.0  # the sum of ceilings, and its maximum since no flow moved

    @property
    def weight(self) -> float:
        """The total weight of all flows that move."""
        return self.free_weight + self.capped_weight

    def most_through(self, link: MeshLink) -> float:
        """Return the highest rate (bytes/s) at which its flows can reach this link, as limited by narrower links."""
        most = self._wanted + RATE_TOLERANCE * self._peak
        for other in self.links:
            if other.capacity < most and other.before(link):
                most = other.capacity
        return most

    def stir(self) -> None:
        """Advance to the present, because something is about to change."""
        self._advance()
        self.stirred = True

    def set_level(self, level: float) -> None:
        """Run its flows at this level from now on."""
        if level != self.level:
            self.stir()
            self.level = level

    def join(self, nbytes: float, ceiling: float, done: Callable[[Flow], None], weight: float = 1.0) -> Flow:
        """Add a flow of that many bytes and at most `ceiling` bytes/s; `done` is called with it when it has ended.

        Raises ValueError if a number is negative or not finite, or the weight not above 0.
        """
        flow = Flow(nbytes, ceiling, done, weight)
        self._touch(self)
        for link in self.links:
            link.flows += 1
        self._take_in(flow, nbytes)
        return flow

    def leave(self, flow: Flow) -> float:
        """Remove a flow and return its remaining bytes; 0 if it had ended."""
        if flow.where is GONE:
            return 0.0
        self._touch(self)
        left = self._take_out(flow)
        for link in self.links:
            link.part(1, self._seen)
        return left

    def set_ceiling(self, flow: Flow, ceiling: float) -> None:
        """Change a flow's ceiling (bytes/s) from now on; ValueError as in `join`."""
        if checked_ceiling(ceiling) != flow.ceiling and flow.where is not GONE:
            self._touch(self)
            left = self._take_out(flow)
            flow.ceiling = ceiling
            self._take_in(flow, left)

    def at_ceiling_since(self, flow: Flow) -> float:
        """Return what `Flows.at_ceiling_since` does, at the present levels."""
        self._settle()
        return super().at_ceiling_since(flow)

    def rate_if_joined(self, ceiling: float, weight: float = 1.0) -> float:
        """Return a lower bound of the rate that one more flow would get now, exact on idle links.

        It takes one step per bundle on its links.
        """
        level = min((link.level_with(weight) for link in self.links), default=math.inf)
        return min(ceiling, weight * level)

    def take_ended(self) -> list[Flow]:
        """Remove all flows that have ended, and return them."""
        ended = self._take_ended()
        for flow in ended:
            self._wanted -= flow.ceiling
            for link in self.links:
                link.part(1, self._seen)
        if ended:
            self._rest()
        return ended

    def highest(self) -> float:
        """Return the highest level that a CAPPED flow reaches; 0 if there is none."""
        top = self._highest.top() if self._capped else None
        return -top[0] if top else 0.0

    def free_highest(self) -> None:
        """Make the CAPPED flow with the highest level BOTTLENECKED."""
        if top := self._highest.top():
            self.stir()
            self._to_free(top[1], self._exit(top[1]))

    def cap(self, level: float) -> bool:
        """Make all BOTTLENECKED flows that reach their ceilings at this level CAPPED; return whether there were any."""
        if not self._free or not (top := self._lowest.top()) or top[0] > level:
            return False
        self.stir()
        while (top := self._lowest.top()) and top[0] <= level:
            self._to_capped(top[1], self._exit(top[1]))
        return True

    def _take_in(self, flow: Flow, nbytes: float) -> None:
        self._enter(flow, nbytes)
        if flow.where is STALLED:
            return
        if self._free + self._capped == 1:
            for link in self.links:
                link.bundles[self] = None
        self._wanted += flow.ceiling
        self._peak = max(self._peak, self._wanted)

    def _take_out(self, flow: Flow) -> float:
        moved = flow.where is not STALLED
        left = self._exit(flow)
        if moved:
            self._wanted -= flow.ceiling
            self._rest()
        return left

    def _rest(self) -> None:
        """If no flow moves any more, remove it from the links and restart the sums from zero."""
        if not self._free + self._capped:
            self._wanted = self._peak = 0.0
            for link in self.links:
                del link.bundles[self]
