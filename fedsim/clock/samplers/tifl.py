"""Clients are grouped into tiers by speed, and a cohort comes from one tier (TiFL: Chai et al., HPDC 2020).

First every client is profiled: those without a reply are asked before all others, up to `profile` times.  Then the
clients are sorted by the mean time of their replies so far and cut into tiers of equal counts; each round draws a tier
by the policy, of those that have a free client, and from it a cohort with equal chances.  Clients that have not replied
while they were profiled, or whose replies take longer than `timeout` on average, are left out.

Here profiling takes ordinary rounds instead of the paper's extra ones, and tiers go on following the times observed.
Not modelled: the adaptive policy, which scores the model on every tier's data.
"""

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from fedsim.clock.clients import Clients
from fedsim.clock.sampler import Sampler, some
from fedsim.core.arrays import Floats, Ints
from fedsim.core.errors import UserError
from fedsim.core.units import Count, Duration

POLICIES = {  # the chance of each of five tiers, the fastest first (the paper's table 1)
    "fast": (1.0, 0.0, 0.0, 0.0, 0.0),
    "random": (0.7, 0.1, 0.1, 0.05, 0.05),
    "uniform": (0.2, 0.2, 0.2, 0.2, 0.2),
    "slow": (0.0, 0.0, 0.0, 0.0, 1.0),
}


@dataclass(frozen=True)
class Tifl(Sampler):
    """Five tiers; a tier with fewer free clients than are wanted is asked as a whole."""

    observes = True

    policy: Literal["fast", "random", "uniform", "slow"] = "uniform"  # how likely each tier is, the fastest first
    profile: Count = 2  # how often a client that has not replied yet is asked
    timeout: Duration | None = None  # clients whose replies take longer on average are left out

    def choose(self, free: Ints, count: int, columns: Clients, rng: np.random.Generator) -> Ints:
        """Return the cohort.  Raises UserError if every client is left out."""
        seen = columns.statistics
        unknown = (seen.replies == 0) & (seen.asked < self.profile)
        if len(fresh := free[unknown[free]]):
            return some(fresh, count, rng)
        seconds = seen.mean_seconds()
        kept = np.flatnonzero(seconds <= (math.inf if self.timeout is None else self.timeout))
        if not len(kept):
            if unknown.any():
                return free[:0]  # they are offline or at work
            raise UserError("clients.sampler: every client has timed out; raise timeout or profile")
        tiers = np.array_split(kept[np.argsort(seconds[kept], kind="stable")], len(POLICIES[self.policy]))
        there = [np.intersect1d(tier, free, assume_unique=True) for tier in tiers]
        drawn = _tier([len(tier) for tier in there], POLICIES[self.policy], rng)
        return free[:0] if drawn is None else some(there[drawn], count, rng)


def _tier(sizes: list[int], policy: tuple[float, ...], rng: np.random.Generator) -> int | None:
    """Return a tier drawn by the policy among those with a free client; None if it may take none of them."""
    chances: Floats = np.where(np.array(sizes) > 0, policy, 0.0)
    return int(rng.choice(len(chances), p=chances / chances.sum())) if chances.any() else None
