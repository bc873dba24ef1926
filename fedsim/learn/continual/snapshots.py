"""A client's memory of a changing graph: the states of its nodes, and what it has received about cut edges.

The client's memory holds, each entry replaced and never changed in place:

- `period`, `graph`: the last period in which it worked, and its graph then;
- `states`: the nodes (n,), ascending, and the states (n, S) that a recurrent model left when that period began;
- `received`: in this period, the nodes (m,) and rows (m, F) by key of the graph (`delta1`, `delta2`, `far`, `x`),
  and for `degree` all nodes; `x` stands in place of the features and lasts until it is received again.

States are computed when the next period begins, with the client's last parameters.
Not modelled: a node with states on several clients.

`part` is the part of a graph that a change reaches: what a client trains on instead of its whole graph (DG-CoLearn,
4.1).  Seeds are the nodes whose own edges or features have changed, ends of removed edges included (`changed`).  A
model of k layers spreads that over k edges.  Around the affected nodes stands a *halo* of one edge, whose cached
states are read and not updated: without it a node at the rim would lack neighbours.  Reusing states is exact only
while the weights stay as they are; by design it is an approximation.
"""

from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor

from fedsim.data.graph import Graph, as_dense, induced, with_keys, with_masks
from fedsim.learn.engine import layout, tree
from fedsim.learn.job import Memory
from fedsim.learn.model import Model, Parameters

NodeRows = tuple[Tensor, Tensor]  # numbers of nodes, ascending, and a row for each


def places(known: Tensor, wanted: Tensor) -> tuple[Tensor, Tensor]:
    """Return the index of each wanted number among the known (ascending), and whether it is there."""
    if not len(known):
        return torch.zeros_like(wanted), torch.zeros_like(wanted, dtype=torch.bool)
    place = torch.searchsorted(known, wanted).clamp(max=len(known) - 1)
    return place, known[place] == wanted


def spread(nodes: Tensor, rows: NodeRows) -> Tensor:
    """Return one row per node (N, F), zeros for nodes without any."""
    place, there = places(rows[0], nodes)
    found = rows[1].new_zeros(len(nodes), *rows[1].shape[1:])
    found[there] = rows[1][place[there]]
    return found


def joined(first: NodeRows, second: NodeRows) -> NodeRows:
    """Return the union of both; the second takes precedence."""
    nodes = torch.cat([second[0], first[0]])
    unique, place = torch.unique(nodes, return_inverse=True)
    numbers = torch.arange(len(nodes), device=nodes.device)
    earliest = torch.full_like(unique, len(nodes)).scatter_reduce_(0, place, numbers, "amin")
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
    """Return the graph with what the client knows of its nodes: states before this period, and rows received."""
    layout.of(graph)  # before the graph is copied, so that all copies share it
    nodes, keys = graph["node"], {}
    if memory.get("states") is not None:
        keys["state"] = spread(nodes, memory["states"])
    for key, rows in (memory.get("received") or {}).items():
        if key in ("x", "degree"):
            place, there = places(rows[0], nodes)
            keys[key] = (as_dense(graph["x"]) if key == "x" else layout.of(graph).degree).clone()
            keys[key][there] = rows[1][place[there]].to(keys[key].dtype)
        else:
            keys[key] = spread(nodes, rows)
    return bare(with_keys(graph, keys)) if "x" in keys else with_keys(graph, keys)


def bare(graph: Graph) -> Graph:
    """Return the graph without anything derived from its features."""
    return Graph(**{key: value for key, value in graph.items() if key != "layout"})  # type: ignore[typeddict-item, no-any-return]


def lasting(memory: Memory, nodes: Tensor) -> Mapping[str, NodeRows] | None:
    """Return the received rows that outlast a period, those in place of features, for these nodes only."""
    received = memory.get("received")
    if received is None or "x" not in received:
        return None
    mine = places(nodes, received["x"][0])[1]
    return {"x": (received["x"][0][mine], received["x"][1][mine])}


def whole(memory: Memory, graph: Graph, hops: int | None) -> Graph:
    """Return the whole graph, dressed; nodes that no change reaches within `hops` keep their states."""
    if hops is None or memory.get("states") is None:
        return dressed(memory, graph)
    return with_keys(dressed(memory, graph), {"halo": ~near(graph, hops)})


def states_after(model: Model, params: Parameters, memory: Memory, hops: int | None) -> NodeRows:
    """Return the states of the client's nodes after the period that it last worked in."""
    graph = memory["graph"]
    return graph["node"], model.remember(tree.stack([params]), whole(memory, graph, hops))


def within(graph: Graph, seeds: Tensor, hops: int) -> Tensor:
    """Return which nodes (N,) are at most so many edges away from the seeds (N,), themselves included."""
    reached = seeds.clone()
    source, target = graph["edges"]
    for _ in range(hops):
        further = reached.clone()
        further[target[reached[source]]] = True
        if torch.equal(further, reached):
            break
        reached = further
    return reached


def near(graph: Graph, hops: int) -> Tensor:
    """Return which nodes (N,) a change reaches within so many edges; all of them where no change is noted."""
    changed = graph.get("changed")
    if changed is None:
        return torch.ones_like(graph["train"])
    return layout.once(graph, ("near", hops), (changed,), lambda: within(graph, changed, hops))


def part(graph: Graph, hops: int, *, halo: bool = True) -> tuple[Graph, Tensor]:
    """Return the affected part of a graph and the numbers (n,) of its nodes there, ascending.

    Without `halo` it is the subgraph induced by the affected nodes alone, as the paper has it.  Halo nodes are
    in no mask.
    """
    read = graph.get("changed"), graph["train"]
    return layout.once(graph, ("part", hops, halo), read, lambda: _cut_out(graph, hops, halo))


def _cut_out(graph: Graph, hops: int, halo: bool) -> tuple[Graph, Tensor]:
    own = near(graph, hops)
    rows = (within(graph, own, 1) if halo else own).nonzero().squeeze(1)
    sub = induced(graph, rows)
    if halo:
        rim = ~own[rows]
        sub = with_masks(with_keys(sub, {"halo": rim}), *(sub[name] & ~rim for name in ("train", "val", "test")))
    return sub, rows
