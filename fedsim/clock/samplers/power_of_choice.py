"""Of a few candidates those with the highest loss are asked (Cho, Wang and Joshi, arXiv:2010.01243, 2020).

This is the paper's rpow-d: candidates are drawn by their number of training nodes, and compared by the loss that
each has last reported with an upload; who has never reported one comes first.  The report costs its bytes on the
uplink.  As the choice already favours clients with much data, the paper takes the plain mean of the replies, which is
the algorithm's affair.  Not modelled: pow-d and cpow-d, which send the candidates the model first.
"""

from dataclasses import dataclass

import numpy as np

from fedsim.clock.clients import Clients
from fedsim.clock.sampler import Sampler, draw
from fedsim.core.arrays import Ints
from fedsim.core.units import Count


@dataclass(frozen=True)
class PowerOfChoice(Sampler):
    """Draws `candidates` without replacement, or as many as are wanted if these are more."""

    observes = reports = True

    candidates: Count  # clients that are compared, the paper's d; as many as are asked: the sampler 'weighted'

    def choose(self, free: Ints, count: int, columns: Clients, rng: np.random.Generator) -> Ints:
        """Return the cohort; ties go to the lower number."""
        nodes = columns.training_nodes[free].astype(np.float64)
        compared = draw(free, max(count, self.candidates), nodes, rng)
        losses = columns.statistics.losses[compared]
        order = np.argsort(-np.where(np.isnan(losses), np.inf, losses), kind="stable")
        return np.sort(compared[order[:count]])
