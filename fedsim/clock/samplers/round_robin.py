"""Clients take turns: those whose last turn was longest ago are asked; nothing is random."""

from dataclasses import dataclass

import numpy as np

from fedsim.clock.sampler import Numbers, Rows, Sampler


@dataclass(frozen=True)
class RoundRobin(Sampler):
    """Clients that have not had a turn yet come first; ties go to the lower number."""

    def choose(self, free: Numbers, count: int, rows: Rows, rng: np.random.Generator) -> Numbers:
        """Return the cohort."""
        if len(free) <= count:
            return free
        waited = rows.turns[free] * len(rows.turns) + free  # one number that orders by turn, then by client
        return np.sort(free[np.argpartition(waited, count)[:count]])
