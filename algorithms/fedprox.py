"""FedProx (Li et al., MLSys 2020): FedAvg with a pull towards the model received."""

from dataclasses import dataclass

from algorithms.fedavg import FedAvg
from fedsim.learn import tree


@dataclass(frozen=True)
class FedProx(FedAvg):
    """L + μ/2 ‖w − w_received‖² (Eq. 2); inexact solving is left to the local steps."""

    mu: float = 0.01  # strength of the pull

    def loss(self, params, data, given):
        """Return the task's loss and the proximal term."""
        return self.task.loss(params, data) + self.mu / 2 * tree.sq_distance(params, given["received"])
