"""Mesh: flows over routes of several links each, which the flows share max–min fairly.

A pool of flows over the same links (`Bundle`) offers what a `Link` does: they join, leave and change their
ceilings. A change affects only the bundles that are connected with it by links that could be full; the others
keep their rates and dates.  Changes of one instant are settled together, before time advances or a state is
read.  Not modelled: queues, packets, routing (a pool is given the links of each route).
"""

import math
from collections.abc import Sequence
from itertools import count
from weakref import WeakValueDictionary

import simpy

from fedsim.net.links.filling import fill
from fedsim.net.links.flows import Flow, instant
from fedsim.net.links.heap import LazyHeap
from fedsim.net.links.mesh_link import Bundle, MeshLink


class Mesh:
    """Links, and the pools of flows over them."""

    def __init__(self, env: simpy.Environment) -> None:
        """Start without links."""
        self.env = env
        self._numbers = count()
        self._bundles: WeakValueDictionary[tuple[MeshLink, ...], Bundle] = WeakValueDictionary()
        self._changed: dict[Bundle, None] = {}  # since the last settlement
        self._ends: LazyHeap[Bundle] = LazyHeap()
        self._batch = False  # whether a settlement is scheduled for this instant
        self._wake: simpy.Event | None = None
        self._wake_at = math.inf

    def link(self, capacity: float, buffer: float | None = None, burst: float = 0.0) -> MeshLink:
        """Return a new link of `capacity` bytes/s; `buffer` and `burst` are those of a `Link`.

        Raises ValueError if a number is negative.
        """
        return MeshLink(self.env, self.touch, next(self._numbers), capacity, buffer, burst)

    def pool(self, links: Sequence[MeshLink]) -> Bundle:
        """Return the pool over these links; without links every flow gets its ceiling.

        Raises ValueError if a link occurs twice.
        """
        over = tuple(links)
        if len(set(over)) < len(over):
            raise ValueError("a route crosses the same link twice")
        bundle = self._bundles.get(over)
        if bundle is None:
            bundle = self._bundles[over] = Bundle(self.env, over, self.touch, self.settle)
        return bundle

    def touch(self, bundle: Bundle) -> None:
        """Advance a bundle to the present before it changes, and schedule a settlement before time advances."""
        bundle.stir()
        self._changed[bundle] = None
        if not self._batch:
            self._batch = True
            simpy.Timeout(self.env, 0.0).callbacks.append(self._on_batch)

    def settle(self) -> None:
        """Compute the levels that may have changed and schedule the wake-up; InvariantError if a link is overloaded."""
        if not self._changed:
            return
        bundles, links = self._reached()
        self._changed = {}
        now = self.env.now
        fill(bundles, [link for link in links if link.may_bind])
        for link in links:
            link.check(now)
        for bundle in bundles:
            if not bundle.stirred:
                continue
            bundle.stirred = False
            bundle.stamp += 1
            if (at := bundle.next_end()) < math.inf:
                self._ends.push(at, bundle, len(self._bundles))
        self._arm()

    def _reached(self) -> tuple[list[Bundle], list[MeshLink]]:
        """Return the bundles that the changes may affect, and all links that they cross.

        Those connected now or at the last settlement are affected: a link that no longer binds frees others.
        """
        bundles, links = dict(self._changed), dict[MeshLink, None]()
        waiting = list(bundles)
        while waiting:
            for link in waiting.pop().links:
                if link not in links:
                    links[link] = None
                    did_bind, link.may_bind = link.may_bind, link.could_bind()
                    if did_bind or link.may_bind:
                        more = [bundle for bundle in link.bundles if bundle not in bundles]
                        bundles.update(dict.fromkeys(more))
                        waiting += more
        return list(bundles), list(links)

    def _on_batch(self, event: simpy.Event) -> None:
        self._batch = False
        self.settle()

    def _arm(self) -> None:
        """Schedule a wake-up no later than the next end of a flow; one that comes too early schedules another."""
        top = self._ends.top()
        if top and top[0] < self._wake_at:
            self._wake_at = top[0]
            self._wake = simpy.Timeout(self.env, max(0.0, top[0] - self.env.now))
            self._wake.callbacks.append(self._on_wake)

    def _on_wake(self, event: simpy.Event) -> None:
        if event is not self._wake:
            return  # an earlier one has been scheduled since
        self._wake, self._wake_at = None, math.inf
        self.settle()
        ended: list[Flow] = []
        now = self.env.now
        while (top := self._ends.top()) and top[0] <= now + instant(now):
            bundle = top[1]
            bundle.stamp += 1
            self.touch(bundle)
            ended += bundle.take_ended()
        self._arm()
        for flow in ended:
            flow.done(flow)
