"""Mesh: flows over routes of several links each, which the flows share max–min fairly.

A `MeshPool` offers its flows what a `Link` does: they join, leave and change their ceilings there.  A change affects
only the bundles that are connected with it by links that could be full; the others keep their rates and dates.  Changes
of one instant are settled together, before time advances or a rate is read.  Not modelled: queues, packets, routing
(whoever makes a pool names its links).
"""

import math
from collections.abc import Callable, Sequence
from itertools import count
from weakref import WeakValueDictionary

import simpy

from fedsim.net.sharing.filling import fill
from fedsim.net.sharing.flows import GONE, Flow, checked_ceiling, instant
from fedsim.net.sharing.heap import LazyHeap
from fedsim.net.sharing.mesh_link import Bundle, MeshLink


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
        return MeshLink(self, next(self._numbers), capacity, buffer, burst)

    def pool(self, links: Sequence[MeshLink]) -> "MeshPool":
        """Return the pool over these links; without links every flow gets its ceiling.

        Raises ValueError if a link occurs twice.
        """
        over = tuple(links)
        if len(set(over)) < len(over):
            raise ValueError("a route crosses the same link twice")
        bundle = self._bundles.get(over)
        if bundle is None:
            bundle = self._bundles[over] = Bundle(self.env, over)
        return MeshPool(self, bundle)

    def touch(self, bundle: Bundle) -> None:
        """Advance a bundle to the present before it changes, and schedule a settlement before time advances."""
        bundle.stir()
        self._changed[bundle] = None
        if not self._batch:
            self._batch = True
            simpy.Timeout(self.env, 0.0).callbacks.append(self._on_batch)

    def touch_all(self, link: MeshLink) -> None:
        """Touch all bundles on a link that is about to change."""
        for bundle in link.bundles:
            self.touch(bundle)

    def settle(self) -> None:
        """Compute the levels that may have changed and schedule the wake-up; Breach if a link is overloaded."""
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


class MeshPool:
    """The flows over the same links, with the interface of a `Pool`."""

    __slots__ = ("_bundle", "_mesh")

    def __init__(self, mesh: Mesh, bundle: Bundle) -> None:
        """Wrap a bundle; made by `Mesh.pool`."""
        self._mesh, self._bundle = mesh, bundle

    def join(self, nbytes: float, ceiling: float, done: Callable[[Flow], None], weight: float = 1.0) -> Flow:
        """Add a flow of that many bytes and at most `ceiling` bytes/s; `done` is called with it when it has ended.

        Raises ValueError if a number is negative or not finite, or the weight not above 0.
        """
        flow = Flow(nbytes, ceiling, done, weight)
        self._mesh.touch(self._bundle)
        self._bundle.join(flow, nbytes)
        return flow

    def leave(self, flow: Flow) -> float:
        """Remove a flow and return its remaining bytes; 0 if it had ended."""
        if flow.where is GONE:
            return 0.0
        self._mesh.touch(self._bundle)
        return self._bundle.leave(flow)

    def set_ceiling(self, flow: Flow, ceiling: float) -> None:
        """Change a flow's ceiling (bytes/s) from now on; ValueError as in `join`."""
        if checked_ceiling(ceiling) != flow.ceiling and flow.where is not GONE:
            self._mesh.touch(self._bundle)
            self._bundle.set_ceiling(flow, ceiling)

    def rate(self, flow: Flow) -> float:
        """Return a flow's present rate in bytes/s."""
        self._mesh.settle()
        return self._bundle.rate(flow)

    def at_ceiling_since(self, flow: Flow) -> float:
        """Return the time since which a flow has run at its ceiling without a break; infinity if it does not.

        A flow that has ended at this instant counts as it was when it ended.
        """
        self._mesh.settle()
        return self._bundle.at_ceiling_since(flow)

    def remaining(self, flow: Flow) -> float:
        """Return a flow's remaining bytes."""
        self._mesh.settle()
        return self._bundle.remaining(flow)

    def rate_if_joined(self, ceiling: float, weight: float = 1.0) -> float:
        """Return a lower bound of the rate that one more flow would get now, exact on idle links.

        It takes one step per bundle on its links.
        """
        level = min((link.level_with(weight) for link in self._bundle.links), default=math.inf)
        return min(ceiling, weight * level)
