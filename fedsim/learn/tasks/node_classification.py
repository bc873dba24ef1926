"""Node classification: one of C classes for each vertex, mean softmax cross-entropy over the training vertices."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from fedsim.core.errors import Problem, ScenarioError
from fedsim.data.graph import Graph
from fedsim.learn import ops
from fedsim.learn.metric import Judged
from fedsim.learn.model import Parameters
from fedsim.learn.task import Task


def classes_only(task: Task, message: str, key: str = "algorithm") -> None:
    """Raise ScenarioError for any other task, on behalf of an algorithm that needs classes of vertices."""
    if not isinstance(task, NodeClassification):
        raise ScenarioError([Problem(key, message)])


@dataclass(frozen=True)
class NodeClassification(Task):
    """Softmax over all C classes at all times: the head does not grow, and no class is masked."""

    judges: ClassVar[Sequence[str]] = ("classes",)

    def loss(self, params: Parameters, graph: Graph) -> Tensor:
        """Return the mean cross-entropy over each client's training vertices, zero where it has none: (K,)."""
        # vertices of classes without an output may pass messages, but never train
        labels = torch.where(graph["train"], graph["y"], 0)
        each = F.cross_entropy(self.forward(params, graph), labels, reduction="none")
        return ops.mean_by_client(each, graph, graph["train"])

    def targets(self, graph: Graph, split: str) -> Tensor:
        """Return the vertices of that split."""
        return graph[split].nonzero().squeeze(1)  # type: ignore[literal-required, no-any-return]

    def judged(self, output: Tensor, graph: Graph, rows: Tensor, owner: Tensor, owners: int) -> Judged:
        """Return the logits and labels of these vertices."""
        return Judged(output[rows], graph["y"][rows], owner, owners)
