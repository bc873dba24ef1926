"""Dataset: the source of a whole graph.

An implementation is a frozen dataclass of options, one file in `datasets/`.  It models one static,
undirected, attributed graph with one label a node; no timestamps and no edge weights.  Features are not
normalised.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor

from fedsim.data.graph import Graph


class Dataset(ABC):
    """A source of one whole graph."""

    @abstractmethod
    def load(self, root: Path, seed: int) -> Graph:
        """Return the whole graph as client 0's: both directions of every edge, no self loops, no repeats.

        `root` is the folder of published data and is never written to; `seed` is the run's, used only by
        generated graphs.  The masks are empty, or the public split where the data has one.

        Raises UserError if the data is neither under `root` nor available for download.
        """

    def names(self, root: Path) -> Sequence[str] | None:
        """Return the nodes' ids in tables, in their order; None: they are identified by row number."""
        return None


def undirected(edges: Tensor, nodes: int) -> Tensor:
    """Return edges (2, E) with both directions of each, once each, without self loops, sorted by source."""
    source, target = edges[:, edges[0] != edges[1]].long()
    return edges_of(torch.unique(torch.cat([source * nodes + target, target * nodes + source])), nodes)


def edges_of(numbers: Tensor, nodes: int) -> Tensor:
    """Return edges (2, E) from their numbers (E,), source times `nodes` plus target."""
    return torch.stack([numbers // nodes, numbers % nodes])
