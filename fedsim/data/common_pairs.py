"""Vertex pairs that are the same test for everybody, however many clients the graph is divided among.

Positives are the edges of a later snapshot between vertices that are there now; negatives are as many pairs that are no
edges of it (fewer if there are hardly any).  `all_pairs` takes all of them; `own_pairs` and `cut_pairs` those with both
ends at one client and at two, by the owners that are given, each with negatives of its own kind: that a pair is cut
says nothing about whether it is an edge.  A run of one client and runs of many have the same pairs if they are given
the same owners; `all_pairs` depends on no owners.

Negatives are uniform, or matched by `degree`: their ends are drawn from those of the positives, so that a vertex is in
as many negatives as positives on average, and its degree alone does not tell one from the other.
Not modelled: vertices that arrive later, direction and multiplicity of edges.
"""

from collections.abc import Callable
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from fedsim.data.absent import pair_numbers, pairs_of
from fedsim.data.graph import Graph

Negatives = Literal["uniform", "degree"]
SPLITS = ALL, OWN, CUT = ("all_pairs", "own_pairs", "cut_pairs")
TRIES = 200  # times that missing negatives are redrawn


def asked(
    later: Graph, present: Tensor, owner: np.ndarray, negatives: Negatives, rng: Callable[[str], np.random.Generator]
) -> dict[str, tuple[Tensor, Tensor]]:
    """Return each split's pairs (2, P), in the snapshot's numbering, and whether they are edges (P,).

    `present` (N,) are the vertices that are there now, `owner` (N,) their clients, -1 for none; `rng` gives the random
    stream of a split.
    """
    owners = torch.as_tensor(owner)
    source, target = later["edges"]
    there = (source < target) & present[source] & present[target]
    edges = torch.stack([source[there], target[there]])
    found = {}
    for split in SPLITS:
        kind = edges[:, _fits(split, owners, *edges)]
        pool = present.nonzero().squeeze(1) if negatives == "uniform" else kind.flatten()
        others = _others(kind, pool, split, owners, rng(split))
        links = torch.arange(kind.shape[1] + others.shape[1]) < kind.shape[1]
        found[split] = torch.cat([kind, others], 1), links
    return found


def _others(positives: Tensor, pool: Tensor, split: str, owners: Tensor, rng: np.random.Generator) -> Tensor:
    """Return as many distinct pairs (2, P) of the pool's vertices that are of this split and no positives."""
    taken, wanted = pair_numbers(*positives), positives.shape[1]
    found = taken[:0]
    for _ in range(TRIES):
        missing = wanted - len(found)
        if missing <= 0:
            break
        first, second = pool[torch.from_numpy(rng.integers(len(pool), size=(2, 2 * missing + 8)))]
        fits = (first != second) & _fits(split, owners, first, second)
        numbers = pair_numbers(first[fits], second[fits])
        known = torch.cat([found, numbers[~torch.isin(numbers, taken)]]).numpy()
        found = torch.from_numpy(known[np.sort(np.unique(known, return_index=True)[1])])
    return pairs_of(found[:wanted])


def _fits(split: str, owners: Tensor, first: Tensor, second: Tensor) -> Tensor:
    if split == ALL:
        return torch.ones_like(first, dtype=torch.bool)
    one, other = owners[first], owners[second]
    return (one >= 0) & (other >= 0) & ((one == other) if split == OWN else (one != other))
