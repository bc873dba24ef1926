"""FedProx (Li et al., MLSys 2020): FedAvg with a pull towards the model received."""

from dataclasses import dataclass

from torch import Tensor

from algorithms.fedavg import FedAvg
from fedsim.core.span import Span
from fedsim.core.wire import Tree
from fedsim.data.graph import Graph
from fedsim.learn.engine import tree
from fedsim.learn.model import Parameters


@dataclass(frozen=True)
class FedProx(FedAvg):
    """L + μ/2 ‖w − w_received‖² (Eq. 2); inexact solving is left to the local steps."""

    any_model = any_targets = True
    mu: float = 0.01  # μ, strength of the proximal term
    tunes = {"mu": Span(1e-4, 1.0, log=True)}

    def loss(self, params: Parameters, data: Graph, given: Tree) -> Tensor:
        """Return the task's loss and the proximal term."""
        return self.task.loss(params, data) + self.mu / 2 * tree.sq_distance(params, given["received"])
