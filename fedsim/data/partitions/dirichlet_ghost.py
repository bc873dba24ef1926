"""The partition that GHOST's published numbers are of: label skew, drawn from NumPy's legacy generator.

One stream draws everything, in this order: a permutation of the N nodes, which is not used; then, until every
client has `least` nodes, for each class a shuffle of its nodes and shares from a symmetric Dirichlet
distribution.  A client that holds N / K nodes or more gets none of a further class, and the other shares are
scaled to sum to one; a class is cut at the shares' cumulative sums times its size, rounded down.  `dirichlet`
with `capped` and `tries` has the same distribution but for the rounding, and draws from the run's seed.

Reconstructed from the public code of GHOST (Qian et al., ICML 2025).  With `draw_seed: 0`, Cora, ten clients,
and a split in which each share is rounded down, all clients' test nodes are 1,091, the number of which all
printed values for Cora are multiples.  Not modelled: edges, most of which are cut.
"""

from dataclasses import dataclass
from typing import Annotated

import numpy as np
from pydantic import Field

from fedsim.core.errors import ScenarioError
from fedsim.core.units import Count, Positive
from fedsim.data.graph import Graph
from fedsim.data.partition import Partition, classes_in, require


@dataclass(frozen=True)
class DirichletGhost(Partition):
    """The same for every seed of the run; `draw_seed` selects the draw."""

    alpha: Positive = 0.05  # concentration, above 0; smaller is more uneven
    least: Count = 5  # fewest nodes of a client
    tries: Count = 10_000  # most draws until all have that many
    draw_seed: Annotated[int, Field(ge=0, lt=2**32)] = 0  # of the legacy generator

    def assign(self, graph: Graph, clients: int, rng: np.random.Generator) -> list[np.ndarray]:
        """Return each client's nodes, ascending.  Raises ScenarioError if no draw gives all of them `least`."""
        labels = classes_in(graph)
        require(len(labels), clients, self.least)
        stream = np.random.RandomState(self.draw_seed)
        stream.permutation(len(labels))
        for _ in range(self.tries):
            owned = self._drawn(labels, clients, stream)
            if owned is not None and min(map(len, owned)) >= self.least:
                return [np.sort(own) for own in owned]
        message = (
            f"in {self.tries} tries no draw of alpha {self.alpha:g} gave each of {clients} clients {self.least} of "
            f"{len(labels)} nodes; take fewer clients or a larger alpha"
        )
        raise ScenarioError.at("data.partition.tries", message)

    def _drawn(self, labels: np.ndarray, clients: int, stream: np.random.RandomState) -> list[np.ndarray] | None:
        """Return each client's nodes, or None if no client with room has a share of a class."""
        owned = [np.empty(0, dtype=np.int64)] * clients
        for label in np.unique(labels):
            members = np.flatnonzero(labels == label)
            stream.shuffle(members)
            room = np.array([len(own) < len(labels) / clients for own in owned])
            shares = stream.dirichlet(np.repeat(self.alpha, clients)) * room
            if not shares.sum() > 0:
                return None
            ends = (np.cumsum(shares / shares.sum()) * len(members)).astype(np.int64)[:-1]
            owned = [np.append(own, part) for own, part in zip(owned, np.split(members, ends), strict=True)]
        return owned
