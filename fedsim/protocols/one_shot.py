"""One round: every client that is wanted is asked once, as soon as it is online and holds data, and one update.

`participation` or `clients` tell how many are wanted; who, the sampler draws from all clients at the start, online or
not.  It is over when `enough` of them have replied, when all have replied or are lost, or when the time is up; those
still at work are late.  Where the algorithm has several steps, each is gone through in order with those who replied to
the one before, by the same rules.  A client that never comes online holds it up for ever, unless `enough` or `wait`
says otherwise.
"""

import math
from collections.abc import Collection, Generator
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import simpy

from fedsim.algorithm import Reply
from fedsim.hosts import Ask
from fedsim.protocol import Cohorts, Steps, exchanges
from fedsim.units import Fraction, Seconds
from fedsim.world import World


@dataclass(frozen=True, kw_only=True)
class OneShot(Cohorts):
    """All clients are wanted unless `participation` or `clients` says otherwise."""

    enough: Fraction = 1.0  # the share of those wanted whose replies suffice
    wait: Seconds | None = None  # the longest that a step may take
    retry: bool = False  # ask again who was lost

    def __post_init__(self) -> None:
        """Hold the options' ranges."""
        if not self.all_wanted:
            super().__post_init__()
        if self.enough == 0:
            raise ValueError("enough: must be above 0, or nobody would be waited for")
        if self.wait is not None and self.wait <= 0:
            raise ValueError("wait: must be longer than 0 s")

    @property
    def all_wanted(self) -> bool:
        """Whether neither a fraction nor a count was given."""
        return self.participation is None and self.clients is None

    def cohort_of(self, among: int) -> int:
        """Return how many of so many clients are wanted."""
        return among if self.all_wanted else super().cohort_of(among)

    def share(self, world: World) -> float:
        """Return the share of those wanted who have had their turn, or of the time."""
        through = np.count_nonzero((world.clients.turns > 0) & ~world.clients.busy) / self.cohort_size(world)
        return min(1.0, max(through, world.env.now / self.wait if self.wait else 0.0))

    def run(self, world: World) -> Steps:
        """Ask everybody wanted, step by step."""
        everybody, rng = np.arange(len(world.clients)), world.rng("participation")
        cohort = world.sampler.choose(everybody, self.cohort_size(world), world.clients, rng).tolist()
        world.server.rounds += 1
        for step in exchanges(world):
            replies = yield from self._collect(world, cohort, step)
            yield from world.server.update(replies, step)
            cohort = sorted(reply.client for reply in replies)
            if not cohort:
                break

    def _collect(self, world: World, cohort: Collection[int], step: str) -> Generator[simpy.Event, Any, list[Reply]]:
        """Return the replies of those of the cohort that count, in order of arrival."""
        env, server, ended = world.env, world.server, simpy.Store(world.env)
        unasked = np.zeros(len(world.clients), dtype=bool)
        unasked[list(cohort)] = True
        missing = len(cohort)
        want = min(missing, max(1, math.ceil(self.enough * missing - 1e-9)))
        under_way: dict[int, Ask] = {}
        replies: list[Reply] = []

        def end(ask: simpy.Event) -> None:
            ended.put(ask)

        up, one = env.timeout(self.wait) if self.wait else env.event(), ended.get()
        while len(replies) < want and (missing or under_way) and not up.processed:
            for client in world.available(unasked) if missing else ():
                unasked[client], missing = False, missing - 1
                under_way[client] = ask = server.ask(client, step)
                ask.callbacks.append(end)
            yield env.any_of([one, world.clients.stirred, up])
            while one.triggered and len(replies) < want and not up.processed:
                ask, one = cast("Ask", one.value), ended.get()
                del under_way[ask.client]
                if ask.value is not None:
                    replies.append(ask.value)
                elif self.retry:
                    unasked[ask.client], missing = True, missing + 1
        for ask in under_way.values():
            server.close(ask)
        return replies
