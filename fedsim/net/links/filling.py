"""Progressive filling: the max–min fair levels of bundles whose flows meet on several links.

One level rises for all.  When a link is full, the bundles on it stay at that level, and the others go on
rising. Source: Bertsekas and Gallager, Data Networks, section 6.5.2, here for bundles instead of single
flows: with some of its flows BOTTLENECKED and the rest CAPPED a bundle takes `capped_rate` plus `free_weight`
times the level, which at every level is at least what it would take with each flow in its proper state.  So
the lowest level among links is never too high; flows are moved to their proper state at that level until it
is stable.  As the level only rises, no flow that has been capped is freed again.
"""

import math
from collections.abc import Iterable

from fedsim.net.links.heap import LazyHeap
from fedsim.net.links.mesh_link import Bundle, MeshLink

FITS = 1e-12  # relative rounding error of a sum of ceilings that equals the capacity


class _Rising:
    """A link during the filling: the room that is left, and the bundles on it that still rise."""

    __slots__ = ("live", "room", "stamp")

    def __init__(self, link: MeshLink) -> None:
        self.live = dict(link.bundles)
        self.room = link.capacity
        self.stamp = 0

    def level(self) -> float:
        """Return the level at which the link is full if every flow stays BOTTLENECKED or CAPPED as it is."""
        free = capped = 0.0
        for bundle in self.live:
            free += bundle.free_weight
            capped += bundle.capped_rate
        if free:
            return max(0.0, (self.room - capped) / free)
        return math.inf if capped <= self.room * (1 + FITS) else 0.0


def fill(bundles: Iterable[Bundle], links: Iterable[MeshLink]) -> None:
    """Set the level of every bundle and the state of its flows.

    `links` are all links that could be full; `bundles` must include all that cross one of them, and those
    that cross none get their ceilings.
    """
    rising = {link: _Rising(link) for link in links}
    heap: LazyHeap[_Rising] = LazyHeap()
    for place in rising.values():
        heap.push(place.level(), place, len(rising))
    open_ = dict.fromkeys(bundles)
    level = 0.0

    def changed(bundle: Bundle) -> None:
        for link in bundle.links:
            if (place := rising.get(link)) and place.live:
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
    full: _Rising, level: float, rising: dict[MeshLink, _Rising], open_: dict[Bundle, None], heap: LazyHeap[_Rising]
) -> None:
    """Leave the bundles of a full link at this level, and subtract their load from the other links."""
    touched = dict[_Rising, None]()
    for bundle in full.live:
        bundle.set_level(level)
        del open_[bundle]
        for link in bundle.links:
            if (place := rising.get(link)) and place is not full:
                del place.live[bundle]
                place.room -= bundle.load
                touched[place] = None
    full.live = {}
    full.stamp += 1
    for place in touched:
        place.stamp += 1
        if place.live:
            heap.push(place.level(), place, len(rising))
