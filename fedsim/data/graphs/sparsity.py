"""Sparser data: remove a random part of the features, edges or train labels of every client.

Every entry, edge or label has one uniform number, drawn from the random stream `data.keep.<kind>.<client>`,
and is kept where that lies below the share.  So with the same seed a smaller share keeps a subset of what a
larger one keeps, removing from one kind or client does not affect another, and the kept count is binomial,
not exact. After the sparsity studies of Zhu, Hu and Wu, "Federated Continual Graph Learning", KDD 2025, whose
text leaves open whether entries or whole rows of the features are zeroed: here it is entries. Not modelled:
data that are missing for a reason; what is removed depends on no class, degree or value.

Fan-out keeps a limited number of neighbours of every node, drawn once before the run.  Edges are visited in a
random order, and one is kept if both its ends still have room, so that every removed edge has a full end.  An
edge keeps its place in that order for its lifetime, so that a change in time changes little elsewhere.
Samplers of mini-batches (GraphSAGE, Hamilton et al., NeurIPS 2017) redraw neighbours for every batch and
layer, in one direction; here all layers see the same graph, and its edges keep both directions.
"""

from collections.abc import Sequence
from typing import Literal

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor

from fedsim.core.arrays import Ints
from fedsim.core.seeds import GAMMA, Rng, mixed
from fedsim.data.graph import Graph, Period, csr, edge_keys, has_edge_keys, places_of, with_keys, with_masks


def fewer(kind: Literal["features", "edges", "labels"], graphs: Sequence[Graph], share: float, rng: Rng) -> list[Graph]:
    """Return the clients' graphs with that share of their features, edges or labels.

    `features`: the other entries are zero; of sparse features only stored entries are drawn, and removed ones
    are no longer stored.  `edges`: undirected ones, both directions stay or go together.  `labels`: of the
    nodes to train on; the others stay in the graph but in no mask, so a client may be left without any.
    """
    if share == 1:
        return list(graphs)
    thin = {"features": _thin_features, "edges": _thin_edges, "labels": _thin_labels}[kind]
    return [thin(graph, share, rng(f"data.keep.{kind}.{client}")) for client, graph in enumerate(graphs)]


def _stays(shape: tuple[int, ...], share: float, rng: np.random.Generator) -> Tensor:
    # Single precision, because dense features are large; shares are exact to 1e-7.
    return torch.from_numpy(rng.random(shape, dtype=np.float32) < np.float32(share))


def _thin_features(graph: Graph, share: float, rng: np.random.Generator) -> Graph:
    x = graph["x"]
    if x.layout != torch.sparse_csr:
        stays = _stays(tuple(x.shape), share, rng)
        over_time = {"frames": torch.where(stays, graph["frames"], 0.0)} if "frames" in graph else {}
        return with_keys(graph, {"x": torch.where(stays, x, 0.0), **over_time})
    stays = _stays((x.values().numel(),), share, rng)
    before = F.pad(stays.cumsum(0), (1, 0))  # kept entries before each stored one
    parts = before[x.crow_indices()], x.col_indices()[stays], x.values()[stays]
    return with_keys(graph, {"x": csr(*parts, tuple(x.shape))})


def _thin_edges(graph: Graph, share: float, rng: np.random.Generator) -> Graph:
    ends = graph["edges"].sort(dim=0).values
    pairs, number = torch.unique(ends[0] * len(graph["y"]) + ends[1], return_inverse=True)
    stays = _stays((len(pairs),), share, rng)[number]
    lives: dict[str, Tensor] = {name: graph[name][stays] for name in ("since", "until", "message") if name in graph}
    return with_keys(graph, {"edges": graph["edges"][:, stays], **lives, **edge_keys(graph, stays)})


def _thin_labels(graph: Graph, share: float, rng: np.random.Generator) -> Graph:
    # A number for every node, so that the split does not affect the assignment of numbers.
    stays = _stays((len(graph["y"]),), share, rng)
    return with_masks(graph, graph["train"] & stays, graph["val"], graph["test"])


def fewer_neighbours(graph: Graph, most: int, key: int) -> Graph:
    """Return the graph with at most `most` neighbours of every node; `key` seeds the order."""
    edges = graph["edges"].numpy()
    pairs = edges[:, edges[0] < edges[1]]
    low, high = pairs[:, _with_room(pairs, len(graph["y"]), most, _places(graph, pairs, key))]
    source, target = np.concatenate([low, high]), np.concatenate([high, low])
    order = np.lexsort((target, source))
    few = torch.from_numpy(np.stack([source[order], target[order]]))
    attributes = edge_keys(graph, places_of(few, graph["edges"], len(graph["y"]))) if has_edge_keys(graph) else {}
    return with_keys(graph, {"edges": few, **attributes})


def fewer_each(periods: Sequence[Period], most: int, key: int) -> list[Period]:
    """Return a client's periods with such graphs; graphs that share their edges still do."""
    edges: dict[int, Tensor] = {}

    def few(graph: Graph) -> Graph:
        shared = id(graph["edges"])
        if shared not in edges:
            edges[shared] = fewer_neighbours(graph, most, key)["edges"]
        return with_keys(graph, {"edges": edges[shared]})

    return [Period(period.number, few(period.graph), tuple(map(few, period.ahead))) for period in periods]


def _places(graph: Graph, pairs: Ints, key: int) -> npt.NDArray[np.uint64]:
    """Return the sort key of edges (2, E): bits of their ends' numbers, mixed (splitmix64: Steele, 2014)."""
    number = graph["node"].numpy() if "node" in graph else np.arange(len(graph["y"]))
    low, high = np.sort(number[pairs], axis=0).astype(np.uint64)
    return mixed(mixed(np.uint64(key) + low + GAMMA) + high + GAMMA)


def _with_room(pairs: Ints, nodes: int, most: int, place: npt.NDArray[np.uint64]) -> Ints:
    """Return which edges (2, E) are kept, as if visited one by one in the order of their places.

    Many are taken at a time: all that come so early at both ends that earlier edges cannot fill these.
    """
    order = np.argsort(place, kind="stable")
    room, admitted = np.full(nodes, most), []
    while len(order):
        ends = pairs[:, order]
        early = (_ranks(ends, nodes) < room[ends]).all(axis=0)
        admitted.append(order[early])
        room -= np.bincount(ends[:, early].ravel(), minlength=nodes)
        order = order[~early & (room[ends] > 0).all(axis=0)]
    return np.sort(np.concatenate([np.empty(0, dtype=np.int64), *admitted]))


def _ranks(ends: Ints, nodes: int) -> Ints:
    """Return for both ends (2, E) how many edges before this one that node has."""
    flat = ends.T.ravel()
    by_node = np.argsort(flat, kind="stable")
    starts = np.concatenate([[0], np.cumsum(np.bincount(flat, minlength=nodes))])
    rank = np.empty(len(flat), dtype=np.int64)
    rank[by_node] = np.arange(len(flat)) - starts[flat[by_node]]
    return rank.reshape(-1, 2).T
