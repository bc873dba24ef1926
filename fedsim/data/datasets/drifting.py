"""A labelled graph that grows and drifts, drawn from the run's seed: a planted partition whose parts change.

Snapshot k is the seconds from k to k + 1 (`steps` of the stream is `snapshots`).  A share `growth` of the vertices
joins after the first snapshot, evenly.  Labels are drawn when a vertex joins, from a mix of the classes whose logits
walk at random, and features as a class's unit vector times `signal` plus standard normal noise, where the vectors walk
at random too; in each later snapshot a share `renewal` of the vertices there draws its features anew.  Of the edges a
share `removal` goes in each later snapshot, and as many come as keep their number in proportion to the vertices that
are there; ends are uniform, of one class in a share `homophily` of them.  Drawing costs O(S (N F + E log E)).
It does not model degrees of a power law, labels that change, vertices that leave, or triangles.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from fedsim import seeds
from fedsim.data.graph import Graph
from fedsim.data.temporal import DynamicDataset, Floats, Ints, evolving
from fedsim.errors import Problem, ScenarioError
from fedsim.units import Count, Fraction

TRIES = 60  # times that what is missing is drawn again


@dataclass(frozen=True)
class Drifting(DynamicDataset):
    """A graph of any size; `vertices` and `edges` (undirected) are those of the last snapshot."""

    vertices: Count = 1000
    edges: Count = 4000
    classes: Count = 5
    features: Count = 32
    snapshots: Count = 10
    growth: Fraction = 0.5  # share of the vertices that join after the first snapshot
    removal: Fraction = 0.1  # share of the edges that go in each later snapshot
    renewal: Fraction = 0.1  # share of the vertices with new features in each later snapshot
    drift: float = 0.2  # length of a step of the walks, a snapshot
    homophily: Fraction = 0.8  # share of edges within a class
    signal: float = 1.0  # length of a class's mean feature vector; the noise has standard deviation 1

    def __post_init__(self) -> None:
        """Refuse options that have no meaning."""
        if self.classes < 2 or self._there(0) < 2 * self.classes:
            raise ValueError("classes must be 2 or more, and the first snapshot's vertices at least twice as many")
        if not self.drift >= 0 or not self.signal >= 0:
            raise ValueError("drift and signal must be 0 or more")
        pairs = self.vertices * (self.vertices - 1) / 2
        if 4 * self.edges * self.vertices > pairs * self._there(0):
            raise ValueError("edges: too many for so few vertices; the graph must be sparse")

    def load(self, root: Path, seed: int) -> Graph:
        """Return the graph of that seed; `root` is not used."""
        rng = seeds.generator(seed, "data.drifting")
        born = np.searchsorted([self._there(t) for t in range(self.snapshots)], np.arange(self.vertices), side="right")
        y = self._labels(born, rng)
        ends, since, until = self._edges(y, rng)
        span = (0.0, float(self.snapshots))
        graph = evolving(ends, since, until, self.vertices, y=y, span=span, born=born.astype(np.float64))
        frames = torch.from_numpy(self._frames(y, born, rng))
        framed = torch.arange(self.snapshots, dtype=torch.float64)
        return Graph(**{**graph, "x": frames[-1].clone(), "frames": frames, "framed": framed})

    def _there(self, t: int) -> int:
        """Return how many vertices have joined by snapshot t: those of the lowest numbers."""
        late = round(self.vertices * self.growth)
        return self.vertices - late + (late * t // (self.snapshots - 1) if self.snapshots > 1 else late)

    def _labels(self, born: Ints, rng: np.random.Generator) -> Ints:
        steps = rng.standard_normal((self.snapshots, self.classes)) * self.drift
        steps[0] = 0  # all classes alike at first
        mix = np.exp(steps.cumsum(0))
        mix = mix.cumsum(1) / mix.sum(1, keepdims=True)
        y: Ints = (rng.random(self.vertices)[:, None] > mix[born, :-1]).sum(1)
        y[: self.classes] = np.arange(self.classes)  # every class is there from the start
        return y

    def _frames(self, y: Ints, born: Ints, rng: np.random.Generator) -> np.ndarray:
        centre = _unit(rng.standard_normal((self.classes, self.features)))
        frames = np.zeros((self.snapshots, self.vertices, self.features), dtype=np.float32)
        for t, frame in enumerate(frames):
            frame[:] = frames[t - 1] if t else 0.0
            new = born == t if t == 0 else (born == t) | ((rng.random(self.vertices) < self.renewal) & (born < t))
            noise = rng.standard_normal((int(new.sum()), self.features), dtype=np.float32)
            frame[new] = noise + self.signal * centre[y[new]]
            centre = _unit(centre + self.drift * _unit(rng.standard_normal(centre.shape)))
        return frames

    def _edges(self, y: Ints, rng: np.random.Generator) -> tuple[Ints, Floats, Floats]:
        """Return ends (2, E), since and until (E,) of all stretches of life."""
        n, gone = self.vertices, []  # what has gone, and at last what has not
        alive, since = np.empty(0, dtype=np.int64), np.empty(0)
        for t in range(self.snapshots):
            there = self._there(t)
            if t:
                go = rng.random(len(alive)) < self.removal
                gone.append((alive[go], since[go], np.full(int(go.sum()), float(t))))
                alive, since = alive[~go], since[~go]
            wanted = round(self.edges * there / n) - len(alive)
            inside = round(wanted * self.homophily)
            for count, same in ((inside, True), (wanted - inside, False)):
                new = _distinct(count, y[:there], n, alive, same, rng)
                alive, since = np.concatenate([alive, new]), np.append(since, np.full(len(new), float(t)))
        gone.append((alive, since, np.full(len(alive), np.inf)))
        pair, begin, end = (np.concatenate(parts) for parts in zip(*gone, strict=True))
        return np.stack(np.divmod(pair, n)), begin, end


def _unit(rows: np.ndarray) -> np.ndarray:
    unit: np.ndarray = rows / np.linalg.norm(rows, axis=-1, keepdims=True)
    return unit


def _distinct(count: int, y: Ints, n: int, alive: Ints, same: bool, rng: np.random.Generator) -> Ints:
    """Return that many different pairs a < b as a·n + b that are not alive, of one class or of two.

    Raises ScenarioError where so many could not be drawn.
    """
    order = np.argsort(y, kind="stable")
    sizes = np.bincount(y)
    begin = np.cumsum(sizes) - sizes
    taken, found = np.sort(alive), np.empty(0, dtype=np.int64)
    for _ in range(TRIES):
        missing = count - len(found)
        if missing <= 0:
            return found
        a = rng.integers(len(y), size=int(1.2 * missing) + 8)
        spin = rng.random(len(a))
        if same:  # uniform among the members of a's class
            b = order[begin[y[a]] + (spin * sizes[y[a]]).astype(np.int64)]
        else:  # uniform among all that come after a's class in a circle
            rest = len(y) - sizes[y[a]]
            b = order[(begin[y[a]] + sizes[y[a]] + (spin * rest).astype(np.int64)) % len(y)]
        pairs = np.unique((np.minimum(a, b) * n + np.maximum(a, b))[a != b])
        for known in (taken, np.sort(found)):
            if len(known):
                at = np.minimum(np.searchsorted(known, pairs), len(known) - 1)
                pairs = pairs[known[at] != pairs]
        found = np.concatenate([found, rng.permutation(pairs)[:missing]])
    told = "so many different ones could not be drawn; take fewer, or another homophily"
    raise ScenarioError([Problem("data.dataset.edges", told)])
