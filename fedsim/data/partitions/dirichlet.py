"""Label skew: each class is dealt to the clients in shares drawn from a symmetric Dirichlet distribution.

After Hsu, Qi and Brown, "Measuring the effects of non-identical data distribution", 2019.  Edges play no part, so
most of them are cut; the skew of structure that communities bring is not modelled.
"""

from dataclasses import dataclass

import numpy as np

from fedsim.data.graph import Graph
from fedsim.data.partition import Partition, grouped, require, top_up
from fedsim.units import Count


@dataclass(frozen=True)
class Dirichlet(Partition):
    """A small `alpha` gives clients of few classes, a large one the same mix everywhere."""

    alpha: float = 0.5
    least: Count = 10  # vertices of every client; what is missing is taken from the largest

    def __post_init__(self) -> None:
        """Refuse a concentration that has no meaning."""
        if not 0 < self.alpha < float("inf"):
            raise ValueError("alpha must be a finite number above 0")

    def assign(self, graph: Graph, clients: int, rng: np.random.Generator) -> list[np.ndarray]:
        """Return each client's vertices, ascending.  Raises ScenarioError where not all can have `least`."""
        labels = graph["y"].numpy()
        require(len(labels), clients, self.least)
        owner = np.empty(len(labels), dtype=np.int64)
        for label in np.unique(labels):
            members = rng.permutation(np.flatnonzero(labels == label))
            shares = rng.dirichlet(np.full(clients, self.alpha))
            ends = np.round(np.cumsum(shares) * len(members)).astype(np.int64)
            owner[members] = np.minimum(np.searchsorted(ends, np.arange(len(members)), side="right"), clients - 1)
        return grouped(top_up(owner, clients, self.least, rng), clients)
