"""Clients with more data are more likely to be asked: by their number of training vertices.

With a plain mean of the replies this estimates the mean over all vertices, as scheme II of Li et al. (ICLR 2020) does
with replacement.  FedAvg weighs replies by what clients hold as well, so that under it large clients count twice.
"""

from dataclasses import dataclass

import numpy as np

from fedsim.clock.sampler import Numbers, Rows, Sampler, draw


@dataclass(frozen=True)
class Weighted(Sampler):
    """Draws without replacement in proportion to training vertices; clients without any come last."""

    def choose(self, free: Numbers, count: int, rows: Rows, rng: np.random.Generator) -> Numbers:
        """Return the cohort."""
        return draw(free, count, rows.training_vertices[free].astype(np.float64), rng)
