"""Graph attention network (Veličković et al., ICLR 2018), one head per layer, as in POWER (KDD 2025)."""

from dataclasses import dataclass

import torch
from torch import Generator, Tensor

from fedsim.data.graph import Graph
from fedsim.learn.engine import ops
from fedsim.learn.model import Model, Parameters, glorot


@dataclass(frozen=True)
class GAT(Model):
    """One weight for source and target, self-loops, leaky slope 0.2, biases; no dropout on the attention."""

    slope: float = 0.2  # negative slope of the leaky ReLU on the scores

    def layer_init(self, inputs: int, outputs: int, generator: Generator) -> dict[str, Tensor]:
        """Return weight (F, H), the attention vectors source and target (H,), and bias (H,)."""
        return {
            "weight": glorot(inputs, outputs, generator),
            "source": glorot(1, outputs, generator, (outputs,)),
            "target": glorot(1, outputs, generator, (outputs,)),
            "bias": torch.zeros(outputs),
        }

    def layer(self, params: dict[str, Tensor], h: Tensor, graph: Graph) -> Tensor:
        """Attend over in-neighbours and oneself."""
        moved, source, target = scored(params, h, graph)
        return ops.attend(moved, source, target, graph, self.slope) + ops.by_row(params["bias"], graph)

    def attention(self, params: Parameters, graph: Graph) -> Tensor:
        """Return the first layer's coefficients, one for each edge and self-loop."""
        _, source, target = scored(params["layer1"], graph["x"], graph)
        return ops.coefficients(source, target, graph, self.slope)

    def layer_flops(self, nodes: int, edges: int, nonzeros: int, inputs: int, outputs: int) -> float:
        """The product with the weights, two scores a node, and softmax and sum over edges and self-loops."""
        return 2.0 * nonzeros * outputs + 4.0 * nodes * outputs + (edges + nodes) * (2.0 * outputs + 6)


def scored(params: dict[str, Tensor], h: Tensor, graph: Graph) -> tuple[Tensor, Tensor, Tensor]:
    """Return h times the weight (N, H), and each node's part of the score as a source and as a target (N,)."""
    moved = ops.linear(h, params["weight"], graph)
    both = ops.linear(moved, torch.stack([params["source"], params["target"]], dim=2), graph)
    return moved, both[:, 0], both[:, 1]
