"""Handwritten digits (the UCI set that scikit-learn has too): a small real graph that needs no download.

1,797 nodes of 64 features scaled to 0..1 and 10 classes; each is joined with its nearest neighbours by
Euclidean distance, and an edge in one direction counts in both.
"""

import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from fedsim.core.units import Count
from fedsim.data.dataset import Dataset, undirected
from fedsim.data.graph import Graph, graph_of

FILE = Path(__file__).parent / "tables" / "digits.csv.gz"


@dataclass(frozen=True)
class Digits(Dataset):
    """The nearest-neighbour graph of 8x8 images."""

    neighbours: Count = 10  # nearest neighbours of each node, before edges are made symmetric

    def load(self, root: Path, seed: int) -> Graph:
        """Return the graph; neither argument matters.  Raises ValueError for 1,797 neighbours or more."""
        pixels, digit = read()
        edges = torch.as_tensor(np.array(nearest(pixels, self.neighbours).nonzero()))
        return graph_of(torch.as_tensor(pixels / 16), undirected(edges, len(pixels)), torch.as_tensor(digit))


def read() -> tuple[np.ndarray, np.ndarray]:
    """Return the pixels (1797, 64), of 0 to 16, and the digits (1797,)."""
    rows = np.loadtxt(FILE, delimiter=",")
    return rows[:, :-1], rows[:, -1].astype(np.int64)


def nearest(points: np.ndarray, count: int) -> np.ndarray:
    """Return (N, N) whether a point (column) is among the `count` others nearest to a point (row); all differ.

    `points` (N, D) are whole numbers as floats, so that distances are exact.
    Among points that are as far as the last of them, those that scikit-learn's `kneighbors_graph` has (one thread).
    Raises ValueError if there are not that many others.
    """
    if count >= len(points):
        raise ValueError(f"{count} nearest neighbours of a point, of {len(points) - 1} others")
    square = (points**2).sum(1)
    far = square[:, None] + square - 2 * points @ points.T
    near: np.ndarray = far <= np.partition(far, count, axis=1)[:, [count]]  # itself and `count` others, or more
    for row in np.flatnonzero(near.sum(1) > count + 1):
        near[row] = False
        near[row, _kept(far[row].tolist(), count + 1)] = True
    np.fill_diagonal(near, False)
    return near


def _kept(distances: list[float], count: int) -> list[int]:
    """Return the places of the smallest, taken in turn into a heap whose largest goes as a smaller one comes."""
    heap = [(math.inf, -1)] * count
    for place, distance in enumerate(distances):
        if distance >= heap[0][0]:
            continue
        at, child = 0, 1
        while child < count:
            if child + 1 < count and heap[child + 1][0] > heap[child][0]:
                child += 1
            if heap[child][0] <= distance:
                break
            heap[at] = heap[child]
            at, child = child, 2 * child + 1
        heap[at] = distance, place
    return [place for _, place in heap]
