"""Fan-out: keep a limited number of neighbours of every vertex, drawn once before the run.

Edges are visited in a random order, and one is kept if both its ends still have room, so that every removed edge has a
full end.  An edge keeps its place in that order for its lifetime, so that a change in time changes little elsewhere.
Samplers of mini-batches (GraphSAGE, Hamilton et al., NeurIPS 2017) redraw neighbours for every batch and layer, in one
direction; here all layers see the same graph, and its edges keep both directions.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import torch

from fedsim.data.graph import Graph, Period, with_keys

Ints = npt.NDArray[np.int64]
MIX = [np.uint64(number) for number in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB)]


def fewer_neighbours(graph: Graph, most: int, key: int) -> Graph:
    """Return the graph with at most `most` neighbours of every vertex; `key` seeds the order."""
    edges = graph["edges"].numpy()
    once = np.flatnonzero(edges[0] < edges[1])
    kept = _kept(edges[:, once], len(graph["y"]), most, _places(graph, edges[:, once], key))
    low, high = edges[:, once[kept]]
    source, target = np.concatenate([low, high]), np.concatenate([high, low])
    order = np.lexsort((target, source))
    return with_keys(graph, {"edges": torch.from_numpy(np.stack([source[order], target[order]]))})


def fewer_each(own: Sequence[Period], most: int, key: int) -> list[Period]:
    """Return a client's periods with such graphs; graphs that share their edges still do."""
    known: dict[int, Graph] = {}

    def few(graph: Graph) -> Graph:
        edges = graph["edges"]
        if id(edges) not in known:
            known[id(edges)] = fewer_neighbours(graph, most, key)
        return with_keys(graph, {"edges": known[id(edges)]["edges"]})

    return [Period(one.number, few(one.graph), tuple(few(graph) for graph in one.ahead)) for one in own]


def _places(graph: Graph, pairs: Ints, key: int) -> npt.NDArray[np.uint64]:
    """Return the sort key of edges (2, E): bits of their ends' numbers, mixed (splitmix64: Steele et al., 2014)."""
    number = graph["vertex"].numpy() if "vertex" in graph else np.arange(len(graph["y"]))
    low, high = np.sort(number[pairs], axis=0).astype(np.uint64)
    return _mixed(_mixed(np.uint64(key) + low) + high)


def _mixed(bits: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    bits = bits + MIX[0]
    bits = (bits ^ (bits >> np.uint64(30))) * MIX[1]
    bits = (bits ^ (bits >> np.uint64(27))) * MIX[2]
    return bits ^ (bits >> np.uint64(31))


def _kept(pairs: Ints, vertices: int, most: int, place: npt.NDArray[np.uint64]) -> Ints:
    """Return which edges (2, E) are kept, as if visited one by one in the order of their places.

    Many are taken at a time: all that come so early at both ends that earlier edges cannot fill these.
    """
    order = np.argsort(place, kind="stable")
    room, kept = np.full(vertices, most), []
    while len(order):
        ends = pairs[:, order]
        early = (_ranks(ends, vertices) < room[ends]).all(axis=0)
        kept.append(order[early])
        room -= np.bincount(ends[:, early].ravel(), minlength=vertices)
        order = order[~early & (room[ends] > 0).all(axis=0)]
    return np.sort(np.concatenate([np.empty(0, dtype=np.int64), *kept]))


def _ranks(ends: Ints, vertices: int) -> Ints:
    """Return for both ends (2, E) how many edges before this one that vertex has."""
    flat = ends.T.ravel()
    by_vertex = np.argsort(flat, kind="stable")
    starts = np.concatenate([[0], np.cumsum(np.bincount(flat, minlength=vertices))])
    rank = np.empty(len(flat), dtype=np.int64)
    rank[by_vertex] = np.arange(len(flat)) - starts[flat[by_vertex]]
    return rank.reshape(-1, 2).T
