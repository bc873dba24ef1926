"""Louvain communities (Blondel et al., J. Stat. Mech. 2008; python-louvain), and pieces of a bounded size.

Written in Python and slow beyond some 100,000 nodes.  Not modelled: directions or weights of edges.
"""

import community
import networkx as nx
import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import reverse_cuthill_mckee

from fedsim.core.arrays import Ints
from fedsim.data.graph import Graph


def communities(graph: Graph, resolution: float, rng: np.random.Generator) -> Ints:
    """Return the community (N,) of every node, numbered from 0; a node without an edge is its own community."""
    nodes = len(graph["y"])
    web: nx.Graph[int] = nx.Graph()
    web.add_nodes_from(range(nodes))
    web.add_edges_from(graph["edges"].T.tolist())
    found = community.best_partition(web, resolution=resolution, random_state=int(rng.integers(2**31)))
    return np.fromiter((found[node] for node in range(nodes)), dtype=np.int64, count=nodes)


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
