"""Small random graphs, tasks and jobs for the tests of the learning half."""

from typing import Any

import torch
from torch import Tensor

from fedsim.data.graph import Graph, csr, graph_of
from fedsim.learn.algorithm import Job
from fedsim.learn.model import Model
from fedsim.learn.models.gcn import GCN
from fedsim.learn.task import Task, bind
from fedsim.learn.tasks.node_classification import NodeClassification


def sparse(x: Tensor) -> Tensor:
    """The same features as CSR."""
    row, column = x.nonzero(as_tuple=True)
    crow = torch.cat([torch.zeros(1, dtype=torch.long), torch.bincount(row, minlength=len(x)).cumsum(0)])
    return csr(crow, column, x[row, column], tuple(x.shape))


def drawn(vertices: int, seed: int, *, features: int = 7, classes: int = 3, as_csr: bool = False) -> Graph:
    """A random directed graph with self-loops, isolated vertices and the three splits mixed."""
    generator = torch.Generator().manual_seed(seed)
    edges = torch.zeros(2, 0, dtype=torch.long)
    if vertices:
        ends = torch.randint(vertices, (2, 2 * vertices), generator=generator)
        loops = torch.randint(vertices, (1, 2), generator=generator).expand(2, -1)
        edges = torch.unique(torch.cat([ends, loops], 1), dim=1)
        edges = edges[:, (edges < max(1, vertices - vertices // 4)).all(0)]  # the last quarter is isolated
    x = torch.randn(vertices, features, generator=generator)
    if as_csr:
        x = x * (torch.rand(vertices, features, generator=generator) < 0.3)
    y = torch.randint(classes, (vertices,), generator=generator)
    part = torch.randint(3, (vertices,), generator=generator)
    return graph_of(sparse(x) if as_csr else x, edges, y, part == 0, part == 1, part == 2)


def drawn_task(model: Model | None = None, *, features: int = 7, classes: int = 3, seed: int = 0) -> Task:
    """Node classification with this model, or with a narrow GCN that drops half of its hidden values."""
    return bind(NodeClassification(), model or GCN(hidden=5), features, classes, seed, "cpu")


def job_of(client: int, data: Graph, memory: dict[str, Any], *, seed: int = 0, period: int = 0) -> Job:
    """A job without a download."""
    return Job(client, "train", period, None, data, memory, 1000 * client + seed)


def largest_gap(one: Any, other: Any) -> float:
    """The largest absolute difference between two trees of the same shape."""
    if isinstance(one, dict):
        assert one.keys() == other.keys()
        return max((largest_gap(one[key], other[key]) for key in one), default=0.0)
    return float((one - other).abs().max()) if one.numel() else 0.0
