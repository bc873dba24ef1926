"""The Louvain partition of OpenFGL (Li et al., 2024), which the federated continual graph benchmark uses.

Communities by scikit-network (modularity "newman", deterministic), cut at N // K - delta nodes and dealt out
by a pointer that moves on only when a client is full.  A client numbers its nodes in the order of assignment.
Left out on purpose: OpenFGL gives a client without any edge random ones; here it stays without.
"""

import logging
from dataclasses import dataclass
from typing import Literal

import numpy as np
from pydantic import NonNegativeInt, PositiveFloat

from fedsim.core.errors import UserError
from fedsim.data.graph import Graph
from fedsim.data.graphs.communities import fitted
from fedsim.data.partition import Partition, library, require

PATIENCE = 1000  # moves of the pointer before the group is forced onto a client


@dataclass(frozen=True)
class OpenfglLouvain(Partition):
    """See the module's docstring; the random stream is not used.

    `scan` decides who gets a group that fits nowhere: "argmin" the client with the fewest nodes, "official"
    what the original's loop does, which re-reads the pointer that it moves.
    """

    by_edges = True

    resolution: PositiveFloat = 1.0  # above 1: more and smaller communities
    delta: NonNegativeInt = 20  # nodes by which a client may differ from its share
    scan: Literal["argmin", "official"] = "argmin"  # for a community that fits no client: the smallest, or as published

    def __post_init__(self) -> None:
        """Raise ValueError if scikit-network is not installed."""
        library("sknetwork.clustering", "scikit-network", "openfgl")

    def assign(self, graph: Graph, clients: int, rng: np.random.Generator) -> list[np.ndarray]:
        """Return each client's nodes in the order of assignment."""
        nodes = len(graph["y"])
        require(nodes, clients)
        share = nodes // clients
        if share <= self.delta:
            raise UserError(
                f"data.partition.delta: {clients} clients have {share} nodes each, which must be more than delta "
                f"({self.delta}); take fewer clients, a smaller delta, or the partition 'louvain'"
            )
        own = self._deal(_cut_long(self._communities(graph), share - self.delta), clients, share)
        if not all(own):
            raise UserError(
                f"clients.count: openfgl_louvain leaves client {own.index([])} of {clients} without nodes; "
                "take fewer clients or the partition 'louvain'"
            )
        return [np.array(mine, dtype=np.int64) for mine in own]

    def _communities(self, graph: Graph) -> list[list[int]]:
        groups: dict[int, list[int]] = {}
        for node, group in enumerate(fitted(graph, resolution=self.resolution, shuffle_nodes=False).tolist()):
            groups.setdefault(group, []).append(node)
        return list(groups.values())

    def _deal(self, groups: list[list[int]], clients: int, share: int) -> list[list[int]]:
        own: list[list[int]] = [[] for _ in range(clients)]
        active, at = list(range(clients)), 0
        for group in groups:
            while len(active) >= 2 and len(own[active[at]]) >= share:
                active.pop(at)
                at %= len(active)
            moves = 0
            while len(own[active[at]]) + len(group) >= share + self.delta:
                at = (at + 1) % len(active)
                moves += 1
                if moves > PATIENCE:
                    at = self._forced([len(own[client]) for client in active], at)
                    break
            own[active[at]].extend(group)
        return own

    def _forced(self, sizes: list[int], at: int) -> int:
        logging.getLogger(__name__).info("a community fits no client; it is assigned by the scan %r", self.scan)
        if self.scan == "argmin":
            return sizes.index(min(sizes))
        best = float("inf")
        for other in range(len(sizes)):
            if sizes[at] < best:
                best, at = sizes[at], other
        return at


def _cut_long(groups: list[list[int]], longest: int) -> list[list[int]]:
    pieces, at = list(groups), 0
    while at < len(pieces):
        if len(pieces[at]) > longest:
            pieces.append(pieces[at][longest:])
            pieces[at] = pieces[at][:longest]
        at += 1
    return sorted(pieces, key=len, reverse=True)
