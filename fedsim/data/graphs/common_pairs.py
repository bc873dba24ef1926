"""Node pairs that are the same test for everybody, however many clients the graph is divided among.

Positives are the edges of a later snapshot between nodes that are there now; negatives are as many pairs that
are no edges of it (fewer if there are hardly any).  `all_pairs` takes all of them; `own_pairs` and
`cut_pairs` those with both ends at one client and at two, by the owners that are given, each with negatives
of its own kind: that a pair is cut says nothing about whether it is an edge.  A run of one client and runs of
many have the same pairs if they are given the same owners; `all_pairs` depends on no owners.

Negatives are uniform, or matched by `degree`: their ends are drawn from those of the positives, so that a
node is in as many negatives as positives on average, and its degree alone does not tell one from the other.
Not modelled: nodes that arrive later, direction and multiplicity of edges.

The scorers (`SCORERS`) need no model, and are what a predictor of links has to be better than.  Each looks at
the current snapshot of the whole graph, edges between clients included (Liben-Nowell and Kleinberg, "The
link-prediction problem for social networks", JASIST 2007): `degree`, the product of both degrees
(preferential attachment); `common_neighbours`, their number; `persistence`, 1 for an edge that is there now;
`foreign_neighbours`, the product of the numbers of neighbours at other clients.  Nothing is learned, and
nothing is sent.
"""

from collections.abc import Callable, Mapping
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from fedsim.data.graph import Graph
from fedsim.data.graphs.pairs import pair_numbers, pairs_of

Negatives = Literal["uniform", "degree"]
PairKind = Literal["all_pairs", "own_pairs", "cut_pairs"]
TRIES = 200  # times that missing negatives are redrawn


def asked(
    later: Graph, present: Tensor, owner: np.ndarray, negatives: Negatives, which: PairKind, rng: np.random.Generator
) -> tuple[Tensor, Tensor]:
    """Return the pairs (2, P) of a kind, in the snapshot's numbering, and whether they are edges (P,).

    `present` (N,) are the nodes that are there now, `owner` (N,) their clients, -1 for none.
    """
    owners = torch.as_tensor(owner)
    source, target = later["edges"]
    joins = (source < target) & present[source] & present[target]
    edges = torch.stack([source[joins], target[joins]])
    positives = edges[:, _fits(which, owners, *edges)]
    pool = present.nonzero().squeeze(1) if negatives == "uniform" else positives.flatten()
    others = _others(positives, pool, which, owners, rng)
    links = torch.arange(positives.shape[1] + others.shape[1]) < positives.shape[1]
    return torch.cat([positives, others], 1), links


def _others(positives: Tensor, pool: Tensor, which: PairKind, owners: Tensor, rng: np.random.Generator) -> Tensor:
    """Return as many distinct pairs (2, P) of the pool's nodes that are of this kind and no positives."""
    taken, wanted = pair_numbers(*positives), positives.shape[1]
    drawn = taken[:0]
    for _ in range(TRIES):
        missing = wanted - len(drawn)
        if missing <= 0:
            break
        first, second = pool[torch.from_numpy(rng.integers(len(pool), size=(2, 2 * missing + 8)))]
        fits = (first != second) & _fits(which, owners, first, second)
        numbers = pair_numbers(first[fits], second[fits])
        known = torch.cat([drawn, numbers[~torch.isin(numbers, taken)]]).numpy()
        drawn = torch.from_numpy(known[np.sort(np.unique(known, return_index=True)[1])])
    return pairs_of(drawn[:wanted])


def _fits(which: PairKind, owners: Tensor, first: Tensor, second: Tensor) -> Tensor:
    if which == "all_pairs":
        return torch.ones_like(first, dtype=torch.bool)
    source, target = owners[first], owners[second]
    return (source >= 0) & (target >= 0) & ((source == target) == (which == "own_pairs"))


def degree(edges: Tensor, owner: np.ndarray, pairs: Tensor) -> Tensor:
    """Return the product of both ends' degrees (P,)."""
    count = torch.bincount(edges[1], minlength=len(owner)).double()
    return count[pairs[0]] * count[pairs[1]]


def common_neighbours(edges: Tensor, owner: np.ndarray, pairs: Tensor) -> Tensor:
    """Return the number (P,) of nodes that are neighbours of both ends."""
    from scipy.sparse import csr_array  # takes a tenth of a second, which few runs need

    source, target = edges.numpy()
    matrix = csr_array((np.ones(len(source)), (source, target)), shape=(len(owner), len(owner)))
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


SCORERS: Mapping[str, Callable[[Tensor, np.ndarray, Tensor], Tensor]] = {
    "degree": degree,
    "common_neighbours": common_neighbours,
    "persistence": persistence,
    "foreign_neighbours": foreign_neighbours,
}
