"""Graphs of neighbours: rings, random graphs, and graphs from a file, as pairs of numbers from 0.

Sources: Erdős and Rényi 1959, Gilbert 1959 (each pair independently); Barabási and Albert 1999 (preferential
attachment, from a star of m + 1); Steger and Wormald 1999 (ends paired at random, those that do not fit
again).
"""

from pathlib import Path

import numpy as np

from fedsim.core import table
from fedsim.core.arrays import Ints
from fedsim.core.table import Column

DRAWS = 100  # tries until a random graph is connected
COLUMNS = (Column("a", low=0, whole=True), Column("b", low=0, whole=True))


def ring(count: int, degree: int) -> Ints:
    """Return a ring in which each node has `degree` neighbours, half on either side; `degree` is even."""
    start = np.arange(count)
    return np.concatenate([np.column_stack([start, (start + step) % count]) for step in range(1, degree // 2 + 1)])


def erdos_renyi(count: int, p: float, rng: np.random.Generator) -> Ints | None:
    """Return a connected graph that has each pair with probability p; None if none of DRAWS is connected."""
    for _ in range(DRAWS):
        rows = [np.flatnonzero(rng.random(count - 1 - i) < p) + i + 1 for i in range(count - 1)]
        pairs = np.column_stack([np.repeat(np.arange(count - 1), list(map(len, rows))), np.concatenate(rows)])
        if apart(pairs, count) is None:
            return pairs
    return None


def regular(count: int, degree: int, rng: np.random.Generator) -> Ints | None:
    """Return a connected graph in which each node has `degree` neighbours; None if none of DRAWS is one.

    `count` times `degree` is even, and `degree` below `count`.
    """
    for _ in range(DRAWS):
        pairs = _paired(count, degree, rng)
        if pairs is not None and apart(pairs, count) is None:
            return pairs
    return None


def _paired(count: int, degree: int, rng: np.random.Generator) -> Ints | None:
    """Pair ends at random, and those left over again, until none is left; None if no more pairs fit."""
    ends, pairs = np.repeat(np.arange(count), degree), set[tuple[int, int]]()
    while len(ends):
        left = list[int]()
        for pair in np.sort(rng.permutation(ends).reshape(-1, 2), axis=1).tolist():
            a, b = pair
            if a == b or (a, b) in pairs:
                left += pair
            else:
                pairs.add((a, b))
        if len(left) == len(ends):
            return None
        ends = np.array(left, dtype=np.int64)
    return np.array(sorted(pairs), dtype=np.int64).reshape(-1, 2)


def barabasi_albert(count: int, m: int, rng: np.random.Generator) -> Ints:
    """Return a graph in which each node after the first m + 1 is connected to m others, by their degrees."""
    pairs = [(0, other) for other in range(1, m + 1)]
    ends = [end for pair in pairs for end in pair]  # each node once per edge
    for new in range(m + 1, count):
        chosen = dict[int, None]()
        while len(chosen) < m:
            chosen[ends[int(rng.integers(len(ends)))]] = None
        pairs += [(new, old) for old in chosen]
        ends += [*chosen, *[new] * m]
    return np.array(pairs, dtype=np.int64)


def from_file(path: Path, count: int) -> Ints:
    """Return the edges in a CSV file with the columns a and b; UserError for a number that is no client's."""
    columns, lines = table.read_lines(path, COLUMNS)
    pairs = np.column_stack([columns["a"], columns["b"]])
    for line, (a, b) in zip(lines.tolist(), pairs.tolist(), strict=True):
        if a == b:
            raise table.fault(path, line, f"client {a} is connected with itself; remove the line")
        if max(a, b) >= count:
            known = f"they are numbered from 0 to {count - 1}"
            message = f"there is no client {max(a, b)}: {known}; correct it, or clients.count"
            raise table.fault(path, line, message)
    return pairs


def neighbours(pairs: Ints, count: int) -> list[tuple[int, ...]]:
    """Return each node's neighbours, ascending; no node is its own neighbour."""
    near: list[set[int]] = [set() for _ in range(count)]
    for a, b in pairs.tolist():
        if a != b:
            near[a].add(b)
            near[b].add(a)
    return [tuple(sorted(each)) for each in near]


def apart(pairs: Ints, count: int) -> int | None:
    """Return the lowest node that is not reachable from 0; None if the graph is connected."""
    near, seen, fresh = neighbours(pairs, count), {0}, {0}
    while fresh := {other for node in fresh for other in near[node]} - seen:
        seen |= fresh
    return min(set(range(count)) - seen, default=None)
