"""Regression: T real targets for each row or node, mean squared error over those to train on.

Targets are neither scaled nor centred, so a model begins as far from them as they are from 0.
"""

from dataclasses import dataclass

from torch import Tensor

from fedsim.data.graph import Graph
from fedsim.learn.engine import ops
from fedsim.learn.metric import Judged
from fedsim.learn.model import Parameters
from fedsim.learn.task import Task


@dataclass(frozen=True)
class Regression(Task):
    """Squared error, a mean over the targets of a row."""

    judges = ("values",)

    def loss(self, params: Parameters, graph: Graph) -> Tensor:
        """Return the mean squared error over each client's training rows, zero where it has none: (K,)."""
        each = (self.forward(params, graph).reshape(graph["real"].shape) - graph["real"]).square().mean(1)
        return ops.mean_by_client(each, graph, graph["train"])

    def judged(self, output: Tensor, graph: Graph, rows: Tensor, owner: Tensor, owners: int) -> Judged:
        """Return the predictions and targets of these rows, both (n, T)."""
        wanted = graph["real"][rows]
        return Judged(output[rows].reshape(wanted.shape), wanted, owner, owners)
