"""Prototypes of classes: the mean embedding of a client's training vertices of each class (FedProto, FedDGL).

A client sends those of the classes that it has, as rows with their classes; a class that it lacks never enters a mean.
It does not model prototypes of single vertices, nor noise on them.
"""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from fedsim.data.graph import Graph
from fedsim.learn import ops, tree
from fedsim.learn.model import Parameters
from fedsim.learn.task import Task
from fedsim.net.wire import Spec


def present(graph: Graph, mask: Tensor) -> Tensor:
    """Return the classes, ascending, of the masked vertices."""
    return torch.unique(graph["y"][mask])


@torch.no_grad()
def of(task: Task, params: Parameters, graph: Graph, mask: Tensor) -> dict[str, Tensor]:
    """Return what a client sends: `classes` (n,), mean embeddings (n, H) and numbers of masked vertices (n,)."""
    h = task.embed(tree.stack([params]), graph)
    means, counts = ops.by_class(h, graph, task.classes, mask)
    own = present(graph, mask)
    return {"classes": own.int(), "prototypes": means[0, own], "counts": counts[0, own].int()}


def like(graph: Graph, mask: Tensor, width: int) -> dict[str, Spec]:
    """Return a tree as large as what `of` returns."""
    count = len(present(graph, mask))
    return {
        "classes": Spec((count,), "int32"),
        "prototypes": Spec((count, width), "float32"),
        "counts": Spec((count,), "int32"),
    }


def spread(sent: Mapping[str, Any], classes: int) -> tuple[Tensor, Tensor]:
    """Return prototypes as a table (C, H), zeros where there is none, and the numbers of vertices (C,)."""
    rows, own = sent["prototypes"], sent["classes"].long()
    table, counts = rows.new_zeros(classes, rows.shape[1]), torch.zeros(classes, device=rows.device)
    table[own], counts[own] = rows, sent["counts"].to(counts.dtype)
    return table, counts
