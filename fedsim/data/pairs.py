"""Vertex pairs on which link predictors are scored: edges of later snapshots, and edges cut between clients.

`ahead` scores one client on its own vertices: live-update evaluation, where a model of snapshot t is validated on the
edges of t+1 and tested on those of t+2 (You, Du and Leskovec, "ROLAND", KDD 2022).  `across` scores the server on
edges between clients.  There are as many negatives as positives.  Pairs are unordered; not modelled: direction and
multiplicity of edges, loops, and vertices that only arrive later.
"""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from fedsim.data.absent import absent, pair_numbers, pairs_of
from fedsim.data.graph import Graph

VALIDATES, TESTS = 1, 2  # the values of a graph's key `asked`


def ahead(graph: Graph, later: Sequence[Graph], rng: np.random.Generator) -> Graph:
    """Return a client's graph with `pairs`, `links` and `asked`: of `later`, the first validates and the second tests.

    `graph` carries `vertex`; each of `later` does too, or is numbered globally.  Positives are their edges between
    vertices of `graph`, negatives as many distinct pairs that are not edges there (fewer if there are not that many).
    All vertices become training vertices, since every current edge is trained on.
    """
    parts = [_of_snapshot(_between(graph, one), len(graph["y"]), rng) for one in later]
    whole = torch.ones(len(graph["y"]), dtype=torch.bool)
    numbers = [VALIDATES, TESTS][: len(parts)]
    return Graph(
        **{
            **graph,
            "train": whole,
            "val": ~whole,
            "test": ~whole,
            "pairs": torch.cat([torch.zeros(2, 0, dtype=torch.long), *(pairs for pairs, _ in parts)], 1),
            "links": torch.cat([torch.zeros(0, dtype=torch.bool), *(links for _, links in parts)]),
            "asked": torch.repeat_interleave(
                torch.tensor(numbers, dtype=torch.int8), torch.tensor([len(links) for _, links in parts]).long()
            ),
        }
    )


def across(snapshot: Graph, owner: np.ndarray, rng: np.random.Generator) -> tuple[Tensor, Tensor]:
    """Return pairs (2, P) between clients and whether they are edges (P,), in the snapshot's own numbering.

    owner (N,) is each vertex's client, -1 for none.  Positives are the cut edges, once each; as many
    negatives draw two distinct clients uniformly and a vertex of each, again if these are an edge.  There are none if
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
        one = rng.integers(len(clients), size=wanted)
        other = (one + rng.integers(1, len(clients), size=wanted)) % len(clients)
        ends = [torch.from_numpy(order[starts[who] + rng.integers(sizes[who])]) for who in (one, other)]
        numbers = pair_numbers(*ends)
        drawn = torch.cat([drawn, numbers[~torch.isin(numbers, taken)]])[:wanted]
    return _with_labels(taken, drawn)


def _between(graph: Graph, later: Graph) -> Tensor:
    """Return the later graph's edges (2, E) between the graph's vertices, in its numbering."""
    own, edges = graph["vertex"], later["edges"]
    if "vertex" in later:
        edges = later["vertex"][edges]
    size = 1 + max(int(own.max()) if len(own) else -1, int(edges.max()) if edges.numel() else -1)
    number = torch.full((size,), -1, dtype=torch.long)
    number[own] = torch.arange(len(own))
    edges = number[edges]
    return edges[:, (edges >= 0).all(0)]


def _of_snapshot(edges: Tensor, vertices: int, rng: np.random.Generator) -> tuple[Tensor, Tensor]:
    """Return a snapshot's pairs (2, P) and links (P,), positives first."""
    edges = edges[:, edges[0] != edges[1]]
    taken = torch.unique(pair_numbers(*edges))
    free = absent(taken, torch.zeros_like(taken), torch.tensor([vertices * (vertices - 1) // 2]))
    count = int(free.counts[0])
    ranks = torch.from_numpy(rng.choice(count, min(len(taken), count), replace=False).astype(np.int64))
    return _with_labels(taken, free.pick(ranks, torch.zeros_like(ranks)))


def _with_labels(taken: Tensor, drawn: Tensor) -> tuple[Tensor, Tensor]:
    links = torch.arange(len(taken) + len(drawn)) < len(taken)
    return pairs_of(torch.cat([taken, drawn])), links
