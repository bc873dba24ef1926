"""Rounds with a deadline and over-selection (Bonawitz et al., MLSys 2019).

`over` times as many clients are asked as are wanted; the first to reply count, until enough have or the time is up.
Later replies are billed and dropped; their clients are free again when they have finished.  With several steps a
round, the clients that replied to one step are asked the next; where none did, the round is over.
"""

import math
from dataclasses import dataclass

from fedsim.clock.protocol import Rounds, Steps, exchanges
from fedsim.clock.quorum import Quorum
from fedsim.clock.secure_sum import exchange
from fedsim.clock.world import World
from fedsim.core.units import Seconds


@dataclass(frozen=True, kw_only=True)
class Deadline(Quorum, Rounds):
    """A step of a round ends after `wait` at the latest; the server's own work comes on top."""

    sums = by_chance = True
    wait: Seconds  # the longest duration of a round's step
    over: float = 1.0  # how many clients are asked for each one wanted; 1.3 asks 30 % more

    def __post_init__(self) -> None:
        """Hold the options' ranges."""
        super().__post_init__()
        if not 1 <= self.over < math.inf:
            raise ValueError("over: must be finite and at least 1 (1.3 asks 30 % more clients than are wanted)")
        if self.wait <= 0:
            raise ValueError("wait: must be longer than 0 s")

    def most_of(self, clients: int) -> int:
        """Return how many of so many clients are asked where all are there."""
        return min(clients, math.ceil(self.cohort_of(clients) * self.over - 1e-9))

    def folded(self, clients: int) -> int:
        """Return how many replies are wanted."""
        return self.cohort_of(clients)

    def run(self, world: World) -> Steps:
        """Ask too many, take the first, update."""
        for _ in range(self.rounds):
            want = self.cohort_size(world)
            asked = self.most_of(len(world.clients))
            cohort = yield from self.draw(world, asked, want)
            world.server.rounds, world.server.wanted = world.server.rounds + 1, asked
            for step in exchanges(world):
                replies = yield from exchange(world, cohort, step, min(want, len(cohort)), self.wait)
                yield from world.server.update(replies, step)
                cohort = sorted(reply.client for reply in replies)
                if not cohort:
                    break
