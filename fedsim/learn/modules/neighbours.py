"""Neighbour sampling: the part of a graph from which a few nodes are computed (Hamilton, Ying and Leskovec, NeurIPS
2017), uniform and without replacement, on arrays in CSR form.

Around the seeds at most `most[0]` entries of edges that end in each are drawn, then at most `most[1]` for each node
that is new by these, and so on: a node is expanded once, where it is first met.  With numbers of at least the largest
in-degree that is all from which as many layers compute the seeds; what a layer makes of degrees it sees in the part
alone.  Not modelled: weighted draws, and draws for whole layers.
"""

from typing import NamedTuple

import numpy as np

from fedsim.core.arrays import Ints


class InEdges(NamedTuple):
    """Entries of edges sorted by their target: those of node i lie from pointer i to pointer i + 1."""

    pointers: Ints  # (N + 1,)
    sources: Ints  # (E,)
    entries: Ints  # (E,) their numbers in the graph


def in_edges(edges: Ints, nodes: int) -> InEdges:
    """Return the entries of edges (2, E), source over target, in CSR form."""
    order = np.argsort(edges[1], kind="stable")
    pointers = np.concatenate([[0], np.bincount(edges[1], minlength=nodes).cumsum()])
    return InEdges(pointers, edges[0][order], order)


def sampled(near: InEdges, seeds: Ints, most: list[int], rng: np.random.Generator) -> tuple[Ints, Ints, Ints]:
    """Return the nodes of the part, seeds first, its edges (2, e) by their places, and the entries that these are."""
    place = np.full(len(near.pointers) - 1, -1)
    place[seeds] = np.arange(len(seeds))
    nodes, frontier = [seeds], seeds
    edges, entries = [np.zeros((2, 0), dtype=np.int64)], [np.zeros(0, dtype=np.int64)]
    met = len(seeds)
    for limit in most:
        drawn, owner = _drawn(near, frontier, limit, rng)
        sources, targets = near.sources[drawn], frontier[owner]
        frontier = np.unique(sources[place[sources] < 0])
        place[frontier] = np.arange(met, met + len(frontier))
        met += len(frontier)
        nodes.append(frontier)
        edges.append(place[np.stack([sources, targets])])
        entries.append(near.entries[drawn])
    return np.concatenate(nodes), np.concatenate(edges, axis=1), np.concatenate(entries)


def _drawn(near: InEdges, targets: Ints, most: int, rng: np.random.Generator) -> tuple[Ints, Ints]:
    """Return places in `near` of at most so many entries of each target, and whose they are, by its place."""
    begin, degree = near.pointers[targets], near.pointers[targets + 1] - near.pointers[targets]
    owner = np.repeat(np.arange(len(targets)), degree)
    rank = np.arange(len(owner)) - np.repeat(degree.cumsum() - degree, degree)  # among those of its target
    places = np.repeat(begin, degree) + rank
    if (degree <= most).all():
        return places, owner
    shuffled = np.lexsort((rng.random(len(owner)), owner))  # each target's own, in an order by chance
    kept = np.sort(shuffled[rank < most])
    return places[kept], owner[kept]
