"""Each available client is equally likely to be asked."""

from dataclasses import dataclass

import numpy as np

from fedsim.clock.clients import Clients
from fedsim.clock.sampler import Sampler
from fedsim.core.arrays import Ints


@dataclass(frozen=True)
class Uniform(Sampler):
    """Draws without replacement; takes all if no more than wanted are available."""

    even = True

    def choose(self, free: Ints, count: int, columns: Clients, rng: np.random.Generator) -> Ints:
        """Return the cohort."""
        return free if len(free) <= count else np.sort(free[rng.choice(len(free), size=count, replace=False)])
