"""Graphs side by side as one graph, whose layout is joined from theirs.

Which graphs are computed together is not decided here.
"""

from collections.abc import Sequence
from itertools import chain

import torch
from torch import Tensor

from fedsim.data.graph import ABSENT_IS_ZERO, Graph, under, vertex_keys
from fedsim.learn.blocks import offsets, repeated, shifted
from fedsim.learn.layout import Layout, of


def union(graphs: Sequence[Graph], *, shared: bool = False) -> Graph:
    """Return K graphs side by side as one, its layout joined from theirs.

    With `shared` all of them count as one client (K = 1), as when one set of parameters is scored on many graphs.
    """
    first = graphs[0]["y"]
    parts = [of(graph) for graph in graphs]
    vertices = [part.vertices for part in parts]
    sizes = [sum(vertices)] if shared else vertices
    joined = Graph(
        x=under([graph["x"] for graph in graphs]),
        edges=shifted([graph["edges"] for graph in graphs], [part.edges for part in parts], offsets(vertices)),
        y=torch.cat([graph["y"] for graph in graphs]),
        train=torch.cat([graph["train"] for graph in graphs]),
        val=torch.cat([graph["val"] for graph in graphs]),
        test=torch.cat([graph["test"] for graph in graphs]),
        client=repeated(range(len(sizes)), sizes, first),
        sizes=torch.tensor(sizes, device=first.device),
    )
    joined.update(_by_vertex(graphs))  # type: ignore[typeddict-item]
    if any("pairs" in graph for graph in graphs):
        _join_pairs(joined, graphs, vertices)
    if "events" in graphs[0]:
        _join_events(joined, graphs, vertices)
    joined["layout"] = Layout(joined, parts, shared=shared)
    return joined


def _join_pairs(joined: Graph, graphs: Sequence[Graph], vertices: Sequence[int]) -> None:
    """Add the pairs of those graphs that have any to their union."""
    asking = [(graph, start) for graph, start in zip(graphs, offsets(vertices), strict=True) if "pairs" in graph]
    pairs = [graph["pairs"] for graph, _ in asking]
    joined["pairs"] = shifted(pairs, [part.shape[1] for part in pairs], [start for _, start in asking])
    joined["links"] = torch.cat([graph["links"] for graph, _ in asking])
    joined["asked"] = torch.cat([graph["asked"] for graph, _ in asking])
    if any("moments" in graph for graph, _ in asking):
        joined["moments"] = torch.cat([graph["moments"] for graph, _ in asking])


def _join_events(joined: Graph, graphs: Sequence[Graph], vertices: Sequence[int]) -> None:
    """Add the events to the union of graphs that all hold some, or none of them."""
    ends = [graph["events"] for graph in graphs]
    joined["events"] = shifted(ends, [part.shape[1] for part in ends], offsets(vertices))
    for key in ("happened", "message", "fresh"):
        joined[key] = torch.cat([graph[key] for graph in graphs])


def _by_vertex(graphs: Sequence[Graph]) -> dict[str, Tensor]:
    """Join the optional keys of one row a vertex.  Raises ValueError for a missing key without a default."""
    joined = {}
    for key in vertex_keys(dict.fromkeys(chain.from_iterable(graphs))):
        some: Tensor = next(graph[key] for graph in graphs if key in graph)  # type: ignore[literal-required]
        joined[key] = torch.cat([_rows(graph, key, some) for graph in graphs])
    return joined


def _rows(graph: Graph, key: str, some: Tensor) -> Tensor:
    """Return the key's rows; if the graph lacks it, zeros like `some`, or the graph's own degrees."""
    if key in graph:
        return graph[key]  # type: ignore[literal-required, no-any-return]
    if key == "degree":  # it knows of no edges elsewhere
        return of(graph).degree
    if key in ABSENT_IS_ZERO or key.startswith("delta"):
        return some.new_zeros(len(graph["y"]), *some.shape[1:])
    raise ValueError(f"some graphs of a union have {key!r} and others do not; give it to all of them or to none")
