"""Clients take turns: those whose last turn was longest ago are asked; nothing is random."""

from dataclasses import dataclass

import numpy as np

from fedsim.clock.clients import Clients
from fedsim.clock.sampler import Sampler, least
from fedsim.core.arrays import Ints


@dataclass(frozen=True)
class RoundRobin(Sampler):
    """Clients that have not had a turn yet come first; ties go to the lower number."""

    def choose(self, free: Ints, count: int, columns: Clients, rng: np.random.Generator) -> Ints:
        """Return the cohort."""
        asked = columns.last_asked
        waited = asked[free] * len(asked) + free  # one number that orders by turn, then by client
        return np.sort(free[least(waited, count)])
