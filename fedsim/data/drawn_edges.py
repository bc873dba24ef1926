"""Draw edges of a generated graph: distinct uniform pairs of vertices that share a group or a block.

An edge's first end is uniform, and the second uniform among those that fit it.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from fedsim.core.errors import Problem, ScenarioError
from fedsim.data.temporal import Ints

TRIES = 60  # times that missing edges are redrawn


@dataclass(frozen=True, eq=False)
class Kind:
    """Which two of the vertices `pool` (n,) an edge may join; `group` and `block` (n,) give the place of each.

    A block consists of whole groups, numbered one block after the other.  Both ends are in one block: in one group
    if `same`, else in two of them.  Where `apart` (n,) is given, they differ in it.
    """

    pool: Ints
    group: Ints
    block: Ints
    same: bool
    apart: Ints | None = None

    @cached_property
    def _order(self) -> Ints:
        return np.lexsort((self.group, self.block))

    def draw(self, count: int, vertices: int, alive: Ints, rng: np.random.Generator) -> Ints:
        """Return that many different pairs a < b, as a times `vertices` + b, that are not among those `alive`.

        Raises ScenarioError if that many could not be drawn.
        """
        taken, found = np.sort(alive), np.empty(0, dtype=np.int64)
        for _ in range(TRIES):
            missing = count - len(found)
            if missing <= 0:
                return found
            a, b = self._ends(int(1.2 * missing) + 8, rng)
            pairs = np.unique(np.minimum(a, b) * vertices + np.maximum(a, b))
            for known in (taken, np.sort(found)):
                if len(known):
                    at = np.minimum(np.searchsorted(known, pairs), len(known) - 1)
                    pairs = pairs[known[at] != pairs]
            found = np.concatenate([found, rng.permutation(pairs)[:missing]])
        message = "not enough different edges could be drawn; give fewer, or another homophily"
        raise ScenarioError([Problem("data.dataset.edges", message)])

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


def _stretches(label: Ints) -> tuple[Ints, Ints]:
    """Return where each one's label starts among the sorted labels, and how many share it: (n,) each."""
    size = np.bincount(label)
    return (np.cumsum(size) - size)[label], size[label]
