"""Pipe: one direction of a link that is a part of paths over several such links.

It knows the bundles of flows that cross it.  Not modelled: queues and packets; how the flows share it is found in
`filling.py`, for all pipes of a path at once.
"""

import math
from typing import TYPE_CHECKING, Protocol

import simpy

from fedsim.net.sharing.breach import Breach
from fedsim.net.sharing.line import EXACT, default_buffer, tokens
from fedsim.net.sharing.pool import SLACK, checked_capacity

if TYPE_CHECKING:
    from fedsim.net.sharing.bundle import Bundle


class Owner(Protocol):
    """What a pipe needs of its mesh."""

    env: simpy.Environment

    def touch_all(self, pipe: "Pipe") -> None:
        """Hear that the pipe is going to change."""
        ...

    def settle(self) -> None:
        """Find the rates again."""
        ...


class Spell:
    """Since when something has been so; a break that takes no time is none."""

    __slots__ = ("_before", "_until", "since")

    def __init__(self) -> None:
        """Start with it not being so."""
        self.since = math.inf
        self._before = self._until = -math.inf

    def note(self, is_so: bool, now: float) -> None:
        """Hear whether it is so now."""
        if is_so:
            if self.since == math.inf:
                self.since = self._before if self._until == now else now
        elif self.since < math.inf:
            self._before, self._until, self.since = self.since, now, math.inf


class Pipe:
    """One direction of a link of `capacity` bytes/s (it may be infinite); made by `Mesh.pipe`."""

    def __init__(self, mesh: "Owner", number: int, capacity: float, buffer: float | None, burst: float) -> None:
        """Start idle; see `Mesh.pipe`."""
        if not (burst >= 0 and (buffer is None or buffer >= 0)):
            raise ValueError(f"a link has a buffer of {buffer} and a burst of {burst} bytes: neither may be negative")
        self.capacity = checked_capacity(capacity)
        self._mesh, self._number, self._buffer, self.burst = mesh, number, buffer, burst
        self._full = Spell()
        self._rested = -math.inf  # when the last flow left
        self.flows = 0  # all that are on it
        self.bundles: dict[Bundle, None] = {}  # those that have flows moving, in the order in which they began to
        self.may_bind = False  # whether the last settling had to reckon with it

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
        """The bytes that can wait before it."""
        return default_buffer(self.capacity) if self._buffer is None else self._buffer

    @property
    def full_since(self) -> float:
        """The time since which flows have used it up without a break, but for the changes of this very instant."""
        return self._full.since

    @property
    def tokens(self) -> float:
        """The bytes that would pass at once now: none while a flow is here."""
        return 0.0 if self.flows else tokens(self.burst, self.capacity, self._mesh.env.now - self._rested)

    def part(self, now: float) -> None:
        """Count a flow as gone; the bucket fills again once there is none."""
        self.flows -= 1
        if not self.flows:
            self._rested = now

    def present_load(self) -> float:
        """Return the sum of the rates as they were last settled."""
        return sum((bundle.load for bundle in self.bundles), 0.0)

    def before(self, other: "Pipe") -> bool:
        """Tell whether it is the narrower of the two (of equals, one is), which bounds what comes to the other."""
        return (self.capacity, self._number) < (other.capacity, other._number)

    def could_bind(self) -> bool:
        """Tell whether more than its capacity could come through the narrower pipes of its flows."""
        room = self.capacity
        for bundle in self.bundles:
            room -= bundle.most_through(self)
            if room < 0:
                return True
        return False

    def level_with(self, weight: float) -> float:
        """Return at most the level that one more flow of this weight would come to, if no other pipe were narrower.

        Nobody takes more than its bundle could send, nor more than it takes at that level in the places that the
        flows have now, or with all of them at the level: whichever of the two leaves more room.
        """
        if self.capacity == math.inf:
            return math.inf
        now = [(bundle.capped_rate, bundle.free_weight, bundle.most_through(self)) for bundle in self.bundles]
        alike = [(0.0, bundle.weight, bundle.most_through(self)) for bundle in self.bundles]
        return max(_level(self.capacity, now, weight), _level(self.capacity, alike, weight))

    def check(self, now: float) -> None:
        """Note since when it has been full; Breach where more goes through than it can carry."""
        load = self.present_load()
        if load > self.capacity * (1 + EXACT) + SLACK:
            raise Breach(f"at {now} s a link of {self.capacity} bytes/s carries {load}")
        self._full.note(0 < self.capacity * (1 - EXACT) <= load, now)


def _level(room: float, parts: list[tuple[float, float, float]], weight: float) -> float:
    """Fill the room with parts that take (fixed + their weight times the level, at most so much), and one weight."""
    while True:
        fixed, rising = sum(part[0] for part in parts), sum(part[1] for part in parts)
        level = max(0.0, (room - fixed) / (rising + weight))
        below = [part for part in parts if part[0] + part[1] * level <= part[2]]
        if len(below) == len(parts):
            return level
        room -= sum(part[2] for part in parts if part[0] + part[1] * level > part[2])
        parts = below
