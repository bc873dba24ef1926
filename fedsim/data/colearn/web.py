"""Web: an undirected graph as compressed rows, breadth-first search by levels, and seeds that lie far apart.

It counts the entries of its rows that were read, which is a partitioner's work.  Not modelled: weights and
features.

Of the seeds, from which parts grow, the farthest pair comes first, then repeatedly the node whose nearest
seed is farthest.  By default the pair is that of a double sweep: the node farthest from the lowest one, and
the node farthest from that; exact on trees, a lower bound elsewhere.  All ties go to the lowest node.
"""

from dataclasses import dataclass, field

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components


@dataclass
class Tally:
    """A partitioner's work so far."""

    scanned: int = 0  # entries of adjacency rows read, each direction of an edge counted
    moves: int = 0  # nodes that the secondary stage has moved


@dataclass(frozen=True)
class Web:
    """The neighbours of v are ends[starts[v]:starts[v+1]], ascending; `starts` (N+1,), `ends` (E,) int64."""

    starts: np.ndarray
    ends: np.ndarray
    tally: Tally = field(default_factory=Tally, compare=False)

    @property
    def size(self) -> int:
        """The number of nodes."""
        return len(self.starts) - 1

    @property
    def degree(self) -> np.ndarray:
        """The number of neighbours (N,) of each node."""
        return np.diff(self.starts)

    def degree_of(self, node: int) -> int:
        """Return the number of neighbours of one node."""
        return int(self.starts[node + 1] - self.starts[node])

    def row(self, node: int) -> np.ndarray:
        """Return the neighbours of one node."""
        neighbours = self.ends[self.starts[node] : self.starts[node + 1]]
        self.tally.scanned += len(neighbours)
        return neighbours

    def around(self, nodes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return, for each neighbour of these nodes, the index of its node in `nodes`, and the neighbour."""
        count = self.starts[nodes + 1] - self.starts[nodes]
        at = np.repeat(np.arange(len(nodes)), count)
        before = np.cumsum(count) - count
        pick = np.arange(len(at)) + (self.starts[nodes] - before)[at]
        self.tally.scanned += len(at)
        return at, self.ends[pick]

    def distances(self, start: int) -> np.ndarray:
        """Return each node's distance (N,) int64 from the start, -1 where it cannot be reached."""
        distance = self.nearer(start, np.full(self.size, self.size, dtype=np.int64))
        return np.where(distance < self.size, distance, -1)

    def nearer(self, start: int, known: np.ndarray) -> np.ndarray:
        """Return the smaller (N,) of each node's distance from the start and its known distance to others.

        The search stops where the start is not nearer: nothing behind a node that is nearer to another one
        can be nearest to the start.
        """
        distance, place = known.copy(), np.empty(self.size, dtype=np.int64)
        distance[start] = level = 0
        frontier = np.array([start])
        while len(frontier):
            level += 1
            _, near = self.around(frontier)
            near = near[distance[near] > level]
            distance[near] = level
            order = np.arange(len(near))
            place[near] = order  # the last repeat is kept
            frontier = near[place[near] == order]
        return distance


def web_of(edges: np.ndarray, nodes: int, tally: Tally | None = None) -> Web:
    """Return the web of edges (2, E) that hold both directions, without self loops and repeats."""
    source, target = edges
    key = source * nodes + target
    if len(key) and not (np.diff(key) > 0).all():
        key = np.sort(key)  # np.unique uses a hash table, which is ten times as slow
        source, target = np.divmod(key[np.append(True, np.diff(key) > 0)], nodes)
    starts = np.concatenate([[0], np.cumsum(np.bincount(source, minlength=nodes))]).astype(np.int64)
    return Web(starts, np.ascontiguousarray(target, dtype=np.int64), tally or Tally())


def chained(web: Web) -> Web:
    """Return the web with synthetic edges that make one component of all nodes that have a neighbour.

    Components are chained in the order of their lowest nodes, by an edge between these.  Nodes without a
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


def seeds_of(web: Web, count: int, exact: bool = False) -> np.ndarray:
    """Return that many different seeds of a connected web, in the order in which they are found.

    Nodes without a neighbour are never chosen, so there may be fewer.  The cost is two searches and, for each
    further seed, one of what is nearest to it; where `exact`, a search from every node.
    """
    able = np.flatnonzero(web.degree > 0)
    count = min(count, len(able))
    if not count:
        return np.empty(0, dtype=np.int64)
    if exact:  # an end of a diameter
        first = max(able.tolist(), key=lambda node: int(web.distances(node).max()))
    else:
        first = int(web.distances(int(able[0])).argmax())  # unreachable nodes have -1
    seeds, nearest = [first], web.distances(first)
    while len(seeds) < count:
        seeds.append(int(nearest.argmax()))
        nearest = web.nearer(seeds[-1], nearest)
    return np.array(seeds, dtype=np.int64)
