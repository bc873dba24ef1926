"""Sensitive nodes: those that a change makes a model forget, to be held by distillation (FedDGL, Eqs. 4-10).

Candidates are training nodes that were learned before, are not active now, and lie so far from all that are that
no message of an L-layer model comes from there, along any edge that there has ever been at the client.  Of those that
the old model had learned well (loss below q times their mean), the most sensitive have lost most: their loss in the
new snapshot less that in the old one, both of the old model.

A node is active if it has an edge (`edges`).  If it were active by having changed (`changed`), candidates of a model
without memory would have the same inputs in both snapshots: nothing is lost, and the order is arbitrary.
Only labels of training nodes are read.  Nodes that have left the client are no candidates.
"""

import math
from collections.abc import Mapping
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from fedsim.data.graph import Graph, with_keys, with_masks
from fedsim.learn.continual import replay
from fedsim.learn.continual.snapshots import places, within
from fedsim.learn.engine import layout, tree
from fedsim.learn.layers.recurrent import Recurrent
from fedsim.learn.model import Parameters
from fedsim.learn.task import Task

Rule = Literal["edges", "changed"]


def active(graph: Graph, rule: Rule = "edges") -> Tensor:
    """Return which nodes (N,) are active in a snapshot; in a graph that does not change all of them."""
    if "node" not in graph:
        return torch.ones_like(graph["train"])
    return layout.of(graph).degree > 1 if rule == "edges" else graph["changed"]  # a degree counts the node itself


def candidates(graph: Graph, learned: Tensor, ever: Tensor, hops: int, rule: Rule = "edges") -> Tensor:
    """Return which nodes (N,) can be forgotten.

    `learned` are numbers of nodes, ascending; `ever` (2, E) the edges that there have been, by those numbers too.
    """
    number = graph["node"]
    ends, found = (part.view(2, -1) for part in places(number, ever.flatten()))
    edges = torch.cat([ends[:, found.all(0)], graph["edges"]], dim=1)
    known = Graph(edges=edges)  # type: ignore[typeddict-item]
    return graph["train"] & ~within(known, active(graph, rule), hops) & places(learned, number)[1]


@torch.no_grad()
def losses(task: Task, params: Parameters, graph: Graph, rows: Tensor) -> Tensor:
    """Return a model's cross-entropy at these nodes."""
    logits = task.forward(tree.stack([params]), graph)[rows]
    return F.cross_entropy(logits, graph["y"][rows], reduction="none")


def choose(
    task: Task, params: Parameters, before: Graph, graph: Graph, among: Tensor, *, q: float, share: float
) -> Tensor:
    """Return the most sensitive of the candidates `among` (N,), as rows of the graph; none where none qualify."""
    rows = among.nonzero().squeeze(1)
    old_rows, there = places(before["node"], graph["node"][rows])
    rows, old_rows = rows[there], old_rows[there]
    if not len(rows):
        return rows
    old = losses(task, params, before, old_rows)
    well = old < q * old.mean()
    lost = losses(task, params, graph, rows)[well] - old[well]
    return rows[well][torch.argsort(lost, descending=True, stable=True)[: math.ceil(share * len(rows))]]


@torch.no_grad()
def taught(task: Task, teacher: Parameters, before: Graph, nodes: Tensor) -> Tensor:
    """Return the embeddings (n, H), of length 1, that the teacher gives these nodes in the snapshot before."""
    return F.normalize(task.embed(tree.stack([teacher]), before)[places(before["node"], nodes)[0]], dim=1)


def whole(task: Task, rule: Rule) -> bool:
    """Return whether nodes cannot be held without the graph around them.

    So it is with nodes that have edges, and with models that compute anything from a whole graph.
    """
    return rule == "changed" or (isinstance(task.model, Recurrent) and task.model.pools())


def held(graph: Graph, rows: Tensor, targets: Tensor, *, whole: bool) -> Graph:
    """Return a graph that trains on these nodes alone, with the embeddings `target` that they are drawn to.

    It is the nodes without edges, or the `whole` graph; a graph of no nodes where there are none to hold.
    """
    if not whole or not len(rows):
        return with_keys(replay.isolated(graph, rows), {"target": targets})
    train, none = torch.zeros_like(graph["train"]), torch.zeros_like(graph["train"])
    spread = targets.new_zeros(len(train), targets.shape[1])
    train[rows], spread[rows] = True, targets
    layout.of(graph)  # before the graph is copied, so that both share it
    return with_keys(with_masks(graph, train, none, none), {"target": spread})


def nobody(task: Task, graph: Graph) -> Graph:
    """Return what there is to hold where nothing can have been forgotten."""
    targets = torch.zeros(0, task.model.embedding_width, device=graph["y"].device)
    return with_keys(replay.empty(graph), {"target": targets})


def notes(memory: Mapping[str, Any], graph: Graph, own: Tensor) -> dict[str, Tensor]:
    """Return what a client keeps of a snapshot: `learned`, now with the nodes `own` (N,), and `ever` (2, E)."""
    learned, edges = graph["node"][own], graph["node"][graph["edges"]]
    if "ever" in memory:
        learned = torch.cat([memory["learned"], learned])
        edges = torch.cat([memory["ever"], edges], dim=1)
    return {"learned": torch.unique(learned), "ever": torch.unique(edges, dim=1)}
