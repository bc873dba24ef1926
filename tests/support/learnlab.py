"""Small random graphs, tasks and jobs for the tests of the learning half."""

from typing import Any

import torch
from torch import Tensor

from fedsim.data.graph import Graph, csr, graph_of
from fedsim.learn.algorithm import Job
from fedsim.learn.engine import tree
from fedsim.learn.engine.optimiser import KeptState, OptimiserState
from fedsim.learn.model import Model
from fedsim.learn.models.gcn import GCN
from fedsim.learn.task import Task, bind
from fedsim.learn.tasks.node_classification import NodeClassification


def sparse(x: Tensor) -> Tensor:
    """The same features as CSR."""
    row, column = x.nonzero(as_tuple=True)
    crow = torch.cat([torch.zeros(1, dtype=torch.long), torch.bincount(row, minlength=len(x)).cumsum(0)])
    return csr(crow, column, x[row, column], tuple(x.shape))


def drawn(nodes: int, seed: int, *, features: int = 7, classes: int = 3, as_csr: bool = False) -> Graph:
    """A random directed graph with self-loops, isolated nodes and the three splits mixed."""
    generator = torch.Generator().manual_seed(seed)
    edges = torch.zeros(2, 0, dtype=torch.long)
    if nodes:
        ends = torch.randint(nodes, (2, 2 * nodes), generator=generator)
        loops = torch.randint(nodes, (1, 2), generator=generator).expand(2, -1)
        edges = torch.unique(torch.cat([ends, loops], 1), dim=1)
        edges = edges[:, (edges < max(1, nodes - nodes // 4)).all(0)]  # the last quarter is isolated
    x = torch.randn(nodes, features, generator=generator)
    if as_csr:
        x = x * (torch.rand(nodes, features, generator=generator) < 0.3)
    y = torch.randint(classes, (nodes,), generator=generator)
    part = torch.randint(3, (nodes,), generator=generator)
    return graph_of(sparse(x) if as_csr else x, edges, y, part == 0, part == 1, part == 2)


def drawn_task(
    model: Model | None = None, features: int = 7, classes: int = 3, seed: int = 0, task: Task | None = None
) -> Task:
    """Node classification, or another task, with this model, or with a narrow GCN that drops half of its values."""
    return bind(task or NodeClassification(), model or GCN(hidden=5), features, classes, seed, "cpu")


def job_of(client: int, data: Graph, memory: dict[str, Any], *, seed: int = 0, period: int = 0) -> Job:
    """A job without a download."""
    return Job(client, "train", period, None, data, memory, 1000 * client + seed)


def own_state(kept: KeptState) -> OptimiserState:
    """A copy of one client's optimiser state, without a client axis."""
    return tree.transform(torch.clone, tree.at(kept.joined, kept.place))


def largest_gap(one: Any, other: Any) -> float:
    """The largest absolute difference between two trees of the same shape."""
    if isinstance(one, dict):
        assert one.keys() == other.keys()
        return max((largest_gap(one[key], other[key]) for key in one), default=0.0)
    return float((one - other).abs().max()) if one.numel() else 0.0


def inverted(sent: dict[str, Tensor]) -> Tensor:
    """A class prototype (F,) from its gradients in closed form, by the row of ∇W1 with the largest ∇b1."""
    row = int(sent["b1"].abs().argmax())
    return sent["w1"][row] / sent["b1"][row]
