"""EvolveGCN-O (Pareja et al., AAAI 2020, section 3.2): weights evolve independently of the graph."""

from dataclasses import dataclass

from torch import Tensor

from fedsim.core.units import Count
from fedsim.data.graph import Graph
from fedsim.learn.layers.recurrent import Evolving


@dataclass(frozen=True)
class EvolveGCNO(Evolving):
    """The gates' input is the weight itself; the original's recurrence is an LSTM's, its published code's this one.

    With `unroll` the recurrence is applied that many times in every pass, with gradients through all steps,
    as in the original with a window of that many snapshots, since the weights do not depend on the graph.
    """

    unroll: Count = 1  # steps of the recurrence per pass

    def summary(self, params: dict[str, Tensor], h: Tensor, graph: Graph) -> Tensor:
        """Return the weight."""
        return params["weight"]

    def evolved(self, params: dict[str, Tensor], h: Tensor, graph: Graph) -> Tensor:
        """Return W after all steps (K, F, H)."""
        for _ in range(self.unroll):
            params = {**params, "weight": super().evolved(params, h, graph)}
        return params["weight"]

    def layer_flops(self, nodes: int, edges: int, nonzeros: int, inputs: int, outputs: int) -> float:
        """Each further step costs as much as the first."""
        once = super().layer_flops(nodes, edges, nonzeros, inputs, outputs)
        return once + (self.unroll - 1) * super().layer_flops(0, 0, 0, inputs, outputs)
