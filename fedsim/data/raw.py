"""A user's graph between its file and `Graph`: arrays as read, and their conversion.

Labels become class numbers: the distinct ones in order, whole numbers by value and texts by alphabet, so that 0, 1, 2
stay what they are.  An edge in one direction counts in both; self loops and repeats are dropped.
Not modelled: directions, weights and attributes of edges, several labels a vertex, graphs that change.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from fedsim.core.errors import UserError
from fedsim.data.dataset import undirected
from fedsim.data.graph import Graph, csr, graph_of, sparse_if_worth

MASKS = ("train", "val", "test")
DENSE = 64  # columns of one-hot degrees; more are stored as sparse
Absent = Literal["refuse", "degree", "constant"]


@dataclass(frozen=True)
class Raw:
    """What a file holds: `edges` (2, E) row numbers, `x` (N, F) or None, `labels` (N,), masks (N,) by their names.

    `labels` are class numbers already, -1 for none.
    """

    vertices: int
    edges: npt.NDArray[np.int64]
    labels: npt.NDArray[np.int64]
    x: npt.NDArray[np.float32] | None = None
    masks: Mapping[str, npt.NDArray[np.bool_]] = field(default_factory=dict)

    def graph(self, file: Any, absent: Absent) -> Graph:
        """Return the graph.  Raises UserError, which names the file, if it has no edge or no features."""
        if not self.vertices:
            raise UserError(f"{file}: the graph has no vertex; it needs at least two vertices and an edge")
        edges = undirected(torch.from_numpy(self.edges), self.vertices)
        if not edges.shape[1]:
            raise UserError(f"{file}: no edge joins two different vertices; the graph needs at least one")
        masks = [torch.from_numpy(self.masks[name]) if name in self.masks else None for name in MASKS]
        return graph_of(self._features(file, absent, edges), edges, torch.from_numpy(self.labels), *masks)

    def _features(self, file: Any, absent: Absent, edges: Tensor) -> Tensor:
        if self.x is not None:
            return sparse_if_worth(torch.from_numpy(self.x))
        if absent == "refuse":
            message = (
                "write missing_features: degree (one-hot degrees) or missing_features: constant (a 1 for each vertex)"
            )
            raise UserError(f"{file}: the vertices have no features; {message}")
        if absent == "constant":
            return torch.ones(self.vertices, 1)
        degrees, column = torch.unique(torch.bincount(edges[0], minlength=self.vertices), return_inverse=True)
        one_hot = csr(torch.arange(self.vertices + 1), column, torch.ones(self.vertices), (self.vertices, len(degrees)))
        return one_hot if len(degrees) > DENSE else one_hot.to_dense()


def numbered(labels: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    """Return class numbers of labels, whole numbers (-1: none) or texts ("": none): the ranks of the others."""
    known = labels != "" if labels.dtype.kind == "U" else labels != -1
    numbers = np.full(len(labels), -1, dtype=np.int64)
    numbers[known] = np.unique(labels[known], return_inverse=True)[1]
    return numbers


def from_texts(cells: Sequence[str]) -> npt.NDArray[Any]:
    """Return labels written as texts as whole numbers if all of them are, else unchanged.

    Raises ValueError, with the index of the first invalid one and a message, for numbers that are not whole, or
    negative other than -1.
    """
    texts = np.array(cells, dtype=np.str_)
    given = np.flatnonzero(texts != "")
    try:
        numbers = texts[given].astype(np.float64)
    except ValueError:
        return texts
    whole = np.isfinite(numbers) & (numbers == np.round(numbers)) & (np.abs(numbers) < 2**53)
    if not whole.all():
        at = int(given[np.flatnonzero(~whole)[0]])
        raise ValueError(at, f"{texts[at]} is not a label; labels are whole numbers or texts, one a class")
    if (numbers < -1).any():
        at = int(given[np.flatnonzero(numbers < -1)[0]])
        raise ValueError(
            at, f"{texts[at]} is not a label; whole numbers count from 0, and -1 or nothing means unlabelled"
        )
    labels = np.full(len(texts), -1, dtype=np.int64)
    labels[given] = numbers.astype(np.int64)
    return labels


def masks_from_words(words: npt.NDArray[np.str_]) -> dict[str, npt.NDArray[np.bool_]]:
    """Return the three masks of a column that says "train", "val", "test" or "" for each vertex."""
    return {name: words == name for name in MASKS}
