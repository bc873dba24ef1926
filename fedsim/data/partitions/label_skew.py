"""Label skew by major labels: each client in turn takes most of its vertices from a few labels.

The rule of FedDGL (Xie et al., ACML 2024): `majors` labels drawn for each client, a share of its vertices from these,
the rest from the others.  A share `held` of the vertices, drawn first, is set aside for a global test
(`measure.splits: [held_out]`); of the M that remain each client has M // K, so up to K - 1 more stay unowned.
If a label runs out, the missing vertices are taken from the others, and the share reached is logged.
Clients are disjoint: those of the published code share vertices, so that one client may train on a vertex that
another tests on; that is not modelled.
"""

import logging
from dataclasses import dataclass
from typing import Literal

import numpy as np

from fedsim.core.errors import UserError
from fedsim.core.units import Count, Fraction
from fedsim.data.anew import Anew
from fedsim.data.graph import Graph
from fedsim.data.partition import require

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class LabelSkew(Anew):
    """If there are no classes, `by: edge` distinguishes vertices with and without an edge.

    It needs `majors: 1`, and there is no skew if every vertex has an edge.
    """

    majors: Count = 2  # major labels per client; the published code and DG-CoLearn use 3
    share: Fraction = 0.8  # of a client's vertices that come from its major labels
    by: Literal["class", "edge"] = "class"  # what counts as a label: the class, or whether a vertex has an edge
    linked: bool = False  # drop vertices without an edge inside their client
    held: Fraction = 0.0  # share of all vertices set aside for a global test; the published code uses 0.3

    def __post_init__(self) -> None:
        """Raise ValueError if everything is set aside, or vertices that have been trained on."""
        if self.held == 1:
            raise ValueError("held is 1: no vertex would be left to the clients; take less, such as 0.3")
        if self.held and self.each_snapshot:
            raise ValueError(
                "held: vertices set aside must stay the same, but each_snapshot redraws them; leave one of the two out"
            )

    def assign(self, graph: Graph, clients: int, rng: np.random.Generator) -> list[np.ndarray]:
        """Return each client's vertices, ascending.  Raises UserError if there are too few labels."""
        label = self._labels(graph)
        pool = np.arange(len(label))
        if self.held:
            pool = np.sort(rng.permutation(pool)[round(self.held * len(pool)) :])
        require(len(pool), clients)
        count = 2 if self.by == "edge" else int(label.max(initial=-1)) + 1
        if count <= self.majors:
            raise UserError(
                f"data.partition.majors: {self.majors} major labels of a graph that has {count}; "
                "there must be at least one other label for the rest of a client's vertices "
                "(a graph without classes takes by: edge and majors: 1)"
            )
        left = [rng.permutation(pool[label[pool] == one]) for one in range(count)]
        quota, own = len(pool) // clients, []
        for client in range(clients):
            major = rng.choice(count, self.majors, replace=False)
            mine = _take(left, major, quota, round(self.share * quota), rng)
            reached = float(np.isin(label[mine], major).mean())
            log.info("client %d: labels %s have %.1f %%", client, np.sort(major).tolist(), 100 * reached)
            own.append(np.sort(mine))
        return [self._kept(graph, mine, client) for client, mine in enumerate(own)] if self.linked else own

    def _labels(self, graph: Graph) -> np.ndarray:
        labels = graph["y"].numpy()
        if self.by == "edge":
            return (np.bincount(graph["edges"][0].numpy(), minlength=len(labels)) > 0).astype(np.int64)
        _, number = np.unique(labels, return_inverse=True)
        return np.asarray(number, dtype=np.int64)

    def _kept(self, graph: Graph, mine: np.ndarray, client: int) -> np.ndarray:
        inside = np.zeros(len(graph["y"]), dtype=bool)
        inside[mine] = True
        source, target = graph["edges"].numpy()
        kept = np.unique(source[inside[source] & inside[target]])
        if not len(kept):
            raise UserError(
                f"data.partition.linked: client {client} has no edge within its {len(mine)} vertices; "
                "take fewer clients or linked: false"
            )
        return kept


def _take(left: list[np.ndarray], major: np.ndarray, quota: int, wanted: int, rng: np.random.Generator) -> np.ndarray:
    """Remove a client's vertices from those left of each label, and return them."""
    other = np.setdiff1d(np.arange(len(left)), major)
    first = _draw(left, major, wanted, rng)
    second = _draw(left, other, quota - len(first), rng)
    third = _draw(left, major, quota - len(first) - len(second), rng)  # the others have run out
    return np.concatenate([first, second, third])


def _draw(left: list[np.ndarray], labels: np.ndarray, wanted: int, rng: np.random.Generator) -> np.ndarray:
    """Remove that many uniform vertices of these labels, or fewer if there are fewer."""
    sizes = np.array([len(left[label]) for label in labels])
    counts = rng.multivariate_hypergeometric(sizes, min(wanted, int(sizes.sum())))
    taken = []
    for label, count in zip(labels, counts, strict=True):
        taken.append(left[label][:count])
        left[label] = left[label][count:]
    return np.concatenate(taken)
