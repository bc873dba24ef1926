"""Handwritten digits (scikit-learn's embedded UCI set): a small real graph that needs no download.

1,797 nodes of 64 features scaled to 0..1 and 10 classes; each is joined with its nearest neighbours by
Euclidean distance, and an edge in one direction counts in both.  The choice among equally near ones depends
on the number of threads; `fedsim.point.build.prepared` uses one.
"""

from dataclasses import dataclass
from pathlib import Path

import torch

from fedsim.core.units import Count
from fedsim.data.dataset import Dataset, undirected
from fedsim.data.graph import Graph, graph_of


@dataclass(frozen=True)
class Digits(Dataset):
    """The nearest-neighbour graph of 8x8 images."""

    neighbours: Count = 10  # nearest neighbours of each node, before edges are made symmetric

    def load(self, root: Path, seed: int) -> Graph:
        """Return the graph; neither argument matters.  Raises ValueError for 1,797 neighbours or more."""
        from sklearn.datasets import load_digits  # takes a second, which checks of a scenario can do without
        from sklearn.neighbors import kneighbors_graph

        bunch = load_digits()
        x = bunch.data / 16.0
        near = kneighbors_graph(x, self.neighbours).tocoo()
        edges = torch.stack([torch.as_tensor(near.row), torch.as_tensor(near.col)])
        return graph_of(torch.as_tensor(x), undirected(edges, len(x)), torch.as_tensor(bunch.target))
