"""Whole graphs that change: edges that live a while or occur at an instant, nodes that come, new features.

Such a graph has further keys (`Graph` lists them): `since` and `until` of each entry of `edges`, one entry
for each direction and stretch of life, where an event has `until` = `since`; `span`, `born`, `frames`,
`framed` and `bins`; and `message`, the features of events, zeros where the key is missing.  Not modelled:
weights and features of edges that last, nodes that disappear, and labels that change.
"""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import ClassVar, Literal

import numpy as np
import numpy.typing as npt
import torch

from fedsim.core.arrays import Floats, Ints
from fedsim.core.units import Count
from fedsim.data.dataset import Dataset
from fedsim.data.files.published import prepared
from fedsim.data.graph import Graph, csr, graph_of

UNLABELLED = -1
Features = npt.NDArray[np.float32]


class DynamicDataset(Dataset):
    """A source of one whole graph that changes; the module's docstring says with which keys."""


@dataclass(frozen=True)
class Featureless(DynamicDataset):
    """A published graph without features, which are generated.

    `constant`: `width` ones at every node; `degree`: a one-hot code of a node's degree in the snapshot,
    counting neighbours that its owner knows of, in bins that double; `onehot`: the node's number, one column
    per node of the graph.
    """

    features: Literal["constant", "degree", "onehot"] = "constant"  # features for data that have none
    width: Count = 32  # number of constant features, or of bins of degrees

    def load(self, root: Path, seed: int) -> Graph:
        """Return the graph; the seed does not matter, unless the graph is drawn."""
        graph = self.topology(root, seed)
        n = len(graph["y"])
        if self.features == "onehot":
            graph["x"] = csr(torch.arange(n + 1), torch.arange(n), torch.ones(n), (n, n))
        elif self.features == "degree":  # computed per snapshot: degrees of the whole recording would tell the future
            graph["x"] = torch.zeros(n, self.width)
            graph["bins"] = torch.tensor([0, *(2**power for power in range(self.width - 1))])
        else:
            graph["x"] = torch.ones(n, self.width)
        return graph

    @abstractmethod
    def topology(self, root: Path, seed: int) -> Graph:
        """Return the graph without features.  Raises UserError if it is not available."""


@dataclass(frozen=True)
class PublishedEvents(Featureless):
    """A published graph of files in the folder `raw` of published data, or at `urls` by name ("": nowhere)."""

    raw: ClassVar[str]
    urls: ClassVar[Mapping[str, str]]

    def topology(self, root: Path, seed: int) -> Graph:
        """Return the graph without features."""
        return prepared(root / self.raw, self.urls, self.read)

    @abstractmethod
    def read(self, folder: Path) -> Graph:
        """Return the graph of a folder's files.  Raises ValueError if they do not fit one another."""


@dataclass(frozen=True, eq=False)
class Overview:
    """What a server that sees the whole graph knows: its snapshots, and each node's owner (N,), -1: none.

    `scanned` is how many entries of adjacency rows were read to partition each snapshot, None if not counted;
    `compared` are the owners (N,) by which pairs count as own or cut (`common_pairs.py`), None for `owners`.
    """

    snapshots: Sequence[Graph]
    owners: Sequence[Ints]
    scanned: Sequence[int] | None = None
    compared: Sequence[Ints] | None = None

    @cached_property
    def seeds(self) -> list[Ints]:
        """The nodes of each snapshot that changed since the one before, edges between clients included."""
        return [np.flatnonzero(snapshot["changed"].numpy()) for snapshot in self.snapshots]


def owners_of(owned: Sequence[Ints], nodes: int) -> Ints:
    """Return the owner (N,) of every node, -1 where there is none, from each client's nodes."""
    owner = np.full(nodes, -1, dtype=np.int64)
    for client, nodes_of_client in enumerate(owned):
        owner[nodes_of_client] = client
    return owner


def evolving(
    ends: Ints,
    since: Floats,
    until: Floats,
    nodes: int,
    *,
    y: Ints | None = None,
    span: tuple[float, float] | None = None,
    born: Floats | None = None,
    message: Features | None = None,
) -> Graph:
    """Return a whole graph without features from one entry for each edge and lifetime, in either direction.

    `ends` (2, E) are nodes 0 to N-1.  Self loops and repeats of an entry are dropped; labels default to
    unknown (-1), and the span to that of the finite times.  `message` (E, D) are features of the entries; of
    repeats the first one's are kept.
    """
    straight, at_once = ends[0] != ends[1], until is since
    (low, high), since, until = ends[:, straight], since[straight], until[straight]
    pair = np.concatenate([low * nodes + high, high * nodes + low])
    since, until = np.tile(since, 2).astype(np.float64), np.tile(until, 2).astype(np.float64)
    order = np.lexsort((since, pair) if at_once else (until, since, pair))  # the more keys the slower, for millions
    pair, since, until = pair[order], since[order], until[order]
    new = np.ones(len(pair), dtype=bool)
    new[1:] = (np.diff(pair) != 0) | (np.diff(since) != 0) | (until[1:] != until[:-1])
    pair, since, until = pair[new], since[new], until[new]
    if span is None:
        times = np.concatenate([since, until[np.isfinite(until)]])
        span = (float(times.min()), float(times.max())) if len(times) else (0.0, 0.0)
    labels = np.full(nodes, UNLABELLED, dtype=np.int64) if y is None else y
    edges = torch.from_numpy(np.stack(np.divmod(pair, nodes)))
    graph = graph_of(torch.zeros(nodes, 0), edges, torch.from_numpy(labels))
    graph |= {"since": torch.from_numpy(since), "until": torch.from_numpy(until)}
    graph["span"] = torch.tensor(span, dtype=torch.float64)
    if message is not None:
        graph["message"] = torch.from_numpy(np.tile(message[straight], (2, 1))[order][new])
    if born is not None:
        graph["born"] = torch.from_numpy(born.astype(np.float64))
    return graph


def events(ends: Ints, times: Floats, nodes: int, y: Ints | None = None, message: Features | None = None) -> Graph:
    """Return the whole graph of edges (2, E) that occur at those seconds (E,), with features (E, D) if given."""
    return evolving(ends, times, times, nodes, y=y, message=message)


def recorded(ends: Ints, number: Ints, nodes: int, count: int, length: float, y: Ints | None = None) -> Graph:
    """Return the whole graph of edges (2, E) that are listed in the snapshots they are in (E,).

    A snapshot lasts `length` seconds, the first one from second 0; an edge lives over consecutive snapshots
    without a break.  Without labels a node is there from its first edge, with labels from the start.  Raises
    ValueError for a number that is not a snapshot's.
    """
    if len(number) and not 0 <= number.min() <= number.max() < count:
        raise ValueError(f"snapshots are numbered 0 to {count - 1}, but there are edges of {number.max()}")
    pair = ends.min(0) * nodes + ends.max(0)
    listed = np.unique(pair * count + number)  # sorted by edge, then by snapshot
    edge, at = np.divmod(listed, count)
    begins = np.ones(len(listed), dtype=bool)
    begins[1:] = (np.diff(edge) != 0) | (np.diff(at) != 1)
    stops = np.append(begins[1:], True)
    ends = np.stack(np.divmod(edge[begins], nodes))
    since, until = at[begins] * length, (at[stops] + 1) * length
    born = None if y is None else np.zeros(nodes)
    return evolving(ends, since, until, nodes, y=y, span=(0.0, count * length), born=born)
