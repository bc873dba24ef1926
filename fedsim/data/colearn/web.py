"""Web: an undirected graph as compressed rows, with breadth-first search level by level.

It counts the entries of its rows that were read, which is a partitioner's work.  Not modelled: weights and features.
"""

from dataclasses import dataclass, field

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components


@dataclass
class Tally:
    """A partitioner's work so far."""

    scanned: int = 0  # entries of adjacency rows read, each direction of an edge counted
    moves: int = 0  # vertices that the secondary stage has moved


@dataclass(frozen=True)
class Web:
    """`starts` (N+1,) int64 and `ends` (E,) int64: the neighbours of v are ends[starts[v]:starts[v+1]], ascending."""

    starts: np.ndarray
    ends: np.ndarray
    tally: Tally = field(default_factory=Tally, compare=False)

    @property
    def size(self) -> int:
        """The number of vertices."""
        return len(self.starts) - 1

    @property
    def degree(self) -> np.ndarray:
        """The number of neighbours (N,) of each vertex."""
        return np.diff(self.starts)

    def degree_of(self, vertex: int) -> int:
        """Return the number of neighbours of one vertex."""
        return int(self.starts[vertex + 1] - self.starts[vertex])

    def row(self, vertex: int) -> np.ndarray:
        """Return the neighbours of one vertex."""
        found = self.ends[self.starts[vertex] : self.starts[vertex + 1]]
        self.tally.scanned += len(found)
        return found

    def around(self, vertices: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the neighbours of all these vertices, and for each the index of its vertex in `vertices`."""
        count = self.starts[vertices + 1] - self.starts[vertices]
        at = np.repeat(np.arange(len(vertices)), count)
        before = np.cumsum(count) - count
        pick = np.arange(len(at)) + (self.starts[vertices] - before)[at]
        self.tally.scanned += len(at)
        return at, self.ends[pick]

    def distances(self, start: int) -> np.ndarray:
        """Return each vertex's distance (N,) int64 from the start, -1 where it cannot be reached."""
        found = self.nearer(start, np.full(self.size, self.size, dtype=np.int64))
        return np.where(found < self.size, found, -1)

    def nearer(self, start: int, known: np.ndarray) -> np.ndarray:
        """Return the smaller (N,) of each vertex's distance from the start and its known distance to others.

        The search stops where the start is not nearer: nothing behind a vertex that is nearer to another one can be
        nearest to the start.
        """
        found, place = known.copy(), np.empty(self.size, dtype=np.int64)
        found[start], level, frontier = 0, 0, np.array([start])
        while len(frontier):
            level += 1
            _, near = self.around(frontier)
            near = near[found[near] > level]
            found[near] = level
            order = np.arange(len(near))
            place[near] = order  # the last repeat is kept
            frontier = near[place[near] == order]
        return found


def web_of(edges: np.ndarray, vertices: int, tally: Tally | None = None) -> Web:
    """Return the web of edges (2, E) that hold both directions, without self loops and repeats."""
    source, target = edges
    key = source * vertices + target
    if len(key) and not (np.diff(key) > 0).all():
        key = np.sort(key)  # np.unique uses a hash table, which is ten times as slow
        source, target = np.divmod(key[np.append(True, np.diff(key) > 0)], vertices)
    starts = np.concatenate([[0], np.cumsum(np.bincount(source, minlength=vertices))]).astype(np.int64)
    return Web(starts, np.ascontiguousarray(target, dtype=np.int64), tally or Tally())


def chained(web: Web) -> Web:
    """Return the web with synthetic edges that make one component of all vertices that have a neighbour.

    Components are chained in the order of their lowest vertices, by an edge between these.  Vertices without a
    neighbour stay alone.  The synthetic edges guide a search and must never be counted as edges.
    """
    shape = (web.size, web.size)
    matrix = csr_array((np.ones(len(web.ends), dtype=np.int8), web.ends, web.starts), shape=shape)
    _, member = connected_components(matrix, directed=False)
    web.tally.scanned += len(web.ends)
    _, first = np.unique(member, return_index=True)
    first = np.sort(first[web.degree[first] > 0])
    if len(first) < 2:
        return web
    source = np.repeat(np.arange(web.size), web.degree)
    ends = [np.concatenate([source, first[:-1], first[1:]]), np.concatenate([web.ends, first[1:], first[:-1]])]
    return web_of(np.stack(ends), web.size, web.tally)
