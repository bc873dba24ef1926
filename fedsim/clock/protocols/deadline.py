"""Rounds with a deadline and over-selection (Bonawitz et al., MLSys 2019).

`over` times as many clients are asked as are wanted.  Replies count until enough have arrived or the time is up; later
ones are dropped, though their bytes count, and their clients are free once they have finished.  If a round has several
steps, the clients that replied to one step are asked for the next; if none did, the round ends.

Not modelled: deadlines that adapt to earlier rounds.
"""

import math
from dataclasses import dataclass

from fedsim.clock.protocol import Rounds, Steps, exchanges
from fedsim.clock.quorum import Quorum
from fedsim.clock.sampler import Cohorts
from fedsim.clock.secure_sum import exchange
from fedsim.clock.world import World
from fedsim.core.units import Seconds
from fedsim.learner.batch import clients_of


@dataclass(frozen=True, kw_only=True)
class Deadline(Quorum, Rounds):
    """A step ends after `wait` at the latest, not counting the server's own work."""

    sums = by_chance = True
    wait: Seconds  # the longest duration of a round's step
    over: float = 1.0  # how many clients are asked for each one wanted; 1.3 asks 30 % more

    def __post_init__(self) -> None:
        """Check the options' ranges."""
        super().__post_init__()
        if not 1 <= self.over < math.inf:
            raise ValueError("over: must be finite and at least 1 (1.3 asks 30 % more clients than are wanted)")
        if self.wait <= 0:
            raise ValueError("wait: must be longer than 0 s")

    def most_of(self, clients: int) -> int:
        """Return how many of that many clients are asked if all are available."""
        return min(clients, math.ceil(self.cohort_of(clients) * self.over - 1e-9))

    def cohorts(self, clients: int) -> Cohorts:
        """Return a cohort for each round, which may wait for a quorum."""
        return Cohorts(self.rounds, self.most_of(clients), waits=self.quorum(self.cohort_of(clients)) > 1)

    def folded(self, clients: int) -> int:
        """Return how many replies are wanted."""
        return self.cohort_of(clients)

    def run(self, world: World) -> Steps:
        """Ask more than are wanted, take the first replies, update."""
        for _ in range(self.rounds):
            want = self.cohort_size(world)
            asked = self.most_of(len(world.clients))
            cohort = yield from self.draw(world, asked, want)
            world.server.rounds, world.server.wanted = world.server.rounds + 1, asked
            for step in exchanges(world):
                replies = yield from exchange(world, cohort, step, min(want, len(cohort)), self.wait)
                yield from world.server.update(replies, step)
                cohort = sorted(clients_of(replies))
                if not cohort:
                    break
