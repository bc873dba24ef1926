"""Buckets of communities, one of which no client owns: the community split of FedDGL (Xie et al., ACML 2024).

Louvain communities are dealt to K + 1 buckets of about s = N / (K + 1) nodes.  Those of more than s - slack
nodes are cut into pieces of that size; the pieces go to the buckets in turn, the largest first, skipping a
bucket that would have more than s + slack.  The first bucket is set aside for a global test (`measure.splits:
[held_out]`), the others are the clients'.  The rule does not cover a piece that fits nowhere: here the
emptiest bucket is filled up to s with it, and the rest goes on.  On a changing graph this is done once, on
the union of all snapshots, because a redrawn test set would hold nodes that have been trained on. Not
modelled: buckets of equal difficulty; one community may make up the whole test set.
"""

import math
from dataclasses import dataclass

import numpy as np
from pydantic import NonNegativeInt

from fedsim.core.arrays import Ints
from fedsim.core.errors import UserError
from fedsim.data.graph import Graph
from fedsim.data.graphs.communities import Communities, pieces
from fedsim.data.partition import Partition, require


@dataclass(frozen=True)
class Buckets(Communities, Partition):
    """Clients get whole communities if these fit; the nodes of one bucket have no owner."""

    by_edges = True

    slack: NonNegativeInt = 20  # nodes by which a bucket may differ from its share

    def assign(self, graph: Graph, clients: int, rng: np.random.Generator) -> list[np.ndarray]:
        """Return each client's nodes, ascending.  Raises UserError if a share does not exceed the slack."""
        nodes, count = len(graph["y"]), clients + 1
        require(nodes, count)
        share = nodes / count
        if share < self.slack + 1:
            raise UserError(
                f"data.partition.slack: {clients} clients and a test set have {share:.4g} nodes each, which must be "
                f"more than the slack ({self.slack}); take fewer clients or a smaller slack"
            )
        parts = pieces(graph, self.communities(graph, rng), math.floor(share - self.slack))
        filled = math.ceil(share)
        found = dealt(parts, count, filled, max(filled, math.floor(share + self.slack)))
        return [np.sort(np.concatenate(bucket)) for bucket in found[1:]]


def dealt(parts: list[Ints], count: int, share: int, most: int) -> list[list[Ints]]:
    """Return `count` buckets of these pieces, dealt in turn; none has more than `most` nodes.

    `share` is the size up to which a bucket takes pieces that fit nowhere: the mean of all buckets, rounded
    up.
    """
    found: list[list[Ints]] = [[] for _ in range(count)]
    load, turn = np.zeros(count, dtype=np.int64), 0
    for part in parts:
        rest = part
        while len(rest):
            in_turn = (turn + np.arange(count)) % count
            fits = in_turn[load[in_turn] + len(rest) <= most]
            to = int(fits[0] if len(fits) else load.argmin())
            taken = len(rest) if len(fits) else share - int(load[to])
            found[to].append(rest[:taken])
            load[to] += taken
            rest, turn = rest[taken:], to + 1
    return found
