"""Prototypes of classes: the mean embedding of a client's training nodes of each class (FedProto, FedDGL).

A client sends those of the classes that it has, as rows with their classes; a class that it lacks never enters a mean.
It does not model prototypes of single nodes, nor noise on them.
"""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from fedsim.core.errors import ScenarioError
from fedsim.core.wire import Spec
from fedsim.data.graph import Graph
from fedsim.learn.engine import ops, tree
from fedsim.learn.model import Parameters
from fedsim.learn.task import Task


def width(task: Task) -> int:
    """Return H, the width of an embedding.  Raises ScenarioError where nodes have no classes, or no embedding."""
    task.require_classes("prototypes are of classes", "task")
    if not task.model.embedding_width:
        raise ScenarioError.at("model.layers", "prototypes need a hidden layer: give 2 or more")
    return task.model.embedding_width


@torch.no_grad()
def of(task: Task, params: Parameters, graph: Graph, mask: Tensor, *, counted: bool) -> dict[str, Tensor]:
    """Return what a client sends: `classes` (n,), `prototypes` (n, H), and if wanted `counts` of nodes (n,)."""
    means, counts = ops.by_class(task.embed(tree.stack([params]), graph), graph, task.classes, mask)
    held = torch.unique(graph["y"][mask])
    sent = {"classes": held.int(), "prototypes": means[0, held]}
    return {**sent, "counts": counts[0, held].int()} if counted else sent


def like(graph: Graph, mask: Tensor, wide: int, *, counted: bool) -> dict[str, Any]:
    """Return a tree as large as what `of` returns for embeddings of that width, with the classes that it names."""
    held = torch.unique(graph["y"][mask]).int()
    count = len(held)
    sent = {"classes": held, "prototypes": Spec((count, wide), "float32")}
    return {**sent, "counts": Spec((count,), "int32")} if counted else sent


def spread(sent: Mapping[str, Any], classes: int) -> tuple[Tensor, Tensor]:
    """Return what was sent as a table (C, H), and the numbers of nodes (C,), zeros for other classes.

    Without `counts` each class that was sent counts as one.
    """
    rows, sent_classes = sent["prototypes"], sent["classes"].long()
    table, counts = rows.new_zeros(classes, rows.shape[1]), rows.new_zeros(classes)
    table[sent_classes] = rows
    counts[sent_classes] = sent["counts"].to(counts.dtype) if "counts" in sent else 1.0
    return table, counts
