"""Graphs side by side as one graph, whose layout is joined from theirs.

Which graphs are computed together is not decided here.
"""

from collections.abc import Sequence
from itertools import chain
from typing import Any

import torch
from torch import Tensor

from fedsim.data.graph import ABSENT_IS_ZERO, EDGE_KEYS, Graph, node_keys, under
from fedsim.learn.engine.blocks import offsets, repeated, shifted
from fedsim.learn.engine.layout import GraphLayout, of

ALL_OR_NONE = "give it to all of them or to none"
ENDS = {"pairs": ("links", "asked", "moments"), "events": ("happened", "message", "fresh")}  # what belongs to each


def union(graphs: Sequence[Graph], *, shared: bool = False) -> Graph:
    """Return K graphs side by side as one, its layout joined from theirs.

    With `shared` all of them count as one client (K = 1), as when one set of parameters is scored on many graphs.
    """
    first = graphs[0]["y"]
    parts = [of(graph) for graph in graphs]
    nodes = [part.nodes for part in parts]
    sizes = [sum(nodes)] if shared else nodes
    joined = Graph(
        x=under([graph["x"] for graph in graphs]),
        edges=shifted([graph["edges"] for graph in graphs], [part.edges for part in parts], offsets(nodes)),
        y=torch.cat([graph["y"] for graph in graphs]),
        train=torch.cat([graph["train"] for graph in graphs]),
        val=torch.cat([graph["val"] for graph in graphs]),
        test=torch.cat([graph["test"] for graph in graphs]),
        client=repeated(range(len(sizes)), sizes, first),
        sizes=torch.tensor(sizes, device=first.device),
    )
    joined.update(_by_node(graphs))  # type: ignore[typeddict-item]
    joined.update(_by_edge(graphs))  # type: ignore[typeddict-item]
    for ends, others in ENDS.items():
        _join_ends(joined, graphs, nodes, ends, others)
    joined["layout"] = GraphLayout(joined, parts, shared=shared)
    return joined


def _join_ends(joined: Any, graphs: Sequence[Graph], nodes: Sequence[int], ends: str, others: Sequence[str]) -> None:
    """Add the pairs or events of those graphs that have any to their union, and what belongs to each."""
    holders = [(graph, start) for graph, start in zip(graphs, offsets(nodes), strict=True) if ends in graph]
    if holders:
        parts = [graph[ends] for graph, _ in holders]  # type: ignore[literal-required]
        joined[ends] = shifted(parts, [part.shape[1] for part in parts], [start for _, start in holders])
    for key in others:
        if any(key in graph for graph, _ in holders):
            joined[key] = torch.cat([graph[key] for graph, _ in holders])  # type: ignore[literal-required]


def _by_node(graphs: Sequence[Graph]) -> dict[str, Tensor]:
    """Join the optional keys of one row a node.  Raises ValueError for a missing key without a default."""
    joined = {}
    for key in node_keys(dict.fromkeys(chain.from_iterable(graphs))):
        some: Tensor = next(graph[key] for graph in graphs if key in graph)  # type: ignore[literal-required]
        joined[key] = torch.cat([_rows(graph, key, some) for graph in graphs])
    return joined


def _by_edge(graphs: Sequence[Graph]) -> dict[str, Tensor]:
    """Join the optional keys of one row an entry of edges.  Raises ValueError where edges lack one."""
    joined = {}
    for key in EDGE_KEYS:
        if holders := [graph for graph in graphs if key in graph]:
            if any(key not in graph and graph["edges"].shape[1] for graph in graphs):
                raise ValueError(f"some graphs of a union have {key!r} and others do not; {ALL_OR_NONE}")
            joined[key] = torch.cat([graph[key] for graph in holders])  # type: ignore[literal-required]
    return joined


def _rows(graph: Graph, key: str, some: Tensor) -> Tensor:
    """Return the key's rows; if the graph lacks it, zeros like `some`, or the graph's own degrees."""
    if key in graph:
        return graph[key]  # type: ignore[literal-required, no-any-return]
    if key == "degree":  # it knows of no edges elsewhere
        return of(graph).degree
    if key in ABSENT_IS_ZERO or key.startswith("delta"):
        return some.new_zeros(len(graph["y"]), *some.shape[1:])
    raise ValueError(f"some graphs of a union have {key!r} and others do not; {ALL_OR_NONE}")
