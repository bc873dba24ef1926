"""Graph convolutional network (Kipf and Welling, ICLR 2017): D^-1/2 (A + I) D^-1/2 X W + b."""

from dataclasses import dataclass

import torch
from torch import Generator, Tensor

from fedsim.data.graph import Graph
from fedsim.learn.engine import ops
from fedsim.learn.model import Model, glorot


@dataclass(frozen=True)
class GCN(Model):
    """Symmetric normalisation with self-loops; Glorot weights, zero biases."""

    def layer_init(self, inputs: int, outputs: int, generator: Generator) -> dict[str, Tensor]:
        """Return weight (F, H) and bias (H,)."""
        return {"weight": glorot(inputs, outputs, generator), "bias": torch.zeros(outputs)}

    def layer(self, params: dict[str, Tensor], h: Tensor, graph: Graph) -> Tensor:
        """Transform, then propagate, since the output is usually the narrower side."""
        return ops.propagate(ops.linear(h, params["weight"], graph), graph, "sym", params["bias"])

    def layer_flops(self, nodes: int, edges: int, nonzeros: int, inputs: int, outputs: int) -> float:
        """Two operations a multiply-add: the product with the weights, and each edge and self-loop."""
        return 2.0 * nonzeros * outputs + 2.0 * (edges + nodes) * outputs
