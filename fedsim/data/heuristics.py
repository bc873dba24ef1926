"""Scores of vertex pairs without a model: what a predictor of links has to be better than.

Each looks at the current snapshot of the whole graph, edges between clients included (Liben-Nowell and Kleinberg, "The
link-prediction problem for social networks", JASIST 2007): `degree`, the product of both degrees (preferential
attachment); `common_neighbours`, their number; `persistence`, 1 for an edge that is there now; `foreign_neighbours`,
the product of the numbers of neighbours at other clients.  Nothing is learned, and nothing is sent.
"""

from collections.abc import Callable, Mapping
from typing import Literal

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

Heuristic = Literal["degree", "common_neighbours", "persistence", "foreign_neighbours"]


def degree(edges: Tensor, owner: np.ndarray, pairs: Tensor) -> Tensor:
    """Return the product of both ends' degrees (P,)."""
    count = torch.bincount(edges[1], minlength=len(owner)).double()
    return count[pairs[0]] * count[pairs[1]]


def common_neighbours(edges: Tensor, owner: np.ndarray, pairs: Tensor) -> Tensor:
    """Return the number (P,) of vertices that are neighbours of both ends."""
    matrix = _matrix(edges, len(owner))
    first, second = pairs.numpy()
    return torch.from_numpy(np.asarray(matrix[first].multiply(matrix[second]).sum(axis=1)).ravel())


def persistence(edges: Tensor, owner: np.ndarray, pairs: Tensor) -> Tensor:
    """Return 1 for pairs that are an edge now, 0 for others: (P,)."""
    numbers, known = pairs[0] * len(owner) + pairs[1], edges[0] * len(owner) + edges[1]
    return torch.isin(numbers, known).double()


def foreign_neighbours(edges: Tensor, owner: np.ndarray, pairs: Tensor) -> Tensor:
    """Return the product of both ends' numbers of neighbours at other clients (P,)."""
    source, target = torch.as_tensor(owner)[edges]
    return degree(edges[:, (source != target) & (source >= 0) & (target >= 0)], owner, pairs)


def _matrix(edges: Tensor, vertices: int) -> sp.csr_array:
    source, target = edges.numpy()
    return sp.csr_array((np.ones(len(source)), (source, target)), shape=(vertices, vertices))


SCORERS: Mapping[Heuristic, Callable[[Tensor, np.ndarray, Tensor], Tensor]] = {
    "degree": degree,
    "common_neighbours": common_neighbours,
    "persistence": persistence,
    "foreign_neighbours": foreign_neighbours,
}
