"""A labelled graph that grows and drifts, generated from the run's seed: a planted partition that changes.

Snapshot k is the seconds from k to k + 1 (`steps` of the stream is `snapshots`).  A share `growth` of the vertices
joins after the first snapshot, evenly.  Labels are drawn when a vertex joins, from a mix of the classes whose logits
follow a random walk, and features as a class's unit vector times `signal` plus standard normal noise, where the vectors
follow a random walk too; in each later snapshot a share `renewal` of its vertices get new features.  A share
`removal` of the edges is removed in each later snapshot, and edges are added to keep their number in proportion to the
vertices; ends are uniform, of one class in a share `homophily` of the edges.  Drawing costs O(S (N F + E log E)).

With `communities` a share `insularity` of the edges lies within one community.  Each later snapshot draws a share
`active` of them (one at least), and all changes happen there: new edges end, and vertices join, in active communities
only. So the active ones grow larger than the others.  Without communities change is everywhere: if vertices have 10
neighbours, those touched by 1 % of new edges are a tenth of all, and 99 % are within two edges of them; with 400
communities, 1 % of them active and an insularity of 0.999, it is 2 % and 2 %. Not modelled: power-law degrees, labels
that change, vertices that leave, and triangles.
"""

from dataclasses import dataclass
from itertools import product
from pathlib import Path

import numpy as np
import torch

from fedsim.core import portable, seeds
from fedsim.core.units import Count, Fraction
from fedsim.data.drawn_edges import Kind
from fedsim.data.graph import Graph
from fedsim.data.temporal import DynamicDataset, Floats, Ints, evolving


@dataclass(frozen=True)
class Drifting(DynamicDataset):
    """A graph of any size; `vertices` and `edges` (undirected) are those of the last snapshot."""

    vertices: Count = 1000  # in the last snapshot
    edges: Count = 4000  # undirected edges in the last snapshot
    classes: Count = 5  # number of classes
    features: Count = 32  # number of features per vertex
    snapshots: Count = 10  # number of snapshots
    growth: Fraction = 0.5  # share of the vertices that join after the first snapshot
    removal: Fraction = 0.1  # share of the edges removed in each later snapshot
    renewal: Fraction = 0.1  # share of the vertices with new features in each later snapshot
    drift: float = 0.2  # step length of the random walks, per snapshot
    homophily: Fraction = 0.8  # share of edges within a class
    signal: float = 1.0  # length of a class's mean feature vector; the noise has standard deviation 1
    communities: Count = 1  # groups of vertices, initially of equal size, with few edges between them
    insularity: Fraction = 0.99  # share of the edges within a community, if there are several
    active: Fraction = 1.0  # share of the communities that change in each later snapshot

    def __post_init__(self) -> None:
        """Raise ValueError for options that make no sense."""
        if self.classes < 2 or self._there(0) < 2 * self.classes:
            raise ValueError("classes must be 2 or more, and the first snapshot's vertices at least twice as many")
        if not self.drift >= 0 or not self.signal >= 0:
            raise ValueError("drift and signal must be 0 or more")
        pairs = self.vertices * (self.vertices - 1) / 2
        if 4 * self.edges * self.vertices > pairs * self._there(0):
            raise ValueError("edges: too many for so few vertices; the graph must be sparse")
        if self.communities == 1 and self.active < 1:
            raise ValueError("active: one community is always active; give several communities, such as 100")
        if self._there(0) < 2 * self.classes * self.communities:
            raise ValueError("communities: too many; the first snapshot needs two vertices of each class in each")

    def load(self, root: Path, seed: int) -> Graph:
        """Return the graph of that seed; `root` is not used."""
        rng = seeds.generator(seed, "data.drifting")
        born = np.searchsorted([self._there(t) for t in range(self.snapshots)], np.arange(self.vertices), side="right")
        y = self._labels(born, rng)
        active = self._active(seed)
        town = self._towns(born, active, seed)
        ends, since, until = self._edges(y, town, active, rng)
        span = (0.0, float(self.snapshots))
        graph = evolving(ends, since, until, self.vertices, y=y, span=span, born=born.astype(np.float64))
        frames = torch.from_numpy(self._frames(y, born, active[:, town], rng))
        framed = torch.arange(self.snapshots, dtype=torch.float64)
        return Graph(**{**graph, "x": frames[-1].clone(), "frames": frames, "framed": framed})

    def _there(self, t: int) -> int:
        """Return how many vertices have joined by snapshot t; they have the lowest numbers."""
        late = round(self.vertices * self.growth)
        return self.vertices - late + (late * t // (self.snapshots - 1) if self.snapshots > 1 else late)

    def _active(self, seed: int) -> np.ndarray:
        """Return which communities change in each snapshot (S, C); all of them in the first one."""
        rng, count = seeds.generator(seed, "data.drifting.active"), max(1, round(self.active * self.communities))
        active = np.zeros((self.snapshots, self.communities), dtype=bool)
        for row in active[1:]:
            row[rng.permutation(self.communities)[:count]] = True
        active[0] = True
        return active

    def _towns(self, born: Ints, active: np.ndarray, seed: int) -> Ints:
        """Return the community (N,) of each vertex: in turn at first, then any of those that are active."""
        town: Ints = np.arange(self.vertices) % self.communities
        rng = seeds.generator(seed, "data.drifting.communities")
        for t in range(1, self.snapshots):
            new = born == t
            town[new] = rng.choice(np.flatnonzero(active[t]), int(new.sum()))
        return town

    def _labels(self, born: Ints, rng: np.random.Generator) -> Ints:
        steps = rng.standard_normal((self.snapshots, self.classes)) * self.drift
        steps[0] = 0  # all classes alike at first
        mix = portable.exp(steps.cumsum(0))
        mix = mix.cumsum(1) / mix.sum(1, keepdims=True)
        y: Ints = (rng.random(self.vertices)[:, None] > mix[born, :-1]).sum(1)
        y[: self.classes] = np.arange(self.classes)  # every class is present from the start
        return y

    def _frames(self, y: Ints, born: Ints, active: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        centre = _unit(rng.standard_normal((self.classes, self.features)))
        frames = np.zeros((self.snapshots, self.vertices, self.features), dtype=np.float32)
        for t, frame in enumerate(frames):
            frame[:] = frames[t - 1] if t else 0.0
            new = (
                born == t
                if t == 0
                else (born == t) | ((rng.random(self.vertices) < self.renewal) & (born < t) & active[t])
            )
            noise = rng.standard_normal((int(new.sum()), self.features), dtype=np.float32)
            frame[new] = noise + self.signal * centre[y[new]]
            centre = _unit(centre + self.drift * _unit(rng.standard_normal(centre.shape)))
        return frames

    def _edges(self, y: Ints, town: Ints, active: np.ndarray, rng: np.random.Generator) -> tuple[Ints, Floats, Floats]:
        """Return ends (2, E), since and until (E,) of all lifetimes of edges."""
        n, gone = self.vertices, []  # removed edges, and finally the remaining ones
        alive, since = np.empty(0, dtype=np.int64), np.empty(0)
        for t in range(self.snapshots):
            there = self._there(t)
            if t:
                go = (rng.random(len(alive)) < self.removal) & active[t, town[alive // n]] & active[t, town[alive % n]]
                gone.append((alive[go], since[go], np.full(int(go.sum()), float(t))))
                alive, since = alive[~go], since[~go]
            wanted = round(self.edges * there / n) - len(alive)
            pool = np.flatnonzero(active[t, town[:there]])
            for count, kind in self._kinds(wanted, pool, y, town):
                new = kind.draw(count, n, alive, rng)
                alive, since = np.concatenate([alive, new]), np.append(since, np.full(len(new), float(t)))
        gone.append((alive, since, np.full(len(alive), np.inf)))
        pair, begin, end = (np.concatenate(parts) for parts in zip(*gone, strict=True))
        return np.stack(np.divmod(pair, n)), begin, end

    def _kinds(self, wanted: int, pool: Ints, y: Ints, town: Ints) -> list[tuple[int, Kind]]:
        """Return how many edges of each kind to draw: within a community or not, within a class or not."""
        y, town, several = y[pool], town[pool], len(np.unique(town[pool])) > 1
        within = round(wanted * self.insularity) if several else wanted
        found = []
        for (count, near), same in product(((within, True), (wanted - within, False)), (True, False)):
            inside = round(count * self.homophily)
            block = town if near else np.zeros_like(town)
            kind = Kind(pool, block * self.classes + y, block, same, None if near else town)
            found.append((inside if same else count - inside, kind))
        return found if several else found[:2]


def _unit(rows: np.ndarray) -> np.ndarray:
    unit: np.ndarray = rows / np.linalg.norm(rows, axis=-1, keepdims=True)
    return unit
