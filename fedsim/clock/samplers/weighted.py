"""Clients with more data are more likely to be asked: by their number of training nodes.

With a plain mean of the replies this estimates the mean over all nodes, as scheme II of Li et al. (ICLR 2020) does
with replacement.  FedAvg weighs replies by what clients hold as well, so that under it large clients count twice.
"""

from dataclasses import dataclass

import numpy as np

from fedsim.clock.clients import Clients
from fedsim.clock.sampler import Sampler, draw
from fedsim.core.arrays import Ints


@dataclass(frozen=True)
class Weighted(Sampler):
    """Draws without replacement in proportion to training nodes; clients without any come last."""

    def choose(self, free: Ints, count: int, columns: Clients, rng: np.random.Generator) -> Ints:
        """Return the cohort."""
        return draw(free, count, columns.training_nodes[free].astype(np.float64), rng)
