"""A labelled graph that grows and drifts, generated from the run's seed: a planted partition that changes.

Snapshot k is the seconds from k to k + 1 (`steps` of the stream is `snapshots`).  A share `growth` of the
nodes joins after the first snapshot, evenly.  Labels are drawn when a node joins, from a mix of the classes
whose logits follow a random walk, and features as a class's unit vector times `signal` plus standard normal
noise, where the vectors follow a random walk too; in each later snapshot a share `renewal` of its nodes get
new features.  A share `removal` of the edges is removed in each later snapshot, and edges are added to keep
their number in proportion to the nodes; ends are uniform, of one class in a share `homophily` of the edges.
Drawing costs O(S (N F + E log E)).

With `communities` a share `insularity` of the edges lies within one community.  Each later snapshot draws a
share `active` of them (one at least), and all changes happen there: new edges end, and nodes join, in active
communities only. So the active ones grow larger than the others.  Without communities change is everywhere:
if nodes have 10 neighbours, those touched by 1 % of new edges are a tenth of all, and 99 % are within two
edges of them; with 400 communities, 1 % of them active and an insularity of 0.999, it is 2 % and 2 %. Not
modelled: power-law degrees, labels that change, nodes that leave, and triangles.
"""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import torch
from pydantic import NonNegativeFloat

from fedsim.core import portable, seeds
from fedsim.core.arrays import Floats, Ints
from fedsim.core.errors import ScenarioError
from fedsim.core.units import Count, Fraction
from fedsim.data.graph import Graph, with_keys
from fedsim.data.time.temporal import DynamicDataset, evolving

TRIES = 60  # times that missing edges are redrawn


@dataclass(frozen=True, eq=False)
class EdgeKind:
    """Which two of the nodes `pool` (n,) an edge may join; `group` and `block` (n,) give the place of each.

    A block consists of whole groups, numbered one block after the other.  Both ends are in one block: in one
    group if `same`, else in two of them.  Where `apart` (n,) is given, they differ in it.
    """

    pool: Ints
    group: Ints
    block: Ints
    same: bool
    apart: Ints | None = None

    @cached_property
    def _order(self) -> Ints:
        return np.lexsort((self.group, self.block))

    def draw(self, count: int, nodes: int, alive: Ints, rng: np.random.Generator) -> Ints:
        """Return that many different pairs a < b, as a times `nodes` + b, that are not among those `alive`.

        Raises ScenarioError if that many could not be drawn.
        """
        taken, pairs = np.sort(alive), np.empty(0, dtype=np.int64)
        for _ in range(TRIES):
            missing = count - len(pairs)
            if missing <= 0:
                return pairs
            a, b = self._ends(int(1.2 * missing) + 8, rng)
            new = np.unique(np.minimum(a, b) * nodes + np.maximum(a, b))
            new = _without(_without(new, taken), np.sort(pairs))
            pairs = np.concatenate([pairs, rng.permutation(new)[:missing]])
        message = "not enough different edges could be drawn; give fewer, or another homophily"
        raise ScenarioError.at("data.dataset.edges", message)

    def _ends(self, count: int, rng: np.random.Generator) -> tuple[Ints, Ints]:
        """Return at most `count` pairs of ends that fit, possibly with repeats."""
        if not len(self.pool):
            return self.pool, self.pool
        a = rng.integers(len(self.pool), size=count)
        spin = rng.random(count)
        first, size = _stretches(self.group)
        begin, many = first[a], size[a]
        if not self.same:  # uniform among all after a's group in the block, cyclically
            start, whole = _stretches(self.block)
            begin, many = begin + many - start[a], whole[a] - many
        place = begin + (spin * many).astype(np.int64)
        if not self.same:
            place = start[a] + place % whole[a]
        b = self._order[place]
        fits = (a != b) & (many > 0)
        if self.apart is not None:
            fits &= self.apart[a] != self.apart[b]
        return self.pool[a[fits]], self.pool[b[fits]]


def _without(values: Ints, known: Ints) -> Ints:
    """Return the values that are not among the known ones, which are sorted."""
    if not len(known):
        return values
    others: Ints = values[known[np.minimum(np.searchsorted(known, values), len(known) - 1)] != values]
    return others


def _stretches(label: Ints) -> tuple[Ints, Ints]:
    """Return where each one's label starts among the sorted labels, and how many share it: (n,) each."""
    size = np.bincount(label)
    return (np.cumsum(size) - size)[label], size[label]


@dataclass(frozen=True)
class Drifting(DynamicDataset):
    """A graph of any size; `nodes` and `edges` (undirected) are those of the last snapshot."""

    nodes: Count = 1000  # in the last snapshot
    edges: Count = 4000  # undirected edges in the last snapshot
    classes: Count = 5  # number of classes
    features: Count = 32  # number of features per node
    snapshots: Count = 10  # number of snapshots
    growth: Fraction = 0.5  # share of the nodes that join after the first snapshot
    removal: Fraction = 0.1  # share of the edges removed in each later snapshot
    renewal: Fraction = 0.1  # share of the nodes with new features in each later snapshot
    drift: NonNegativeFloat = 0.2  # step length of the random walks, per snapshot
    homophily: Fraction = 0.8  # share of edges within a class
    signal: NonNegativeFloat = 1.0  # length of a class's mean feature vector; the noise has standard deviation 1
    communities: Count = 1  # groups of nodes, initially of equal size, with few edges between them
    insularity: Fraction = 0.99  # share of the edges within a community, if there are several
    active: Fraction = 1.0  # share of the communities that change in each later snapshot

    def __post_init__(self) -> None:
        """Raise ValueError for options that make no sense."""
        if self.classes < 2 or self._there(0) < 2 * self.classes:
            raise ValueError("classes must be 2 or more, and the first snapshot's nodes at least twice as many")
        pairs = self.nodes * (self.nodes - 1) / 2
        if 4 * self.edges * self.nodes > pairs * self._there(0):
            raise ValueError("edges: too many for so few nodes; the graph must be sparse")
        if self.communities == 1 and self.active < 1:
            raise ValueError("active: one community is always active; give several communities, such as 100")
        if self._there(0) < 2 * self.classes * self.communities:
            raise ValueError("communities: too many; the first snapshot needs two nodes of each class in each")

    def load(self, root: Path, seed: int) -> Graph:
        """Return the graph of that seed; `root` is not used."""
        rng = seeds.generator(seed, "data.drifting")
        born = np.searchsorted([self._there(t) for t in range(self.snapshots)], np.arange(self.nodes), side="right")
        y = self._labels(born, rng)
        active = self._active(seed)
        town = self._towns(born, active, seed)
        ends, since, until = self._edges(y, town, active, rng)
        span = (0.0, float(self.snapshots))
        graph = evolving(ends, since, until, self.nodes, y=y, span=span, born=born.astype(np.float64))
        frames = torch.from_numpy(self._frames(y, born, active[:, town], rng))
        framed = torch.arange(self.snapshots, dtype=torch.float64)
        return with_keys(graph, {"x": frames[-1].clone(), "frames": frames, "framed": framed})

    def _there(self, t: int) -> int:
        """Return how many nodes have joined by snapshot t; they have the lowest numbers."""
        late = round(self.nodes * self.growth)
        return self.nodes - late + (late * t // (self.snapshots - 1) if self.snapshots > 1 else late)

    def _active(self, seed: int) -> np.ndarray:
        """Return which communities change in each snapshot (S, C); all of them in the first one."""
        rng, count = seeds.generator(seed, "data.drifting.active"), max(1, round(self.active * self.communities))
        active = np.zeros((self.snapshots, self.communities), dtype=bool)
        for row in active[1:]:
            row[rng.permutation(self.communities)[:count]] = True
        active[0] = True
        return active

    def _towns(self, born: Ints, active: np.ndarray, seed: int) -> Ints:
        """Return the community (N,) of each node: in turn at first, then any of those that are active."""
        town: Ints = np.arange(self.nodes) % self.communities
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
        y: Ints = (rng.random(self.nodes)[:, None] > mix[born, :-1]).sum(1)
        y[: self.classes] = np.arange(self.classes)  # every class is present from the start
        return y

    def _frames(self, y: Ints, born: Ints, active: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        centre = _unit(rng.standard_normal((self.classes, self.features)))
        frames = np.zeros((self.snapshots, self.nodes, self.features), dtype=np.float32)
        for t, frame in enumerate(frames):
            frame[:] = frames[t - 1] if t else 0.0
            new = born == t
            if t:
                new |= (rng.random(self.nodes) < self.renewal) & (born < t) & active[t]
            noise = rng.standard_normal((int(new.sum()), self.features), dtype=np.float32)
            frame[new] = noise + self.signal * centre[y[new]]
            centre = _unit(centre + self.drift * _unit(rng.standard_normal(centre.shape)))
        return frames

    def _edges(self, y: Ints, town: Ints, active: np.ndarray, rng: np.random.Generator) -> tuple[Ints, Floats, Floats]:
        """Return ends (2, E), since and until (E,) of all lifetimes of edges."""
        n, gone = self.nodes, []  # removed edges, and finally the remaining ones
        alive, since = np.empty(0, dtype=np.int64), np.empty(0)
        for t in range(self.snapshots):
            present = self._there(t)
            if t:
                go = (rng.random(len(alive)) < self.removal) & active[t, town[alive // n]] & active[t, town[alive % n]]
                gone.append((alive[go], since[go], np.full(int(go.sum()), float(t))))
                alive, since = alive[~go], since[~go]
            wanted = round(self.edges * present / n) - len(alive)
            for count, kind in self._kinds(wanted, np.flatnonzero(active[t, town[:present]]), y, town):
                new = kind.draw(count, n, alive, rng)
                alive, since = np.concatenate([alive, new]), np.append(since, np.full(len(new), float(t)))
        gone.append((alive, since, np.full(len(alive), np.inf)))
        pair, begin, end = (np.concatenate(parts) for parts in zip(*gone, strict=True))
        return np.stack(np.divmod(pair, n)), begin, end

    def _kinds(self, wanted: int, pool: Ints, y: Ints, town: Ints) -> list[tuple[int, EdgeKind]]:
        """Return how many edges of each kind to draw: within a community or not, within a class or not."""
        y, town, several = y[pool], town[pool], len(np.unique(town[pool])) > 1
        within = round(wanted * self.insularity) if several else wanted
        kinds = []
        for count, near in ((within, True), (wanted - within, False))[: 1 + several]:
            inside = round(count * self.homophily)
            block = town if near else np.zeros_like(town)
            for number, same in ((inside, True), (count - inside, False)):
                apart = None if near else town
                kinds.append((number, EdgeKind(pool, block * self.classes + y, block, same, apart)))
        return kinds


def _unit(rows: np.ndarray) -> np.ndarray:
    unit: np.ndarray = rows / np.linalg.norm(rows, axis=-1, keepdims=True)
    return unit
