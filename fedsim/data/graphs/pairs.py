"""Node pairs on which link predictors are scored: edges of later snapshots, and edges cut between clients.

`ahead` scores one client on its own nodes: live-update evaluation, where a model of snapshot t is validated
on the edges of t+1 and tested on those of t+2 (You, Du and Leskovec, "ROLAND", KDD 2022).  `across` scores
the server on edges between clients.  There are as many negatives as positives.  Pairs are unordered; not
modelled: direction and multiplicity of edges, loops, and nodes that only arrive later.

`absent` draws without rejection: K ranges count from 0 to their sizes, and some of their numbers are taken.
The r-th number that is not taken is found by one binary search, so that uniform ranks give exactly uniform
draws, for all ranges at once.  Unordered pairs of n nodes are numbered too, 0 to n (n - 1) / 2: the non-edges
of a graph are the numbers that its edges leave free.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from fedsim.data.graph import Graph, numbers_among, with_keys, with_masks

VALIDATES, TESTS = 1, 2  # the values of a graph's key `asked`


def ahead(graph: Graph, later: Sequence[Graph], rng: np.random.Generator) -> Graph:
    """Return a client's graph with pairs of two later snapshots: the first validates, the second tests.

    `graph` carries `node`; each of `later` does too, or is numbered globally.  Positives are their edges
    between nodes of `graph`, negatives as many distinct pairs that are not edges there (fewer if there are
    not that many).  All nodes become training nodes, since every current edge is trained on.
    """
    pairs, links, asked = [torch.zeros(2, 0, dtype=torch.long)], [torch.zeros(0, dtype=torch.bool)], []
    for split, snapshot in zip((VALIDATES, TESTS), later, strict=False):
        more, is_edge = _of_snapshot(_between(graph, snapshot), len(graph["y"]), rng)
        pairs.append(more)
        links.append(is_edge)
        asked += [split] * len(is_edge)
    everybody = torch.ones(len(graph["y"]), dtype=torch.bool)
    keys = {"pairs": torch.cat(pairs, 1), "links": torch.cat(links), "asked": torch.tensor(asked, dtype=torch.int8)}
    return with_keys(with_masks(graph, everybody, ~everybody, ~everybody), keys)


def across(snapshot: Graph, owner: np.ndarray, rng: np.random.Generator) -> tuple[Tensor, Tensor]:
    """Return pairs (2, P) between clients and whether they are edges (P,), in the snapshot's own numbering.

    owner (N,) is each node's client, -1 for none.  Positives are the cut edges, once each; as many negatives
    draw two distinct clients uniformly and a node of each, again if these are an edge.  There are none if
    every such pair is an edge.
    """
    owners = torch.as_tensor(owner)
    first, second = snapshot["edges"]
    cut = (owners[first] != owners[second]) & (owners[first] >= 0) & (owners[second] >= 0)
    taken = torch.unique(pair_numbers(first[cut], second[cut]))
    clients, sizes = np.unique(owner[owner >= 0], return_counts=True)
    possible = (int(sizes.sum()) ** 2 - int((sizes**2).sum())) // 2
    wanted, drawn = len(taken) * (possible > len(taken)), torch.zeros(0, dtype=torch.long)
    order = np.argsort(owner, kind="stable")[int((owner < 0).sum()) :]
    starts = np.cumsum(sizes) - sizes
    while len(drawn) < wanted:
        left = rng.integers(len(clients), size=wanted)
        right = (left + rng.integers(1, len(clients), size=wanted)) % len(clients)
        ends = [torch.from_numpy(order[starts[who] + rng.integers(sizes[who])]) for who in (left, right)]
        numbers = pair_numbers(*ends)
        drawn = torch.cat([drawn, numbers[~torch.isin(numbers, taken)]])[:wanted]
    return _with_labels(taken, drawn)


def _between(graph: Graph, later: Graph) -> Tensor:
    """Return the later graph's edges (2, E) between the graph's nodes, in its numbering."""
    edges = later["node"][later["edges"]] if "node" in later else later["edges"]
    edges = numbers_among(graph["node"], edges)
    return edges[:, (edges >= 0).all(0)]


def _of_snapshot(edges: Tensor, nodes: int, rng: np.random.Generator) -> tuple[Tensor, Tensor]:
    """Return a snapshot's pairs (2, P) and links (P,), positives first."""
    edges = edges[:, edges[0] != edges[1]]
    taken = torch.unique(pair_numbers(*edges))
    free = absent(taken, torch.zeros_like(taken), torch.tensor([nodes * (nodes - 1) // 2]))
    count = int(free.counts[0])
    ranks = torch.from_numpy(rng.choice(count, min(len(taken), count), replace=False).astype(np.int64))
    return _with_labels(taken, free.pick(ranks, torch.zeros_like(ranks)))


def _with_labels(taken: Tensor, drawn: Tensor) -> tuple[Tensor, Tensor]:
    return pairs_of(torch.cat([taken, drawn])), torch.arange(len(taken) + len(drawn)) < len(taken)


class Absent(NamedTuple):
    """The numbers that are not taken, of K ranges one after the other."""

    gaps: Tensor  # (T,) each taken number, minus the count of those below it
    starts: Tensor  # (K,) where each range begins
    first: Tensor  # (K,) count of free numbers in the ranges before
    counts: Tensor  # (K,) count of free numbers in each range

    def pick(self, ranks: Tensor, which: Tensor) -> Tensor:
        """Return the free numbers of these ranks (from 0, below `counts`) in ranges `which`."""
        ranks = ranks + self.first[which]
        return ranks + torch.searchsorted(self.gaps, ranks, right=True) - self.starts[which]


def absent(taken: Tensor, which: Tensor, sizes: Tensor) -> Absent:
    """Return what is free if the numbers `taken` (T,) of the ranges `which` (T,) are not; repeats are
    allowed.

    sizes (K,) int64.  Their sum must be below 2^63.
    """
    starts = sizes.cumsum(0) - sizes
    codes = torch.unique(taken + starts[which])
    below = torch.searchsorted(codes, torch.cat([starts, sizes.sum().view(1)]))
    gaps = codes - torch.arange(len(codes), device=codes.device)
    return Absent(gaps, starts, starts - below[:-1], sizes - below.diff())


def pair_numbers(first: Tensor, second: Tensor) -> Tensor:
    """Return the number of each unordered pair of distinct nodes: v (v - 1) / 2 + u with u < v."""
    upper = torch.maximum(first, second)
    return upper * (upper - 1) // 2 + torch.minimum(first, second)


def pairs_of(numbers: Tensor) -> Tensor:
    """Return the pairs (2, …) of these numbers, the smaller node first."""
    # the root may be off by one for numbers beyond a double's precision
    upper = ((1 + (1 + 8 * numbers.double()).sqrt()) / 2).long()
    upper = upper - (upper * (upper - 1) // 2 > numbers).long()
    upper = upper + (upper * (upper + 1) // 2 <= numbers).long()
    return torch.stack([numbers - upper * (upper - 1) // 2, upper])
