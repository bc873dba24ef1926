"""Sparser data: remove a random part of the features, edges or train labels of every client.

Every entry, edge or label has one uniform number, drawn from the random stream `data.keep.<kind>.<client>`, and is kept
where that lies below the share.  So with the same seed a smaller share keeps a subset of what a larger one keeps,
removing from one kind or client does not affect another, and the kept count is binomial, not exact. After the sparsity
studies of Zhu, Hu and Wu, "Federated Continual Graph Learning", KDD 2025, whose text leaves open whether entries or
whole rows of the features are zeroed: here it is entries. Not modelled: data that are missing for a reason; what is
removed depends on no class, degree or value.
"""

from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor

from fedsim.data.graph import Graph, csr, with_keys, with_masks

Rng = Callable[[str], np.random.Generator]


def fewer_features(graphs: Sequence[Graph], share: float, rng: Rng) -> list[Graph]:
    """Return the clients' graphs with that share of the features' entries; the others are zero.

    Of sparse features only stored entries are drawn, and removed ones are no longer stored.
    """
    return _each(graphs, share, rng, "features", _thin_features)


def fewer_edges(graphs: Sequence[Graph], share: float, rng: Rng) -> list[Graph]:
    """Return the clients' graphs with that share of the undirected edges: both directions stay or go together."""
    return _each(graphs, share, rng, "edges", _thin_edges)


def fewer_labels(graphs: Sequence[Graph], share: float, rng: Rng) -> list[Graph]:
    """Return the clients' graphs, masks included, with that share of the vertices to train on.

    The others stay in the graph but in no mask, so a client may be left without any.
    """
    return _each(graphs, share, rng, "labels", _thin_labels)


def _each(
    graphs: Sequence[Graph],
    share: float,
    rng: Rng,
    kind: str,
    thin: Callable[[Graph, float, np.random.Generator], Graph],
) -> list[Graph]:
    if share == 1:
        return list(graphs)
    return [thin(graph, share, rng(f"data.keep.{kind}.{client}")) for client, graph in enumerate(graphs)]


def _kept(shape: tuple[int, ...], share: float, rng: np.random.Generator) -> Tensor:
    # Single precision, because dense features are large; shares are exact to 1e-7.
    return torch.from_numpy(rng.random(shape, dtype=np.float32) < np.float32(share))


def _thin_features(graph: Graph, share: float, rng: np.random.Generator) -> Graph:
    x = graph["x"]
    if x.layout != torch.sparse_csr:
        there = _kept(tuple(x.shape), share, rng)
        over_time = {"frames": torch.where(there, graph["frames"], 0.0)} if "frames" in graph else {}
        return with_keys(graph, {"x": torch.where(there, x, 0.0), **over_time})
    kept = _kept((x.values().numel(),), share, rng)
    before = torch.cat([torch.zeros(1, dtype=torch.long), kept.cumsum(0)])  # kept entries before each stored one
    parts = before[x.crow_indices()], x.col_indices()[kept], x.values()[kept]
    return Graph(**{**graph, "x": csr(*parts, tuple(x.shape))})


def _thin_edges(graph: Graph, share: float, rng: np.random.Generator) -> Graph:
    ends = graph["edges"].sort(dim=0).values
    pairs, number = torch.unique(ends[0] * len(graph["y"]) + ends[1], return_inverse=True)
    kept = _kept((len(pairs),), share, rng)[number]
    lives: dict[str, Tensor] = {name: graph[name][kept] for name in ("since", "until", "message") if name in graph}
    return with_keys(graph, {"edges": graph["edges"][:, kept], **lives})


def _thin_labels(graph: Graph, share: float, rng: np.random.Generator) -> Graph:
    # A number for every vertex, so that the split does not affect the assignment of numbers.
    kept = _kept((len(graph["y"]),), share, rng)
    return with_masks(graph, graph["train"] & kept, graph["val"], graph["test"])
