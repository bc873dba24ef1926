"""GraphSAGE with the mean aggregator (Hamilton et al., NeurIPS 2017): mean(neighbours) W + b + x R."""

from dataclasses import dataclass

from torch import Generator, Tensor

from fedsim.data.graph import Graph
from fedsim.learn.engine import ops
from fedsim.learn.layers import dense
from fedsim.learn.model import Model, fan_in


@dataclass(frozen=True)
class SAGE(Model):
    """Full neighbourhoods: no sampling, no normalisation of the output."""

    def layer_init(self, inputs: int, outputs: int, generator: Generator) -> dict[str, Tensor]:
        """Return weight (F, H) and bias (H,) for the neighbours and root (F, H) for the node itself."""
        return {**dense.layer(inputs, outputs, generator), "root": fan_in(inputs, generator, (inputs, outputs))}

    def layer(self, params: dict[str, Tensor], h: Tensor, graph: Graph) -> Tensor:
        """Transform before averaging, which is the same and moves fewer numbers."""
        neighbours = ops.propagate(ops.linear(h, params["weight"], graph), graph, "mean")
        return neighbours + ops.linear(h, params["root"], graph, params["bias"])

    def layer_flops(self, nodes: int, edges: int, nonzeros: int, inputs: int, outputs: int) -> float:
        """Two products with weights, and each edge."""
        return 4.0 * nonzeros * outputs + 2.0 * edges * outputs
