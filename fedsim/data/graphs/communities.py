"""Louvain communities (Blondel et al., J. Stat. Mech. 2008), and pieces of a bounded size.

Two packages find them.  python-louvain is written in Python: half a minute or more for 100,000 nodes.
scikit-network (extra `openfgl`) is compiled and takes about a second; it finds other communities, of nearly
the same modularity.  Both visit nodes in an order drawn from the run's seed.  Not modelled: directions or
weights of edges.
"""

from dataclasses import dataclass
from typing import Any, Literal

import community
import networkx as nx
import numpy as np
from pydantic import PositiveFloat
from scipy.sparse import coo_array, csr_matrix
from scipy.sparse.csgraph import reverse_cuthill_mckee

from fedsim.core.arrays import Ints
from fedsim.data.graph import Graph
from fedsim.data.partition import library


@dataclass(frozen=True)
class Communities:
    """How communities are found."""

    resolution: PositiveFloat = 1.0  # above 1: more and smaller communities; far below 1 python-louvain stops too early
    package: Literal["python-louvain", "scikit-network"] = "python-louvain"  # the second is faster

    def __post_init__(self) -> None:
        """Raise ValueError if the package is not installed."""
        if self.package == "scikit-network":
            library("sknetwork.clustering", "scikit-network", "openfgl")

    def communities(self, graph: Graph, rng: np.random.Generator) -> Ints:
        """Return the community (N,) of every node, from 0; a node without an edge is its own community."""
        nodes, seed = len(graph["y"]), int(rng.integers(2**31))
        if self.package == "scikit-network":
            return fitted(graph, resolution=self.resolution, shuffle_nodes=True, random_state=seed)
        web: nx.Graph[int] = nx.Graph()
        web.add_nodes_from(range(nodes))
        web.add_edges_from(graph["edges"].T.tolist())
        found = community.best_partition(web, resolution=self.resolution, random_state=seed)
        return np.fromiter((found[node] for node in range(nodes)), dtype=np.int64, count=nodes)


def fitted(graph: Graph, **options: Any) -> Ints:
    """Return the community (N,) of every node by scikit-network's Louvain, the largest first."""
    from sknetwork.clustering import Louvain  # by this statement a run's stamp knows of its version

    nodes, (source, target) = len(graph["y"]), graph["edges"].numpy()
    if not len(source):
        return np.arange(nodes)
    adjacency = csr_matrix((np.ones(len(source)), (source, target)), shape=(nodes, nodes))
    louvain = Louvain(modularity="newman", return_probs=False, return_aggregate=False, **options)
    return np.asarray(louvain.fit_predict(adjacency), dtype=np.int64)


def pieces(graph: Graph, member: Ints, longest: int) -> list[Ints]:
    """Return the nodes of each community (N,), the largest first; those with more than `longest` are cut.

    They are cut along a reverse Cuthill-McKee order, so that a piece keeps its neighbours.
    """
    source, target = graph["edges"].numpy()
    within = member[source] == member[target]
    shape = (len(member), len(member))
    inner = coo_array((np.ones(within.sum(), dtype=np.int8), (source[within], target[within])), shape=shape).tocsr()
    near = reverse_cuthill_mckee(inner, symmetric_mode=True).astype(np.int64)
    whole = np.split(near[np.argsort(member[near], kind="stable")], np.cumsum(np.bincount(member))[:-1])
    found = [group[at : at + longest] for group in whole for at in range(0, len(group), longest)]
    return sorted(found, key=lambda piece: (-len(piece), int(piece.min())))
