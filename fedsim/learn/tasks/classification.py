"""Classification: one of C classes for each row or node, mean softmax cross-entropy over the training rows."""

from dataclasses import dataclass

from torch import Tensor

from fedsim.data.graph import Graph
from fedsim.learn.engine import ops
from fedsim.learn.metric import Judged
from fedsim.learn.model import Parameters
from fedsim.learn.task import Task


@dataclass(frozen=True)
class Classification(Task):
    """Softmax over all C classes at all times: the head does not grow, and no class is masked."""

    judges = ("classes",)

    def require_classes(self, reason: str, key: str = "algorithm") -> None:
        """Do nothing: there are classes."""

    def loss(self, params: Parameters, graph: Graph) -> Tensor:
        """Return the mean cross-entropy over each client's training rows, zero where it has none: (K,)."""
        return ops.cross_entropy(self.forward(params, graph), graph)

    def judged(self, output: Tensor, graph: Graph, rows: Tensor, owner: Tensor, owners: int) -> Judged:
        """Return the logits and labels of these rows."""
        return Judged(output[rows], graph["y"][rows], owner, owners)
