"""Multilayer perceptron: the same layers without the graph, to show what the edges contribute."""

from dataclasses import dataclass

from torch import Generator, Tensor

from fedsim.data.graph import Graph
from fedsim.learn.engine import ops
from fedsim.learn.layers import dense
from fedsim.learn.model import Model


@dataclass(frozen=True)
class MLP(Model):
    """x W + b; edges are ignored."""

    def layer_init(self, inputs: int, outputs: int, generator: Generator) -> dict[str, Tensor]:
        """Return weight (F, H) and bias (H,), as `torch.nn.Linear` draws them."""
        return dense.layer(inputs, outputs, generator)

    def layer(self, params: dict[str, Tensor], h: Tensor, graph: Graph) -> Tensor:
        """One affine map a client."""
        return ops.linear(h, params["weight"], graph, params["bias"])

    def layer_flops(self, nodes: int, edges: int, nonzeros: int, inputs: int, outputs: int) -> float:
        """The product with the weights."""
        return 2.0 * nonzeros * outputs
