"""Progressive filling: the levels of bundles whose flows meet on several pipes, max–min fairly.

One level rises for all.  Where a pipe is full, the bundles on it stay at that level, and the others go on.  Source:
Bertsekas and Gallager, Data Networks, section 6.5.2, here for bundles instead of single flows: with some of its flows
FREE and the rest CAPPED a bundle takes `capped_rate` and `free_weight` times the level, which at every level is at
least what it would take with each flow where it belongs.  So the lowest level among pipes is never too high; flows are
moved to where they belong at it, until it holds.  As it only rises, none is freed again that has been capped.
"""

import math
from collections.abc import Iterable

from fedsim.net.sharing.bundle import Bundle
from fedsim.net.sharing.heap import LazyHeap
from fedsim.net.sharing.pipe import Pipe

FITS = 1e-12  # relative; what rounding may make of a sum of ceilings that is just the capacity


class _Rising:
    """What the filling knows of a pipe: the room that is left, and the bundles that still rise on it."""

    __slots__ = ("live", "room", "stamp")

    def __init__(self, pipe: Pipe) -> None:
        self.live = dict(pipe.bundles)
        self.room = pipe.capacity
        self.stamp = 0

    def level(self) -> float:
        """Return the level at which it is full with every flow FREE or CAPPED as it is now."""
        free = capped = 0.0
        for bundle in self.live:
            free += bundle.free_weight
            capped += bundle.capped_rate
        if free:
            return max(0.0, (self.room - capped) / free)
        return math.inf if capped <= self.room * (1 + FITS) else 0.0


def fill(bundles: Iterable[Bundle], pipes: Iterable[Pipe]) -> None:
    """Give every bundle its level, and its flows their places.

    `pipes` are all that could be full, and `bundles` all that cross one of them (others get all they can take).
    """
    rising = {pipe: _Rising(pipe) for pipe in pipes}
    heap: LazyHeap[_Rising] = LazyHeap()
    for place in rising.values():
        heap.push(place.level(), place, len(rising))
    open_ = dict.fromkeys(bundles)
    level = 0.0

    def changed(bundle: Bundle) -> None:
        for pipe in bundle.pipes:
            if (place := rising.get(pipe)) and place.live:
                place.stamp += 1
                heap.push(place.level(), place, len(rising))

    while (top := heap.top()) and top[0] < math.inf:
        level, place = max(level, top[0]), top[1]
        highest = max(place.live, key=Bundle.highest)
        if highest.highest() > level:
            highest.free_highest()
            changed(highest)
        elif capped := [bundle for bundle in place.live if bundle.cap(level)]:
            for bundle in capped:
                changed(bundle)
        else:
            _stop(place, level, rising, open_, heap)
    for bundle in open_:
        bundle.cap(math.inf)
        bundle.set_level(math.inf)


def _stop(
    full: _Rising,
    level: float,
    rising: dict[Pipe, _Rising],
    open_: dict[Bundle, None],
    heap: LazyHeap[_Rising],
) -> None:
    """Leave the bundles of a full pipe at this level; the other pipes have the less room."""
    touched = dict[_Rising, None]()
    for bundle in full.live:
        bundle.set_level(level)
        del open_[bundle]
        for pipe in bundle.pipes:
            if (place := rising.get(pipe)) and place is not full:
                del place.live[bundle]
                place.room -= bundle.load
                touched[place] = None
    full.live = {}
    full.stamp += 1
    for place in touched:
        place.stamp += 1
        if place.live:
            heap.push(place.level(), place, len(rising))
