"""Quality of a partition of a graph's nodes: cut edges, balance, and the mix of labels.

The measures by which DG-CoLearn compares partitions (Au et al., arXiv 2605.31427).  Every undirected edge counts once,
and an edge to an unowned node counts as cut.  The effect of a partition on training is not measured.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fedsim.core import portable
from fedsim.data.graph import Graph
from fedsim.data.time.temporal import owners_of


@dataclass(frozen=True)
class Cuts:
    """Measures of one assignment.

    `cut_ratio`: cut edges over all edges, 0 without edges.  `edge_cov`: standard deviation (population) over mean of
    the clients' numbers of inner edges, 0 where no client has one.  `entropy`: mean, over the clients that own
    nodes, of the Shannon entropy of their labels in bits; labels below 0 are left out.
    """

    cut_ratio: float
    edge_cov: float
    entropy: float


def measure(graph: Graph, own: Sequence[np.ndarray]) -> Cuts:
    """Return the measures of each client's nodes (one array a client, disjoint) in this graph."""
    owner = owners_of(own, len(graph["y"]))
    source, target = graph["edges"].numpy()
    inside = (owner[source] == owner[target]) & (owner[source] >= 0)
    counts = np.bincount(owner[source[inside]], minlength=len(own)) / 2
    spread = float(counts.std() / counts.mean()) if counts.any() else 0.0
    labels = graph["y"].numpy()
    mixes = [entropy(labels[mine]) for mine in own if len(mine)]
    return Cuts(1 - float(inside.mean()) if len(inside) else 0.0, spread, float(np.mean(mixes)) if mixes else 0.0)


def entropy(labels: np.ndarray) -> float:
    """Return the Shannon entropy, in bits, of a list of labels; those below 0 are left out."""
    _, counts = np.unique(labels[labels >= 0], return_counts=True)
    share = counts / max(1, counts.sum())
    return float(np.abs((share * portable.log2(share)).sum()))


def moved(before: Sequence[np.ndarray], after: Sequence[np.ndarray]) -> int:
    """Return how many nodes are owned in both assignments, but not by the same client."""
    most = max((int(mine.max()) for mine in [*before, *after] if len(mine)), default=-1)
    old, new = owners_of(before, most + 1), owners_of(after, most + 1)
    return int(((old >= 0) & (new >= 0) & (old != new)).sum())
