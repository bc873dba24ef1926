"""Graph attention network (Veličković et al., ICLR 2018), one head a layer, as POWER uses it (power.md 1.6)."""

from dataclasses import dataclass

import torch

from fedsim.learn import ops
from fedsim.learn.model import Model, glorot


@dataclass(frozen=True)
class GAT(Model):
    """One weight for source and target, self-loops, leaky slope 0.2, biases; no dropout on the attention."""

    slope: float = 0.2  # of the leaky rectifier on the scores

    def layer_init(self, inputs, outputs, generator):
        """Return weight (F, H), the attention vectors source and target (H,), and bias (H,)."""
        return {
            "weight": glorot(inputs, outputs, generator),
            "source": glorot(1, outputs, generator, (outputs,)),
            "target": glorot(1, outputs, generator, (outputs,)),
            "bias": torch.zeros(outputs),
        }

    def layer(self, params, h, graph):
        """Attend over in-neighbours and oneself."""
        moved = ops.linear(h, params["weight"], graph)
        both = ops.linear(moved, torch.stack([params["source"], params["target"]], dim=2), graph)
        return ops.attend(moved, both[:, 0], both[:, 1], graph, self.slope) + ops.by_row(params["bias"], graph)

    def layer_flops(self, vertices, edges, nonzeros, inputs, outputs):
        """The product with the weights, two scores a vertex, and softmax and sum over edges and self-loops."""
        return 2.0 * nonzeros * outputs + 4.0 * vertices * outputs + (edges + vertices) * (2.0 * outputs + 6)
