"""Nodes assigned at random, in shares that differ by at most one node."""

from dataclasses import dataclass

import numpy as np

from fedsim.data.graph import Graph
from fedsim.data.partition import Partition, require


@dataclass(frozen=True)
class Random(Partition):
    """The same label mix everywhere, and hardly any edge inside a client: a baseline."""

    def assign(self, graph: Graph, clients: int, rng: np.random.Generator) -> list[np.ndarray]:
        """Return each client's nodes, ascending."""
        require(len(graph["y"]), clients)
        return [np.sort(part) for part in np.array_split(rng.permutation(len(graph["y"])), clients)]
