"""MeshLink: one direction of a link that is part of routes over several links.

It knows the bundles of flows that cross it.  Not modelled: queues and packets; how flows share the links is computed in
`filling.py`, for all links of a route at once.
"""

import math
from typing import TYPE_CHECKING, Protocol

import simpy

from fedsim.net.sharing.breach import Breach
from fedsim.net.sharing.flows import SLACK, checked_capacity
from fedsim.net.sharing.link_state import EXACT, default_buffer, tokens

if TYPE_CHECKING:
    from fedsim.net.sharing.bundle import Bundle


class Owner(Protocol):
    """What a link needs of its mesh."""

    env: simpy.Environment

    def touch_all(self, link: "MeshLink") -> None:
        """Prepare for a change of the link."""
        ...

    def settle(self) -> None:
        """Compute the rates again."""
        ...


class Streak:
    """Since when a condition has held; a break of no length does not count."""

    __slots__ = ("_before", "_until", "since")

    def __init__(self) -> None:
        """Start with a condition that does not hold."""
        self.since = math.inf
        self._before = self._until = -math.inf

    def note(self, holds: bool, now: float) -> None:
        """Record whether it holds now."""
        if holds:
            if self.since == math.inf:
                self.since = self._before if self._until == now else now
        elif self.since < math.inf:
            self._before, self._until, self.since = self.since, now, math.inf


class MeshLink:
    """One direction of a link of `capacity` bytes/s (it may be infinite); made by `Mesh.link`."""

    def __init__(self, mesh: "Owner", number: int, capacity: float, buffer: float | None, burst: float) -> None:
        """Start idle; see `Mesh.link`."""
        if not (burst >= 0 and (buffer is None or buffer >= 0)):
            raise ValueError(f"a link has a buffer of {buffer} and a burst of {burst} bytes: neither may be negative")
        self.capacity = checked_capacity(capacity)
        self._mesh, self._number, self._buffer, self.burst = mesh, number, buffer, burst
        self._full = Streak()
        self._rested = -math.inf  # when the last flow left
        self.flows = 0  # how many are on it
        self.bundles: dict[Bundle, None] = {}  # those with moving flows, in the order in which they began to move
        self.may_bind = False  # whether it could be full at the last settlement

    def set_capacity(self, capacity: float) -> None:
        """Change the capacity (bytes/s) from now on; ValueError if it is negative."""
        checked_capacity(capacity)
        self._mesh.touch_all(self)
        self.capacity = capacity

    @property
    def load(self) -> float:
        """The sum of the rates of all flows on it, in bytes/s."""
        self._mesh.settle()
        return self.present_load()

    @property
    def buffer(self) -> float:
        """The bytes that can wait in front of the link."""
        return default_buffer(self.capacity) if self._buffer is None else self._buffer

    @property
    def full_since(self) -> float:
        """The time since which flows have saturated it without a break, as of the last settlement."""
        return self._full.since

    @property
    def tokens(self) -> float:
        """The bytes that would pass at once if sent now: none while there is a flow."""
        return 0.0 if self.flows else tokens(self.burst, self.capacity, self._mesh.env.now - self._rested)

    def part(self, now: float) -> None:
        """Count a flow as gone; the bucket fills again once the link is idle."""
        self.flows -= 1
        if not self.flows:
            self._rested = now

    def present_load(self) -> float:
        """Return the sum of the rates as of the last settlement."""
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

        No bundle takes more than it could send, nor more than it takes at that level with its flows in their present
        states, or with all of them at the level: whichever of the two leaves more room.
        """
        if self.capacity == math.inf:
            return math.inf
        now = [(bundle.capped_rate, bundle.free_weight, bundle.most_through(self)) for bundle in self.bundles]
        alike = [(0.0, bundle.weight, bundle.most_through(self)) for bundle in self.bundles]
        return max(_level(self.capacity, now, weight), _level(self.capacity, alike, weight))

    def check(self, now: float) -> None:
        """Record since when it has been full; raise Breach if it carries more than its capacity."""
        load = self.present_load()
        if load > self.capacity * (1 + EXACT) + SLACK:
            raise Breach(f"at {now} s a link of {self.capacity} bytes/s carries {load}")
        self._full.note(0 < self.capacity * (1 - EXACT) <= load, now)


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
