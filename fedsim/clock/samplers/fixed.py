"""The same clients are asked in every round: those of the lowest numbers that are available; nothing is random.

Who has which number says nothing about data, links or speeds that are drawn.  Where clients are listed in a table, its
first ones are asked.
"""

from dataclasses import dataclass

import numpy as np

from fedsim.clock.clients import Clients
from fedsim.clock.sampler import Sampler
from fedsim.core.arrays import Ints


@dataclass(frozen=True)
class Fixed(Sampler):
    """Another client is asked only while one of the usual ones is offline or at work."""

    def choose(self, free: Ints, count: int, columns: Clients, rng: np.random.Generator) -> Ints:
        """Return the cohort."""
        return free[:count]
