"""Pseudo graphs: features that a generator has drawn, and edges between those that are most alike.

Every row is linked with the k rows of the largest cosine similarity, itself among them, so with k − 1 others; the
links are made mutual and count once.  A graph here keeps no self-loops: a layer that wants them adds them.  The choice
is hard: no gradient passes from an edge to the features.  It models no edge weights and no threshold of similarity.
"""

import torch
import torch.nn.functional as F
from torch import Generator, Tensor

from fedsim.data.graph import Graph, graph_of

ROWS = 2048  # whose similarities to all others are looked at together


def knn_graph(x: Tensor, k: int) -> Tensor:
    """Return the edges (2, E) among rows x (N, F), both directions, sorted, none twice, no self-loop.

    Fewer than k rows are all linked with each other.
    """
    n, others = len(x), min(k, len(x)) - 1
    if others < 1:
        return torch.zeros(2, 0, dtype=torch.long, device=x.device)
    unit = F.normalize(x.detach(), dim=1)
    near = torch.cat([_nearest(unit, first, others) for first in range(0, n, ROWS)])
    row = torch.arange(n, device=x.device).repeat_interleave(others)
    column = near.flatten()
    keys = torch.unique(torch.cat([row * n + column, column * n + row]))
    return torch.stack([keys // n, keys % n])


def _nearest(unit: Tensor, first: int, others: int) -> Tensor:
    """Return the most similar other rows (R, others) of the rows from `first` on."""
    similar = unit[first : first + ROWS] @ unit.T
    here = torch.arange(len(similar), device=unit.device)
    similar[here, here + first] = -torch.inf  # equal rows must not push a row out of its own list
    return similar.topk(others, dim=1).indices


def pseudo_graph(x: Tensor, y: Tensor, k: int) -> Graph:
    """Return features x (N, F), labels y (N,) and their edges as a graph, all of it to train on."""
    x = x.detach()
    return graph_of(x, knn_graph(x, k), y, train=torch.ones(len(y), dtype=torch.bool, device=y.device))


def adjacency(edges: Tensor, n: int) -> Tensor:
    """Return edges (2, E) as zeros and ones (n, n): loops are left out, and what is there twice counts once."""
    matrix = torch.zeros(n, n, device=edges.device)
    matrix[edges[0], edges[1]] = 1.0
    return matrix.fill_diagonal_(0.0)


def uniform_labels(n: int, classes: int, generator: Generator) -> Tensor:
    """Return n labels in random order: ⌊n / C⌋ of each class, and what is left of the last one (n,), int64, CPU."""
    labels = torch.full((n,), classes - 1)
    each = n // classes
    labels[: each * classes] = torch.arange(classes).repeat_interleave(each)
    return labels[torch.randperm(n, generator=generator)]


def knn_flops(n: int, features: int) -> float:
    """Return the operations of `knn_graph`: all similarities, and one look at each."""
    return 2.0 * n * n * features + n * n


def stand_in(n: int, features: int, k: int) -> Graph:
    """Return a graph as large as a pseudo graph can be, no two neighbour lists being mutual; it holds no numbers."""
    edges = torch.zeros(2, 1, dtype=torch.long).expand(2, 2 * n * (min(k, n) - 1))
    return graph_of(torch.zeros(1, 1).expand(n, features), edges, torch.zeros(1).expand(n))
