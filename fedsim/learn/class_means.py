"""Prototypes of classes: the mean embedding of a client's training vertices of each class (FedProto, FedDGL).

A client sends those of the classes that it has, as rows with their classes; a class that it lacks never enters a mean.
It does not model prototypes of single vertices, nor noise on them.
"""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from fedsim.core.errors import Problem, ScenarioError
from fedsim.core.wire import Spec
from fedsim.data.graph import Graph
from fedsim.learn import ops, tree
from fedsim.learn.model import Parameters
from fedsim.learn.recurrent import Recurrent
from fedsim.learn.task import Task
from fedsim.learn.tasks.node_classification import classes_only


def width(task: Task) -> int:
    """Return H, the width of an embedding.  Raises ScenarioError where vertices have no classes, or no embedding."""
    classes_only(task, "prototypes are of classes: take task: node_classification", "task")
    if task.model.layers < 2 and not isinstance(task.model, Recurrent):
        raise ScenarioError([Problem("model.layers", "prototypes need a hidden layer: give 2 or more")])
    return task.model.hidden


def present(graph: Graph, mask: Tensor) -> Tensor:
    """Return the classes, ascending, of the masked vertices."""
    found: Tensor = torch.unique(graph["y"][mask])
    return found


@torch.no_grad()
def of(task: Task, params: Parameters, graph: Graph, mask: Tensor, *, counted: bool) -> dict[str, Tensor]:
    """Return what a client sends: `classes` (n,), `prototypes` (n, H), and if wanted `counts` of vertices (n,)."""
    h = task.embed(tree.stack([params]), graph)
    means, counts = ops.by_class(h, graph, task.classes, mask)
    own = present(graph, mask)
    sent = {"classes": own.int(), "prototypes": means[0, own]}
    return {**sent, "counts": counts[0, own].int()} if counted else sent


def like(graph: Graph, mask: Tensor, wide: int, *, counted: bool) -> dict[str, Any]:
    """Return a tree as large as what `of` returns for embeddings of that width, with the classes that it names."""
    own = present(graph, mask).int()
    count = len(own)
    sent = {"classes": own, "prototypes": Spec((count, wide), "float32")}
    return {**sent, "counts": Spec((count,), "int32")} if counted else sent


def spread(sent: Mapping[str, Any], classes: int) -> tuple[Tensor, Tensor]:
    """Return what was sent as a table (C, H), zeros where there is none, and the numbers of vertices (C,)."""
    rows, own = sent["prototypes"], sent["classes"].long()
    table, counts = rows.new_zeros(classes, rows.shape[1]), torch.zeros(classes, device=rows.device)
    table[own], counts[own] = rows, sent["counts"].to(counts.dtype)
    return table, counts
