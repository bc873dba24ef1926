"""Mesh: flows over paths of several shared pipes, each of which they share max–min fairly.

`Path` is to its flows what a `Link` is: they join, leave and change their ceilings there.  A change reaches only the
bundles that pipes which could be full connect with it; the others keep their rates and dates.  Changes of one instant
are settled together, before time goes on or a rate is read.  Not modelled: queues, packets, routing (whoever makes a
path says which pipes it crosses).
"""

import math
from collections.abc import Callable, Sequence
from itertools import count
from weakref import WeakValueDictionary

import simpy

from fedsim.net.sharing.bundle import Bundle
from fedsim.net.sharing.filling import fill
from fedsim.net.sharing.heap import LazyHeap
from fedsim.net.sharing.pipe import Pipe
from fedsim.net.sharing.pool import GONE, Flow, checked_ceiling


class Mesh:
    """Pipes, and the flows on paths over them."""

    def __init__(self, env: simpy.Environment) -> None:
        """Start without pipes."""
        self.env = env
        self._numbers = count()
        self._bundles: WeakValueDictionary[tuple[Pipe, ...], Bundle] = WeakValueDictionary()
        self._changed: dict[Bundle, None] = {}  # since the last settling
        self._ends: LazyHeap[Bundle] = LazyHeap()
        self._batch = False  # whether a settling has been put down for this instant
        self._wake: simpy.Event | None = None
        self._wake_at = math.inf

    def pipe(self, capacity: float, buffer: float | None = None, burst: float = 0.0) -> Pipe:
        """Return a new pipe of so many bytes/s, with `buffer` bytes before it and `burst` tokens, as a `Link` has.

        Raises ValueError where a number is negative.
        """
        return Pipe(self, next(self._numbers), capacity, buffer, burst)

    def path(self, pipes: Sequence[Pipe]) -> "Path":
        """Return the path over these pipes; over none of them everybody gets their ceiling.

        Raises ValueError where a pipe is in it twice.
        """
        over = tuple(pipes)
        if len(set(over)) < len(over):
            raise ValueError("a path crosses the same link twice")
        bundle = self._bundles.get(over)
        if bundle is None:
            bundle = self._bundles[over] = Bundle(self.env, over)
        return Path(self, bundle)

    def touch(self, bundle: Bundle) -> None:
        """Bring a bundle to the present, before it changes, and see to it that it is settled before time goes on."""
        bundle.stir()
        self._changed[bundle] = None
        if not self._batch:
            self._batch = True
            simpy.Timeout(self.env, 0.0).callbacks.append(self._on_batch)

    def touch_all(self, pipe: Pipe) -> None:
        """Do so for all bundles on a pipe, which is going to change."""
        for bundle in pipe.bundles:
            self.touch(bundle)

    def settle(self) -> None:
        """Find the levels again where something has changed, and arm the wake-up; Breach if a pipe is overloaded."""
        if not self._changed:
            return
        bundles, pipes = self._reached()
        self._changed = {}
        now = self.env.now
        fill(bundles, [pipe for pipe in pipes if pipe.may_bind])
        for pipe in pipes:
            pipe.check(now)
        for bundle in bundles:
            if not bundle.stirred:
                continue
            bundle.stirred = False
            bundle.stamp += 1
            if (at := bundle.next_end()) < math.inf:
                self._ends.push(at, bundle, len(self._bundles))
        self._arm()

    def _reached(self) -> tuple[list[Bundle], list[Pipe]]:
        """Return the bundles that the changes may reach, and all pipes that they cross.

        Who was connected at the last settling, or is now, is reached: a pipe that binds no more sets others free.
        """
        bundles, pipes = dict(self._changed), dict[Pipe, None]()
        waiting = list(bundles)
        while waiting:
            for pipe in waiting.pop().pipes:
                if pipe not in pipes:
                    pipes[pipe] = None
                    did_bind, pipe.may_bind = pipe.may_bind, pipe.could_bind()
                    if did_bind or pipe.may_bind:
                        more = [bundle for bundle in pipe.bundles if bundle not in bundles]
                        bundles.update(dict.fromkeys(more))
                        waiting += more
        return list(bundles), list(pipes)

    def _on_batch(self, event: simpy.Event) -> None:
        self._batch = False
        self.settle()

    def _arm(self) -> None:
        """See to it that a wake-up comes no later than the next flow ends; one that comes too early arms again."""
        top = self._ends.top()
        if top and top[0] < self._wake_at:
            self._wake_at = top[0]
            self._wake = simpy.Timeout(self.env, max(0.0, top[0] - self.env.now))
            self._wake.callbacks.append(self._on_wake)

    def _on_wake(self, event: simpy.Event) -> None:
        if event is not self._wake:
            return  # an earlier one has been armed since
        self._wake, self._wake_at = None, math.inf
        self.settle()
        ended: list[Flow] = []
        now = self.env.now
        while (top := self._ends.top()) and top[0] <= now + 1e-9 * max(1.0, now):
            bundle = top[1]
            bundle.stamp += 1
            self.touch(bundle)
            ended += bundle.take_ended()
        self._arm()
        for flow in ended:
            flow.done(flow)


class Path:
    """The flows over the same pipes, as a `Link` shows those on it."""

    __slots__ = ("_bundle", "_mesh")

    def __init__(self, mesh: Mesh, bundle: Bundle) -> None:
        """Show this bundle; made by `Mesh.path`."""
        self._mesh, self._bundle = mesh, bundle

    def join(self, nbytes: float, ceiling: float, done: Callable[[Flow], None], weight: float = 1.0) -> Flow:
        """Add a flow of that many bytes and at most `ceiling` bytes/s; `done` is called with it when it has ended.

        Raises ValueError where a number is negative or not finite.
        """
        flow = Flow(nbytes, ceiling, done, weight)
        self._mesh.touch(self._bundle)
        self._bundle.join(flow, nbytes)
        return flow

    def leave(self, flow: Flow) -> float:
        """Take a flow off and return the bytes it still had to go; 0 if it had ended."""
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
        """Return the time since which a flow has run at its ceiling without a break; infinity where it does not.

        A flow that has ended at this instant counts as it stood when it did.
        """
        self._mesh.settle()
        return self._bundle.at_ceiling_since(flow)

    def remaining(self, flow: Flow) -> float:
        """Return the bytes a flow still has to go."""
        self._mesh.settle()
        return self._bundle.remaining(flow)

    def rate_if_joined(self, ceiling: float, weight: float = 1.0) -> float:
        """Return about the rate that one more flow would get now: exact on idle pipes, and never more than that rate.

        It takes a step for each bundle on its pipes.
        """
        level = min((pipe.level_with(weight) for pipe in self._bundle.pipes), default=math.inf)
        return min(ceiling, weight * level)
