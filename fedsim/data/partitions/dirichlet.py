"""Label skew: each class is split among the clients by shares drawn from a symmetric Dirichlet distribution.

After Hsu, Qi and Brown, "Measuring the effects of non-identical data distribution", 2019.  There are two ways
to give every client enough: missing nodes are taken from the largest client, or, with `tries`, everything is
redrawn until every client has enough, as in the published partition of federated graph learning with label
skew (FedTAD, IJCAI 2024; GHOST, ICML 2025), where with `capped` a client with N / K nodes gets none of
further classes.  If all shares of a class go to full clients, the draw counts as failed. Edges are ignored,
so most of them are cut; structural skew, as communities bring it, is not modelled.
"""

from dataclasses import dataclass

import numpy as np

from fedsim.core.errors import ScenarioError
from fedsim.core.units import Count, Positive
from fedsim.data.graph import Graph
from fedsim.data.partition import Partition, classes_in, grouped, require, top_up


@dataclass(frozen=True)
class Dirichlet(Partition):
    """A small `alpha` gives clients with few classes, a large one the same mix everywhere."""

    alpha: Positive = 0.5  # concentration, above 0; smaller is more uneven
    least: Count = 10  # fewest nodes of a client
    capped: bool = False  # clients with N / K nodes or more get no further class
    tries: Count | None = None  # most draws until all have `least`; null: one draw, topped up from the largest client

    def __post_init__(self) -> None:
        """Raise ValueError for full clients without redraws."""
        if self.capped and self.tries is None:
            raise ValueError("capped: a client may end up with nothing, so it needs tries (the published code: 10000)")

    def assign(self, graph: Graph, clients: int, rng: np.random.Generator) -> list[np.ndarray]:
        """Return each client's nodes, ascending.  Raises ScenarioError if not all can have `least`."""
        labels = classes_in(graph)
        require(len(labels), clients, self.least)
        if self.tries is not None:
            return self._redrawn(labels, clients, self.tries, rng)
        owner = np.empty(len(labels), dtype=np.int64)
        for label in np.unique(labels):
            members = rng.permutation(np.flatnonzero(labels == label))
            shares = rng.dirichlet(np.full(clients, self.alpha))
            ends = np.round(np.cumsum(shares) * len(members)).astype(np.int64)
            owner[members] = np.minimum(np.searchsorted(ends, np.arange(len(members)), side="right"), clients - 1)
        return grouped(top_up(owner, clients, self.least, rng), clients)

    def _redrawn(self, labels: np.ndarray, clients: int, tries: int, rng: np.random.Generator) -> list[np.ndarray]:
        """Redraw the counts of each class per client until all have enough, and only then the nodes."""
        classes, sizes = np.unique(labels, return_counts=True)
        for _ in range(tries):
            counts = self._counts(sizes, clients, rng)
            if counts is not None and counts.sum(0).min() >= self.least:
                break
        else:
            message = (
                f"in {tries} tries no draw of alpha {self.alpha:g} gave each of {clients} clients {self.least} of "
                f"{len(labels)} nodes in {len(classes)} classes; take fewer clients, a larger alpha, or leave out "
                "tries and capped, and what is missing is taken from the largest"
            )
            raise ScenarioError.at("data.partition.tries", message)
        owner = np.empty(len(labels), dtype=np.int64)
        for label, own in zip(classes, counts, strict=True):
            owner[rng.permutation(np.flatnonzero(labels == label))] = np.repeat(np.arange(clients), own)
        return grouped(owner, clients)

    def _counts(self, sizes: np.ndarray, clients: int, rng: np.random.Generator) -> np.ndarray | None:
        """Return how many (C, K) of each class go to each client, or None if no client with room has a share."""
        counts = np.zeros((len(sizes), clients), dtype=np.int64)
        for place, size in enumerate(sizes):
            shares = rng.dirichlet(np.full(clients, self.alpha))
            if self.capped:
                shares = shares * (counts.sum(0) < sizes.sum() / clients)
            if not shares.sum() > 0:
                return None
            ends = np.cumsum(shares)
            ends = np.floor(ends / ends[-1] * size).astype(np.int64)  # clients without a share get no remainder
            counts[place] = np.diff(ends, prepend=0)
        return counts
