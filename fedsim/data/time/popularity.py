"""Events between nodes of given popularity, for stand-ins of published graphs that are too large.

The node of rank i among n has the weight least · (n / (i − ½))^(1/α), where α makes the weights add up to the
wanted total.  Every node occurs once at first.  Then an event repeats the pair of an earlier one, drawn
uniformly, with probability ρ, and otherwise joins two nodes drawn by weight.  ρ is found by bisection so that
the *surprise* is as wanted: the distinct pairs of the last 15 % of the events that did not occur before, over
the number of those events (Poursafaei et al., NeurIPS 2022).

Not modelled: communities, bursts, and whatever else makes links predictable.  Fit for measuring cost, not
accuracy.
"""

from dataclasses import dataclass

import numpy as np

from fedsim.core.arrays import Floats, Ints

TEST = 0.15  # the last share of the events, in which surprise is counted
HALVINGS = 24  # of an interval that holds α or ρ


def weights(nodes: int, least: float, total: float) -> Floats:
    """Return the weights (n,), descending, that add up to the total within a thousandth.

    Raises ValueError for a total that is below n times the least.
    """
    if total < nodes * least:
        raise ValueError(f"{nodes} nodes of weight {least:g} or more add up to more than {total:g}")
    base = nodes / (np.arange(1, nodes + 1) - 0.5)
    low, high = 0.0, 1.0  # of 1 / α
    while least * (base**high).sum() < total:
        high *= 2
    for _ in range(2 * HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if least * (base**middle).sum() < total else (low, middle)
    return least * base**high


def zipf(nodes: int, total: float) -> Floats:
    """Return weights (n,) in proportion to 1 / rank."""
    shares = 1 / np.arange(1, nodes + 1)
    scaled: Floats = total * shares / shares.sum()
    return scaled


@dataclass(frozen=True)
class Popularity:
    """The weights of an event's sources and of its targets, `apart` if these are other nodes."""

    sources: Floats
    targets: Floats
    apart: bool

    @property
    def nodes(self) -> int:
        """The number of nodes; those of `targets` follow those of `sources` if they are others."""
        return len(self.sources) + (len(self.targets) if self.apart else 0)

    def firsts(self, rng: np.random.Generator) -> Ints:
        """Return pairs (2, n') in which every node occurs."""
        sources = rng.permutation(len(self.sources))
        if not self.apart:
            return np.stack([sources[: (len(sources) + 1) // 2], sources[len(sources) // 2 :]])
        count = max(len(self.sources), len(self.targets))
        other = len(self.sources) + rng.permutation(len(self.targets))
        return np.stack([np.resize(sources, count), np.resize(other, count)])

    def drawn(self, count: int, rng: np.random.Generator) -> Ints:
        """Return pairs (2, count) of unlike nodes, drawn by weight."""
        source, target = _by_weight(self.sources, count, rng), _by_weight(self.targets, count, rng)
        if self.apart:
            return np.stack([source, target + len(self.sources)])
        return np.stack([source, np.where(source == target, (target + 1) % len(self.targets), target)])


def _by_weight(weights_of: Floats, count: int, rng: np.random.Generator) -> Ints:
    bounds = np.cumsum(weights_of)
    places: Ints = np.searchsorted(bounds, rng.random(count) * bounds[-1], side="right").clip(max=len(bounds) - 1)
    return places


def pairs(who: Popularity, count: int, surprise: float, rng: np.random.Generator) -> Ints:
    """Return pairs (2, count) in order of time, of that surprise or the nearest that can be.

    Raises ValueError if there are too few events for every node to occur.
    """
    first = who.firsts(rng)
    if first.shape[1] > count:
        raise ValueError(f"{count} events are too few for each of {who.nodes} nodes to occur")
    ends = np.concatenate([first, who.drawn(count - first.shape[1], rng)], axis=1)
    chance = rng.random(count)
    chance[: first.shape[1]] = np.inf  # these are never repeats
    low, high = 0.0, 1.0
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        reached = surprise_of(ends[:, chance >= middle], np.flatnonzero(chance >= middle), count)
        low, high = (middle, high) if reached > surprise else (low, middle)
        if abs(reached - surprise) < 1e-3:
            high = middle
            break
    return ends[:, _origins(np.flatnonzero(chance < high), count, rng)]


def surprise_of(ends: Ints, at: Ints, count: int) -> float:
    """Return the surprise of `count` events, of which those at places (m,) have pairs (2, m) of their own.

    All others are taken to repeat one of them.
    """
    key = ends[0] * (int(ends.max(initial=0)) + 1) + ends[1]
    border = count - round(TEST * count)
    before, after = np.unique(key[at < border]), np.unique(key[at >= border])
    place = np.searchsorted(before, after).clip(max=max(0, len(before) - 1))
    known = before[place] == after if len(before) else np.zeros(len(after), dtype=bool)
    return float((~known).sum()) / max(1, count - border)


def _origins(repeats: Ints, count: int, rng: np.random.Generator) -> Ints:
    """Return whose pair each event has (count,): its own, or through other repeats that of an earlier event."""
    origin = np.arange(count)
    origin[repeats] = np.floor(rng.random(len(repeats)) * repeats).astype(np.int64)
    while True:  # repeats of repeats: each pass halves the longest chain
        further = origin[origin]
        if np.array_equal(further, origin):
            return origin
        origin = further


def instants(count: int, ticks: int, span: tuple[int, int], rng: np.random.Generator) -> Ints:
    """Return times (count,) in whole seconds, ascending, of `ticks` distinct values if there are so many."""
    start, end = span
    distinct = start + np.sort(_distinct(min(ticks, end - start), end - start, rng))
    further = rng.integers(0, len(distinct), max(0, count - len(distinct)))
    times: Ints = np.sort(np.concatenate([distinct, distinct[further]]))
    return times[:count]


def _distinct(count: int, below: int, rng: np.random.Generator) -> Ints:
    """Return so many distinct numbers below a bound."""
    if count * 2 > below:
        return rng.permutation(below)[:count]
    drawn = np.unique(rng.integers(0, below, int(count * 1.1) + 10))
    while len(drawn) < count:
        drawn = np.unique(np.concatenate([drawn, rng.integers(0, below, count)]))
    return rng.permutation(drawn)[:count]
