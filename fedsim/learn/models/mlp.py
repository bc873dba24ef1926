"""Multilayer perceptron: the same layers without the graph, to show what the edges contribute."""

from dataclasses import dataclass

from fedsim.learn import dense, ops
from fedsim.learn.model import Model


@dataclass(frozen=True)
class MLP(Model):
    """x W + b; edges are ignored."""

    def layer_init(self, inputs, outputs, generator):
        """Return weight (F, H) and bias (H,), as `torch.nn.Linear` draws them."""
        return dense.layer(inputs, outputs, generator)

    def layer(self, params, h, graph):
        """One affine map a client."""
        return ops.linear(h, params["weight"], graph, params["bias"])

    def layer_flops(self, vertices, edges, nonzeros, inputs, outputs):
        """The product with the weights."""
        return 2.0 * nonzeros * outputs
