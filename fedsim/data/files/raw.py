"""A user's data between their file and `Graph`: arrays as read, and their conversion.

Labels become class numbers: the distinct ones in order, whole numbers by value and texts by alphabet, so that
0, 1, 2 stay what they are.  An edge in one direction counts in both; self loops and repeats are dropped.
Attributes and weights go with their edge: an edge given in one direction has them in both, one given in both
directions keeps those of each, and repeats must agree.  Not modelled: directions of edges, several labels a
node, graphs that change.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from fedsim.core.arrays import Array, Bools, Ints, Strings
from fedsim.core.errors import UserError
from fedsim.data.dataset import undirected
from fedsim.data.graph import MASKS, Graph, csr, graph_of, places_of, sparse_if_worth, with_keys

DENSE = 64  # columns of one-hot degrees; more are stored as sparse
MissingFeatures = Literal["refuse", "degree", "constant"]
Targets = Literal["classes", "real"]


@dataclass(frozen=True)
class Raw:
    """What a file holds: `edges` (2, E) row numbers, `x` (N, ...) or None, `labels` (N,), masks (N,) by name.

    `labels` are class numbers already, -1 for none; 0 where there are real targets, `real` (N, T).
    `of_edges` are attributes (E, D) and weights (E,) by the names of `EDGE_KEYS`.
    """

    nodes: int
    edges: Ints
    labels: Ints
    x: npt.NDArray[np.float32] | None = None
    masks: Mapping[str, Bools] = field(default_factory=dict)
    of_edges: Mapping[str, npt.NDArray[np.float32]] = field(default_factory=dict)
    real: npt.NDArray[np.float32] | None = None

    def graph(self, file: Any, absent: MissingFeatures) -> Graph:
        """Return the graph.  Raises UserError, which names the file, if it has no edge or no features."""
        if not self.nodes:
            raise UserError(f"{file}: the graph has no node; it needs at least two nodes and an edge")
        edges = undirected(torch.from_numpy(self.edges), self.nodes)
        if not edges.shape[1]:
            raise UserError(f"{file}: no edge joins two different nodes; the graph needs at least one")
        graph = self._with(self._features(file, absent, edges), edges)
        return with_keys(graph, self._attributes(file, edges)) if self.of_edges else graph

    def rows(self) -> Graph:
        """Return rows without edges as a graph."""
        assert self.x is not None
        return self._with(sparse_if_worth(torch.from_numpy(self.x)), torch.zeros(2, 0))

    def _with(self, x: Tensor, edges: Tensor) -> Graph:
        masks = [torch.from_numpy(self.masks[name]) if name in self.masks else None for name in MASKS]
        graph = graph_of(x, edges, torch.from_numpy(self.labels), *masks)
        return graph if self.real is None else with_keys(graph, {"real": torch.from_numpy(self.real)})

    def _attributes(self, file: Any, edges: Tensor) -> dict[str, Tensor]:
        """Return what each of the graph's entries has.  Raises UserError where repeats of an edge differ."""
        given = torch.from_numpy(self.edges)
        pairs, which = torch.unique(given[0] * self.nodes + given[1], return_inverse=True)
        first = torch.full_like(pairs, len(which)).scatter_reduce_(0, which, torch.arange(len(which)), "amin")
        same, other = (places_of(ends, given[:, first], self.nodes) for ends in (edges, edges.flip(0)))
        place, found = first[torch.where(same >= 0, same, other)], {}
        for name, array in self.of_edges.items():
            values = torch.from_numpy(array)
            differs = (values != values[first[which]]).view(len(values), -1).any(1) & (given[0] != given[1])
            if differs.any():
                again = int(differs.nonzero()[0])
                ends = f"{given[0, again]} to {given[1, again]}"
                message = (
                    f"the edge {ends} is given twice, as entries {first[which[again]]} and {again}, and they differ"
                )
                raise UserError(f"{file}: {name!r}, {message}; keep one, or add them up")
            found[name] = values[place]
        return found

    def _features(self, file: Any, absent: MissingFeatures, edges: Tensor) -> Tensor:
        if self.x is not None:
            return sparse_if_worth(torch.from_numpy(self.x))
        if absent == "refuse":
            message = (
                "write missing_features: degree (one-hot degrees) or missing_features: constant (a 1 for each node)"
            )
            raise UserError(f"{file}: the nodes have no features; {message}")
        if absent == "constant":
            return torch.ones(self.nodes, 1)
        degrees, column = torch.unique(torch.bincount(edges[0], minlength=self.nodes), return_inverse=True)
        one_hot = csr(torch.arange(self.nodes + 1), column, torch.ones(self.nodes), (self.nodes, len(degrees)))
        return one_hot if len(degrees) > DENSE else one_hot.to_dense()


def as_features(values: Array) -> tuple[npt.NDArray[np.float32], tuple[int, ...] | None]:
    """Return values in single precision, and the place of the first that is not finite then."""
    with np.errstate(over="ignore"):
        x = values.astype(np.float32)
    wrong = np.argwhere(~np.isfinite(x))
    return x, tuple(wrong[0].tolist()) if len(wrong) else None


def targets_of(
    where: Any, array: Array, rows: int, targets: Targets | None
) -> tuple[Ints, npt.NDArray[np.float32] | None]:
    """Return the rows' classes, or 0 for each and their real targets (N, T).

    Without `targets` numbers with a fraction are real, whole numbers and texts are classes.  Raises UserError,
    which names `where` and a fix, for what is neither.
    """
    if array.ndim > 2 or len(array) != rows or 0 in array.shape:
        message = f"has the shape {array.shape}, and 'x' has {rows} rows"
        raise UserError(f"{where}: 'y' {message}; it must be ({rows},), or ({rows}, T) for T real targets")
    is_text = array.dtype.kind == "U"
    if not is_text and len(wrong := np.argwhere(~np.isfinite(array))):
        value, row = array[tuple(wrong[0])], wrong[0][0]
        raise UserError(f"{where}: 'y' is {value} at row {row}; targets must be finite, so leave out rows without one")
    fractions: Ints = np.zeros((0, 1), np.int64) if is_text else np.argwhere(array != np.round(array))
    if targets == "real" or (targets is None and len(fractions)):
        if is_text:
            raise UserError(f"{where}: 'y' holds texts, and real targets are numbers; write targets: classes")
        real, large = as_features(array.reshape(rows, -1))
        if large:
            raise UserError(
                f"{where}: 'y' is {array.reshape(rows, -1)[large]} at row {large[0]}, too large for float32"
            )
        return np.zeros(rows, dtype=np.int64), real
    if len(fractions):
        message = f"{array[tuple(fractions[0])]} at row {fractions[0][0]}; classes are whole numbers or texts"
        raise UserError(f"{where}: 'y' is {message}: make it so, or write targets: real")
    if array.ndim == 2 and array.shape[1] > 1:
        message = f"has the shape {array.shape}, and a row has one class"
        raise UserError(f"{where}: 'y' {message}; make it ({rows},), or write targets: real")
    labels = array.reshape(rows) if is_text else array.reshape(rows).astype(np.int64)
    if not is_text and (labels < -1).any():
        at = int(np.flatnonzero(labels < -1)[0])
        raise UserError(f"{where}: 'y' is {labels[at]} at row {at}; classes count from 0, and -1 means unlabelled")
    return numbered(labels), None


def numbered(labels: Array) -> Ints:
    """Return class numbers of labels, whole numbers (-1: none) or texts ("": none): the ranks of the others."""
    known = labels != "" if labels.dtype.kind == "U" else labels != -1
    numbers = np.full(len(labels), -1, dtype=np.int64)
    numbers[known] = np.unique(labels[known], return_inverse=True)[1]
    return numbers


def from_texts(cells: Sequence[str]) -> Array:
    """Return labels written as texts as whole numbers if all of them are, else unchanged.

    Raises ValueError, with the index of the first invalid one and a message, for numbers that are not whole,
    or negative other than -1.
    """
    texts = np.array(cells, dtype=np.str_)
    given = np.flatnonzero(texts != "")
    try:
        numbers = texts[given].astype(np.float64)
    except ValueError:
        return texts
    is_whole = np.isfinite(numbers) & (numbers == np.round(numbers)) & (np.abs(numbers) < 2**53)
    if not is_whole.all():
        at = int(given[np.flatnonzero(~is_whole)[0]])
        raise ValueError(at, f"{texts[at]} is not a label; labels are whole numbers or texts, one a class")
    if (numbers < -1).any():
        at = int(given[np.flatnonzero(numbers < -1)[0]])
        raise ValueError(
            at, f"{texts[at]} is not a label; whole numbers count from 0, and -1 or nothing means unlabelled"
        )
    labels = np.full(len(texts), -1, dtype=np.int64)
    labels[given] = numbers.astype(np.int64)
    return labels


def masks_from_words(words: Strings) -> dict[str, Bools]:
    """Return the three masks of a column that says "train", "val", "test" or "" for each node."""
    return {name: words == name for name in MASKS}
