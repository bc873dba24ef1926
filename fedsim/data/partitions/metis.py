"""METIS: parts of nearly equal size with few edges between them (Karypis and Kumar, SIAM J. Sci. Comput.
1998).

METIS is called through pymetis (extra `metis`), which has no wheels for Windows.
If METIS leaves a part empty, as it may on tiny graphs, one node of the largest part moves there.
"""

from dataclasses import dataclass

import numpy as np

from fedsim.data.graph import Graph
from fedsim.data.partition import Repartitioning, grouped, library, require, top_up


@dataclass(frozen=True)
class Metis(Repartitioning):
    """Clients that hold compact regions of the graph."""

    by_edges = True

    def __post_init__(self) -> None:
        """Raise ValueError if pymetis is not installed."""
        library("pymetis", "pymetis", "metis")

    def assign(self, graph: Graph, clients: int, rng: np.random.Generator) -> list[np.ndarray]:
        """Return each client's nodes, ascending."""
        nodes = len(graph["y"])
        require(nodes, clients)
        pymetis = library("pymetis", "pymetis", "metis")
        source, target = graph["edges"].numpy()
        starts = np.concatenate([[0], np.cumsum(np.bincount(source, minlength=nodes))])
        options = pymetis.Options(seed=int(rng.integers(2**31)))
        adjacent = pymetis.CSRAdjacency(starts, target[np.argsort(source, kind="stable")])
        _, part = pymetis.part_graph(clients, adjacency=adjacent, options=options)
        return grouped(top_up(np.asarray(part, dtype=np.int64), clients, 1, rng), clients)
