"""Synchronous rounds: a new cohort each round, and an update once each of its clients has replied or is lost.

Not modelled: rounds that end before all have replied, which are `deadline`'s.
"""

from dataclasses import dataclass

from fedsim.clock.protocol import Steps, exchanges
from fedsim.clock.quorum import CohortRounds
from fedsim.clock.world import World


@dataclass(frozen=True, kw_only=True)
class Sync(CohortRounds):
    """A step lasts as long as its slowest client; lost clients are noticed at once and asked again in the next step."""

    sums = by_chance = True

    def run(self, world: World) -> Steps:
        """Ask, wait for all, update; step by step where the algorithm has several."""
        want = self.cohort_size(world)
        draw = self.drawing(world, want)
        for _ in range(self.rounds):
            cohort = yield from draw(want)
            world.server.begin_round(want)
            for step in exchanges(world):
                replies = yield from world.exchange(cohort, step)
                yield from world.server.update(replies, step)
