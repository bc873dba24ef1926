"""Rounds with a deadline and over-selection (Bonawitz et al., MLSys 2019).

`over` times as many clients are asked as are wanted.  Replies count until enough have arrived or the time is up; later
ones are dropped, though their bytes count, and their clients are free once they have finished.  If a round has several
steps, the clients that replied to one step are asked for the next; if none did, the round ends.

Not modelled: deadlines that adapt to earlier rounds.
"""

import math
from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from fedsim.clock.protocol import Steps, exchanges
from fedsim.clock.quorum import CohortRounds
from fedsim.clock.world import World
from fedsim.core.units import Duration
from fedsim.learn.replies import clients_of


@dataclass(frozen=True, kw_only=True)
class Deadline(CohortRounds):
    """A step ends after `wait` at the latest, not counting the server's own work."""

    sums = by_chance = True
    wait: Duration  # the longest duration of a round's step
    # how many clients are asked for each one wanted; 1.3 asks 30 % more
    over: Annotated[float, Field(ge=1, allow_inf_nan=False)] = 1.0

    def most_of(self, clients: int) -> int:
        """Return how many of that many clients are asked if all are available."""
        return min(clients, math.ceil(self.cohort_of(clients) * self.over - 1e-9))

    def run(self, world: World) -> Steps:
        """Ask more than are wanted, take the first replies, update."""
        want, asked = self.cohort_size(world), self.most_of(len(world.clients))
        draw = self.drawing(world, want)
        for _ in range(self.rounds):
            cohort = yield from draw(asked)
            world.server.begin_round(asked)
            for step in exchanges(world):
                replies = yield from world.exchange(cohort, step, min(want, len(cohort)), self.wait)
                yield from world.server.update(replies, step)
                cohort = sorted(clients_of(replies))
                if not cohort:
                    break
