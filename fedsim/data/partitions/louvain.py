"""Louvain communities, kept whole as far as the clients' shares allow.

Communities (Blondel et al., J. Stat. Mech. 2008; python-louvain) of more than a fair share N // K are cut into pieces
of that size along a reverse Cuthill-McKee order, so that a piece keeps its neighbours; then the largest piece goes to
the client with the fewest vertices, and so on down.  Clients end up within one piece of each other.
With `deal: round_robin`, a baseline of DG-CoLearn, whole communities go to the clients in turn, the largest first, and
clients may end up far from equal; a client without any takes one vertex of the largest.
Written in Python and slow beyond some 100,000 vertices.  For the partition of the OpenFGL benchmark, which
differs, see `openfgl_louvain`.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from fedsim.data.anew import Anew
from fedsim.data.communities import communities, pieces
from fedsim.data.graph import Graph
from fedsim.data.partition import grouped, require, top_up


@dataclass(frozen=True)
class Louvain(Anew):
    """Clients get whole communities if these fit."""

    resolution: float = 1.0  # above 1: more and smaller communities; far below 1 python-louvain stops too early
    deal: Literal["fewest", "round_robin"] = "fewest"  # the next goes to the smallest client, or to each in turn

    def __post_init__(self) -> None:
        """Raise ValueError for a resolution that makes no sense."""
        if not self.resolution > 0:
            raise ValueError("resolution must be more than 0")

    def assign(self, graph: Graph, clients: int, rng: np.random.Generator) -> list[np.ndarray]:
        """Return each client's vertices, ascending."""
        vertices = len(graph["y"])
        require(vertices, clients)
        member = communities(graph, self.resolution, rng)
        if self.deal == "round_robin":
            rank = np.argsort(np.argsort(-np.bincount(member), kind="stable"))
            return grouped(top_up(rank[member] % clients, clients, 1, rng), clients)
        owner, load = np.empty(vertices, dtype=np.int64), np.zeros(clients, dtype=np.int64)
        for piece in pieces(graph, member, vertices // clients):
            least = int(load.argmin())
            owner[piece] = least
            load[least] += len(piece)
        return grouped(owner, clients)
