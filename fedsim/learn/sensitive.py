"""Sensitive vertices: those that a change makes a model forget, to be held by distillation (FedDGL, Eqs. 4-10).

Candidates are training vertices that were learned before, have no edge now, and lie so far from all that have one that
no message of an L-layer model comes from there, along any edge that there has ever been at the client.  Of those that
the old model had learned well (loss below q times their mean), the most sensitive have lost most: their loss in the
new snapshot less that in the old one, both of the old model.

"Active" means to have an edge.  Were it to mean "changed", candidates would have the same inputs in both snapshots,
and nothing would be lost.  Only labels of training vertices are read.
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from fedsim.data.graph import Graph
from fedsim.learn import layout, tree
from fedsim.learn.affected import within
from fedsim.learn.model import Parameters
from fedsim.learn.snapshots import places
from fedsim.learn.task import Task


def candidates(graph: Graph, learned: Tensor, ever: Tensor, hops: int) -> Tensor:
    """Return which vertices (N,) can be forgotten.

    `learned` are numbers of vertices, ascending; `ever` (2, E) the edges that there have been, by those numbers too.
    """
    active = layout.of(graph).degree > 1
    number = graph["vertex"]
    ends, there = places(number, ever.flatten())
    inside = there.view(2, -1).all(0)
    known = Graph(edges=ends.view(2, -1)[:, inside])  # type: ignore[typeddict-item]
    return graph["train"] & ~within(known, active, hops) & places(learned, number)[1]


@torch.no_grad()
def losses(task: Task, params: Parameters, graph: Graph, rows: Tensor) -> Tensor:
    """Return a model's cross-entropy at these vertices."""
    logits = task.forward(tree.stack([params]), graph)[rows]
    return F.cross_entropy(logits, graph["y"][rows], reduction="none")


def choose(
    task: Task, params: Parameters, before: Graph, graph: Graph, among: Tensor, *, q: float, share: float
) -> Tensor:
    """Return the most sensitive of the candidates `among` (N,), as rows of the graph; none where none qualify."""
    rows = among.nonzero().squeeze(1)
    old_rows, there = places(before["vertex"], graph["vertex"][rows])
    rows, old_rows = rows[there], old_rows[there]
    if not len(rows):
        return rows
    old = losses(task, params, before, old_rows)
    well = old < q * old.mean()
    lost = losses(task, params, graph, rows)[well] - old[well]
    wanted = min(len(lost), math.ceil(share * len(rows)))
    return rows[well][torch.argsort(lost, descending=True, stable=True)[:wanted]]
