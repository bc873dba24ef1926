"""A client's memory of a changing graph: the states of its vertices, and what it has received about cut edges.

The client's memory holds, each entry replaced and never changed in place:

- `period`, `graph`: the last period in which it worked, and its graph then;
- `states`: the vertices (n,), ascending, and the states (n, S) that a recurrent model left when that period began;
- `received`: in this period, the vertices (m,) and rows (m, F) by key of the graph (`delta1`, `delta2`, `far`, `x`),
  and for `degree` all vertices; `x` stands in place of the features and lasts until it is received again.

States are computed when the next period begins, with the client's last parameters.
Not modelled: a vertex with states on several clients.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fedsim.data.graph import Graph, as_dense, with_keys
from fedsim.learn import affected, layout, tree
from fedsim.learn.model import Model, Parameters

Rows = tuple[Tensor, Tensor]  # numbers of vertices, ascending, and a row for each
Memory = Mapping[str, Any]


def places(known: Tensor, wanted: Tensor) -> tuple[Tensor, Tensor]:
    """Return the index of each wanted number among the known (ascending), and whether it is there."""
    if not len(known):
        return torch.zeros_like(wanted), torch.zeros_like(wanted, dtype=torch.bool)
    place = torch.searchsorted(known, wanted).clamp(max=len(known) - 1)
    return place, known[place] == wanted


def spread(vertices: Tensor, rows: Rows) -> Tensor:
    """Return one row per vertex (N, F), zeros for vertices without any."""
    place, there = places(rows[0], vertices)
    found = rows[1].new_zeros(len(vertices), *rows[1].shape[1:])
    found[there] = rows[1][place[there]]
    return found


def joined(first: Rows, second: Rows) -> Rows:
    """Return the union of both; the second takes precedence."""
    vertices = torch.cat([second[0], first[0]])
    unique, place = torch.unique(vertices, return_inverse=True)
    numbers = torch.arange(len(vertices), device=vertices.device)
    earliest = torch.full_like(unique, len(vertices)).scatter_reduce_(0, place, numbers, "amin")
    return unique, torch.cat([second[1], first[1]])[earliest]


def forwarded(
    waiting: Mapping[int, Mapping[str, Tensor]], left: Mapping[str, Tensor], owners: np.ndarray
) -> Mapping[int, Mapping[str, Tensor]]:
    """Return the states waiting for each client at the server, with those that others have `left`, by owners (N,)."""
    owner = torch.from_numpy(owners)[left["ids"].long().cpu()]
    for client in sorted(set(owner[owner >= 0].tolist())):
        own = (owner == client).to(left["ids"].device)
        rows = left["ids"][own].long(), left["states"][own]
        if client in waiting:
            rows = joined((waiting[client]["ids"].long(), waiting[client]["states"]), rows)
        waiting = {**waiting, client: {"ids": rows[0].int(), "states": rows[1]}}
    return waiting


def dressed(memory: Memory, graph: Graph) -> Graph:
    """Return the graph with what the client knows of its vertices: states before this period, and rows received."""
    layout.of(graph)  # before the graph is copied, so that all copies share it
    vertices, keys = graph["vertex"], {}
    if memory.get("states") is not None:
        keys["state"] = spread(vertices, memory["states"])
    for key, rows in (memory.get("received") or {}).items():
        if key in ("x", "degree"):
            place, there = places(rows[0], vertices)
            keys[key] = (as_dense(graph["x"]) if key == "x" else layout.of(graph).degree).clone()
            keys[key][there] = rows[1][place[there]].to(keys[key].dtype)
        else:
            keys[key] = spread(vertices, rows)
    return bare(with_keys(graph, keys)) if "x" in keys else with_keys(graph, keys)


def bare(graph: Graph) -> Graph:
    """Return the graph without anything derived from its features."""
    return Graph(**{key: value for key, value in graph.items() if key != "layout"})  # type: ignore[typeddict-item, no-any-return]


def lasting(memory: Memory, vertices: Tensor) -> Mapping[str, Rows] | None:
    """Return the received rows that outlast a period, those in place of features, for these vertices only."""
    received = memory.get("received")
    if received is None or "x" not in received:
        return None
    mine = places(vertices, received["x"][0])[1]
    return {"x": (received["x"][0][mine], received["x"][1][mine])}


def whole(memory: Memory, graph: Graph, hops: int | None) -> Graph:
    """Return the whole graph, dressed; vertices that no change reaches within `hops` keep their states."""
    if hops is None or memory.get("states") is None:
        return dressed(memory, graph)
    return with_keys(dressed(memory, graph), {"halo": ~affected.near(graph, hops)})


def states_after(model: Model, params: Parameters, memory: Memory, hops: int | None) -> Rows:
    """Return the states of the client's vertices after the period that it last worked in."""
    graph = memory["graph"]
    return graph["vertex"], model.remember(tree.stack([params]), whole(memory, graph, hops))
