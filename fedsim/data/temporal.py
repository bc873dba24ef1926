"""Whole graphs that change: edges that live for a while or occur at one instant, vertices that come, new features.

Such a graph has further keys: `since` and `until` (E,) float64, the seconds from which and until which an entry of
`edges` is there, one entry for each direction and stretch of life; an event has `until` = `since`, an edge that is
never removed `until` = infinity.  `span` (2,) is the recording's start and end (s); `born` (N,) the second from which
a vertex is there, which is its first edge's where the key is missing; `frames` (S, N, F) the features that are in
force from the seconds `framed` (S,) on, in place of `x`; `bins` (F,) lower bounds of degrees, if the features are
one-hot codes of binned degrees; `message` (E, D) float32 the features of events, zeros where the key is missing.
Not modelled: weights and features of edges that last, vertices that disappear, and labels that change.
"""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal

import numpy as np
import numpy.typing as npt
import torch

from fedsim.core.units import Count
from fedsim.data.dataset import Dataset
from fedsim.data.graph import Graph, csr, graph_of

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
UNLABELLED = -1


class DynamicDataset(Dataset):
    """A source of one whole graph that changes; the module's docstring says with which keys."""


@dataclass(frozen=True)
class Featureless(DynamicDataset):
    """A published graph without features, which are generated.

    `constant`: `width` ones at every vertex; `degree`: a one-hot code of a vertex's degree in the snapshot,
    counting neighbours that its owner knows of, in bins that double; `onehot`: the vertex's number, one column per
    vertex of the graph.
    """

    features: Literal["constant", "degree", "onehot"] = "constant"  # features for data that have none
    width: Count = 32  # number of constant features, or of bins of degrees

    def load(self, root: Path, seed: int) -> Graph:
        """Return the graph; the seed does not matter."""
        graph = self.topology(root)
        n = len(graph["y"])
        if self.features == "onehot":
            own = torch.arange(n)
            return Graph(**{**graph, "x": csr(torch.arange(n + 1), own, torch.ones(n), (n, n))})
        if self.features == "degree":  # computed per snapshot: degrees of the whole recording would reveal the future
            bins = torch.tensor([0, *(2**power for power in range(self.width - 1))])
            return Graph(**{**graph, "x": torch.zeros(n, self.width), "bins": bins})
        return Graph(**{**graph, "x": torch.ones(n, self.width)})

    @abstractmethod
    def topology(self, root: Path) -> Graph:
        """Return the graph without features.  Raises UserError if it is not available."""


@dataclass(frozen=True, eq=False)
class Overview:
    """What a server with a view of the whole graph knows: its snapshots, and the owner of each vertex (N,), -1: none.

    `scanned` is how many entries of adjacency rows were read to partition each snapshot, None if not counted;
    `compared` are the owners (N,) by which pairs count as own or cut (`common_pairs.py`), None for `owners`.
    """

    snapshots: Sequence[Graph]
    owners: Sequence[Ints]
    scanned: Sequence[int] | None = None
    compared: Sequence[Ints] | None = None

    @cached_property
    def seeds(self) -> list[Ints]:
        """The vertices of each snapshot that changed since the one before, edges between clients included."""
        return [np.flatnonzero(snapshot["changed"].numpy()) for snapshot in self.snapshots]


def owners_of(owned: Sequence[Ints], vertices: int) -> Ints:
    """Return the owner (N,) of every vertex, -1 where there is none, from each client's vertices."""
    owner = np.full(vertices, -1, dtype=np.int64)
    for client, own in enumerate(owned):
        owner[own] = client
    return owner


def evolving(
    ends: Ints,
    since: Floats,
    until: Floats,
    vertices: int,
    *,
    y: Ints | None = None,
    span: tuple[float, float] | None = None,
    born: Floats | None = None,
    message: npt.NDArray[np.float32] | None = None,
) -> Graph:
    """Return a whole graph without features from one entry for each edge and lifetime, in either direction.

    `ends` (2, E) are vertices 0 to N-1.  Self loops and repeats of an entry are dropped; labels default to
    unknown (-1), and the span to that of the finite times.  `message` (E, D) are features of the entries; of
    repeats the first one's are kept.
    """
    straight, at_once = ends[0] != ends[1], until is since
    (low, high), since, until = ends[:, straight], since[straight], until[straight]
    pair = np.concatenate([low * vertices + high, high * vertices + low])
    since, until = np.tile(since, 2).astype(np.float64), np.tile(until, 2).astype(np.float64)
    order = np.lexsort((since, pair) if at_once else (until, since, pair))  # the more keys the slower, for millions
    pair, since, until = pair[order], since[order], until[order]
    new = np.ones(len(pair), dtype=bool)
    new[1:] = (np.diff(pair) != 0) | (np.diff(since) != 0) | (until[1:] != until[:-1])
    pair, since, until = pair[new], since[new], until[new]
    if span is None:
        times = np.concatenate([since, until[np.isfinite(until)]])
        span = (float(times.min()), float(times.max())) if len(times) else (0.0, 0.0)
    labels = np.full(vertices, UNLABELLED, dtype=np.int64) if y is None else y
    edges = torch.from_numpy(np.stack(np.divmod(pair, vertices)))
    graph = graph_of(torch.zeros(vertices, 0), edges, torch.from_numpy(labels))
    graph |= {"since": torch.from_numpy(since), "until": torch.from_numpy(until)}
    graph["span"] = torch.tensor(span, dtype=torch.float64)
    if message is not None:
        graph["message"] = torch.from_numpy(np.tile(message[straight], (2, 1))[order][new])
    if born is not None:
        graph["born"] = torch.from_numpy(born.astype(np.float64))
    return graph


def events(
    ends: Ints,
    times: Floats,
    vertices: int,
    y: Ints | None = None,
    message: npt.NDArray[np.float32] | None = None,
) -> Graph:
    """Return the whole graph of edges (2, E) that occur at those seconds (E,), with features (E, D) if given."""
    return evolving(ends, times, times, vertices, y=y, message=message)


def recorded(ends: Ints, number: Ints, vertices: int, count: int, length: float, y: Ints | None = None) -> Graph:
    """Return the whole graph of edges (2, E) that are listed in each of the `count` snapshots they are in (E,).

    A snapshot lasts `length` seconds, the first one from second 0; an edge lives over consecutive snapshots without
    a break.  Without labels a vertex is there from its first edge, with labels from the start.
    Raises ValueError for a number that is not a snapshot's.
    """
    if len(number) and not 0 <= number.min() <= number.max() < count:
        raise ValueError(f"snapshots are numbered 0 to {count - 1}, but there are edges of {number.max()}")
    pair = ends.min(0) * vertices + ends.max(0)
    listed = np.unique(pair * count + number)  # sorted by edge, then by snapshot
    edge, at = np.divmod(listed, count)
    begins = np.ones(len(listed), dtype=bool)
    begins[1:] = (np.diff(edge) != 0) | (np.diff(at) != 1)
    stops = np.append(begins[1:], True)
    ends = np.stack(np.divmod(edge[begins], vertices))
    since, until = at[begins] * length, (at[stops] + 1) * length
    born = None if y is None else np.zeros(vertices)
    return evolving(ends, since, until, vertices, y=y, span=(0.0, count * length), born=born)
