"""Label skew by major labels: each client in turn takes most of its nodes from a few labels.

The rule of FedDGL (Xie et al., ACML 2024): `majors` labels drawn for each client, a share of its nodes from
these, the rest from the others.  A share `held` of the nodes, drawn first, is set aside for a global test
(`measure.splits: [held_out]`); of the M that remain each client has M // K, so up to K - 1 more stay unowned.
If a label runs out, the missing nodes are taken from the others, and the share reached is logged.  Clients
are disjoint: those of the published code share nodes, so that one client may train on a node that another
tests on; that is not modelled.
"""

import logging
from dataclasses import dataclass
from typing import Literal

import numpy as np

from fedsim.core.errors import UserError
from fedsim.core.units import Count, Fraction, FractionBelowOne
from fedsim.data.graph import Graph, induced
from fedsim.data.partition import Repartitioning, classes_in, require

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class LabelSkew(Repartitioning):
    """If there are no classes, `by: edge` distinguishes nodes with and without an edge.

    It needs `majors: 1`, and there is no skew if every node has an edge.
    """

    majors: Count = 2  # major labels per client; the published code and DG-CoLearn use 3
    share: Fraction = 0.8  # of a client's nodes that come from its major labels
    by: Literal["class", "edge"] = "class"  # what counts as a label: the class, or whether a node has an edge
    linked: bool = False  # drop nodes without an edge inside their client
    # share of all nodes set aside for a global test; the published code uses 0.3
    held: FractionBelowOne = 0.0

    def __post_init__(self) -> None:
        """Raise ValueError if nodes are set aside that have been trained on."""
        if self.held and self.each_snapshot:
            raise ValueError(
                "held: nodes set aside must stay the same, but each_snapshot redraws them; leave one of the two out"
            )

    def assign(self, graph: Graph, clients: int, rng: np.random.Generator) -> list[np.ndarray]:
        """Return each client's nodes, ascending.  Raises UserError if there are too few labels."""
        label = self._labels(graph)
        pool = np.arange(len(label))
        if self.held:
            pool = np.sort(rng.permutation(pool)[round(self.held * len(pool)) :])
        require(len(pool), clients)
        count = 2 if self.by == "edge" else int(label.max(initial=-1)) + 1
        if count <= self.majors:
            raise UserError(
                f"data.partition.majors: {self.majors} major labels of a graph that has {count}; "
                "there must be at least one other label for the rest of a client's nodes "
                "(a graph without classes takes by: edge and majors: 1)"
            )
        left = [rng.permutation(pool[label[pool] == number]) for number in range(count)]
        quota, owned = len(pool) // clients, []
        for client in range(clients):
            major = rng.choice(count, self.majors, replace=False)
            nodes = np.sort(_take(left, major, quota, round(self.share * quota), rng))
            reached = float(np.isin(label[nodes], major).mean())
            log.info("client %d: labels %s have %.1f %%", client, np.sort(major).tolist(), 100 * reached)
            owned.append(self._with_edges(graph, nodes, client) if self.linked else nodes)
        return owned

    def _labels(self, graph: Graph) -> np.ndarray:
        if self.by == "edge":
            return (np.bincount(graph["edges"][0].numpy(), minlength=len(graph["y"])) > 0).astype(np.int64)
        _, number = np.unique(classes_in(graph), return_inverse=True)
        return np.asarray(number, dtype=np.int64)

    def _with_edges(self, graph: Graph, nodes: np.ndarray, client: int) -> np.ndarray:
        """Return those of a client's nodes that have an edge to another."""
        linked = np.unique(induced(graph, nodes)["edges"].numpy())
        if not len(linked):
            message = f"client {client} has no edge within its {len(nodes)} nodes"
            raise UserError(f"data.partition.linked: {message}; take fewer clients or linked: false")
        return nodes.take(linked)


def _take(left: list[np.ndarray], major: np.ndarray, quota: int, wanted: int, rng: np.random.Generator) -> np.ndarray:
    """Remove a client's nodes from those left of each label, and return them."""
    other = np.setdiff1d(np.arange(len(left)), major)
    first = _draw(left, major, wanted, rng)
    second = _draw(left, other, quota - len(first), rng)
    third = _draw(left, major, quota - len(first) - len(second), rng)  # the others have run out
    return np.concatenate([first, second, third])


def _draw(left: list[np.ndarray], labels: np.ndarray, wanted: int, rng: np.random.Generator) -> np.ndarray:
    """Remove that many uniform nodes of these labels, or fewer if there are fewer."""
    sizes = np.array([len(left[label]) for label in labels])
    counts = rng.multivariate_hypergeometric(sizes, min(wanted, int(sizes.sum())))
    taken = []
    for label, count in zip(labels, counts, strict=True):
        taken.append(left[label][:count])
        left[label] = left[label][count:]
    return np.concatenate(taken)
