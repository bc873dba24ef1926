"""Louvain communities, kept whole as far as the clients' shares allow.

Communities (Blondel et al., J. Stat. Mech. 2008) of more than a fair share N // K are cut
into pieces of that size along a reverse Cuthill-McKee order, so that a piece keeps its neighbours; then the
largest piece goes to the client with the fewest nodes, and so on down.  Clients end up within one piece of
each other.  With `deal: round_robin`, a baseline of DG-CoLearn, whole communities go to the clients in turn,
the largest first, and clients may end up far from equal; a client without any takes one node of the largest.
Beyond some 100,000 nodes python-louvain is slow, and `package: scikit-network` fast: its communities are
others.  For the partition of the OpenFGL benchmark, which differs from both, see `openfgl_louvain`.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from fedsim.data.graph import Graph
from fedsim.data.graphs.communities import Communities, pieces
from fedsim.data.partition import Repartitioning, grouped, require, top_up


@dataclass(frozen=True)
class Louvain(Communities, Repartitioning):
    """Clients get whole communities if these fit."""

    by_edges = True

    deal: Literal["fewest", "round_robin"] = "fewest"  # the next goes to the smallest client, or to each in turn

    def assign(self, graph: Graph, clients: int, rng: np.random.Generator) -> list[np.ndarray]:
        """Return each client's nodes, ascending."""
        nodes = len(graph["y"])
        require(nodes, clients)
        member = self.communities(graph, rng)
        if self.deal == "round_robin":
            rank = np.argsort(np.argsort(-np.bincount(member), kind="stable"))
            return grouped(top_up(rank[member] % clients, clients, 1, rng), clients)
        owner, load = np.empty(nodes, dtype=np.int64), np.zeros(clients, dtype=np.int64)
        for piece in pieces(graph, member, nodes // clients):
            least = int(load.argmin())
            owner[piece] = least
            load[least] += len(piece)
        return grouped(owner, clients)
