"""A degree-corrected stochastic block model with attributes (after Karrer and Newman, Phys. Rev. E 83, 2011).

Every class is a block.  Nodes have Pareto-distributed propensities θ; an edge is drawn by θ at its first end
and, at its other end, by θ among the same class in a share `homophily` of the edges and among the other
classes otherwise.  Both numbers of edges are met exactly, by redrawing self loops and repeats.  Features are
the class's random unit vector times `signal`, plus standard normal noise: without its edges, two classes are
√2·signal noise standard deviations apart.  Drawing costs O(N·F + E log N).  Not modelled: triangles,
communities inside a class, and edges that depend on features.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
import torch
from pydantic import Field, NonNegativeFloat

from fedsim.core import portable, seeds
from fedsim.core.units import Count, Fraction
from fedsim.data.dataset import Dataset, undirected
from fedsim.data.graph import Graph, graph_of

TRIES = 60  # times that missing edges are redrawn


@dataclass(frozen=True)
class Synthetic(Dataset):
    """A graph of any size, generated from the run's seed."""

    nodes: Count = 1000  # number of nodes
    classes: Count = 6  # number of classes, of equal size to within one node
    features: Count = 64  # number of features per node
    degree: NonNegativeFloat = 8.0  # mean number of neighbours
    homophily: Fraction = 0.8  # share of edges within a class
    exponent: Annotated[float, Field(gt=2)] = 2.5  # of the degrees' power law; .inf: equal expected degrees
    signal: NonNegativeFloat = 1.0  # length of a class's mean feature vector; the noise has standard deviation 1

    def __post_init__(self) -> None:
        """Raise ValueError for options that make no sense."""
        if self.classes < 2 or self.nodes < 2 * self.classes:
            raise ValueError("classes must be 2 or more, and nodes at least twice as many")
        inside, across = self._edge_counts()
        size = self.nodes // self.classes
        room = self.classes * size * (size - 1) // 2
        if 2 * inside > room or 2 * across > self.nodes * (self.nodes - size - 1) // 2:
            raise ValueError("degree is too large for so few nodes and this homophily; the graph must be sparse")

    def load(self, root: Path, seed: int) -> Graph:
        """Return the graph of that seed; `root` is not used."""
        rng = seeds.generator(seed, "data.synthetic")
        y = rng.permutation(np.arange(self.nodes) % self.classes)
        edges = self._edges(y, rng)
        centre = rng.standard_normal((self.classes, self.features), dtype=np.float32)
        centre *= self.signal / np.linalg.norm(centre, axis=1, keepdims=True)
        x = rng.standard_normal((self.nodes, self.features), dtype=np.float32)
        x += centre[y]
        return graph_of(torch.from_numpy(x), undirected(torch.from_numpy(edges), self.nodes), torch.from_numpy(y))

    def _edge_counts(self) -> tuple[int, int]:
        total = round(self.nodes * self.degree / 2)
        inside = round(total * self.homophily)
        return inside, total - inside

    def _edges(self, y: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        by_class = np.argsort(y, kind="stable")  # block c is one stretch of this order
        heavy = portable.power(1 - rng.random(self.nodes), -1 / (self.exponent - 1))
        # Capped so that no pair within a class expects more than one edge.
        most = np.sqrt(max(1.0, self.nodes / (self.classes * max(1.0, self.degree))))
        mass = np.concatenate([[0.0], np.cumsum(np.minimum(heavy, heavy.mean() * most))])
        ends = mass[np.concatenate([[0], np.cumsum(np.bincount(y, minlength=self.classes))])]
        kinds = zip(self._edge_counts(), (True, False), strict=True)
        places = np.concatenate([_distinct(count, mass, ends, inside, rng) for count, inside in kinds])
        return by_class.take(np.stack(np.divmod(places, self.nodes)))


def _distinct(count: int, mass: np.ndarray, ends: np.ndarray, inside: bool, rng: np.random.Generator) -> np.ndarray:
    """Return that many different pairs a < b as a·N + b; `mass` and `ends` are cumulated propensities."""
    n = len(mass) - 1
    drawn = np.empty(0, dtype=np.int64)
    for _ in range(TRIES):
        missing = count - len(drawn)
        if missing <= 0:
            return drawn
        at = np.sort(rng.random(int(1.1 * missing) + 8)) * mass[-1]  # sorted for memory locality only
        block = np.clip(np.searchsorted(ends, at, side="right") - 1, 0, len(ends) - 2)
        low, high = ends[block], ends[block + 1]
        spin = rng.random(len(at))
        other = low + spin * (high - low) if inside else (high + spin * (mass[-1] - high + low)) % mass[-1]
        a, b = (np.clip(np.searchsorted(mass, here, side="right") - 1, 0, n - 1) for here in (at, other))
        pairs = (np.minimum(a, b) * n + np.maximum(a, b))[a != b]
        new = np.sort(pairs if not len(drawn) else pairs[~np.isin(pairs, drawn)])
        new = new[np.diff(new, prepend=-1) > 0]
        drawn = np.concatenate([drawn, rng.permutation(new)[:missing]])
    raise ValueError("degree: not enough distinct edges could be drawn; lower degree or raise exponent")
