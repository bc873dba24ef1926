"""Each available client is equally likely to be asked."""

from dataclasses import dataclass

import numpy as np

from fedsim.clock.sampler import Numbers, Rows, Sampler


@dataclass(frozen=True)
class Uniform(Sampler):
    """Draws without replacement; takes all if no more than wanted are available."""

    even = True

    def choose(self, free: Numbers, count: int, rows: Rows, rng: np.random.Generator) -> Numbers:
        """Return the cohort."""
        if len(free) <= count:
            return free
        return np.sort(free[rng.choice(len(free), size=count, replace=False)])
