"""Graph-convolutional recurrent network with an LSTM (Seo et al., ICONIP 2018, model 2, Eq. 5), peepholes included.

    i, f = σ(conv(x) + conv(s) + w ⊙ c), each with weights of its own;  c ← f ⊙ c + i ⊙ tanh(conv(x) + conv(s));
    o = σ(conv(x) + conv(s) + w ⊙ c);  s ← o ⊙ tanh(c)

conv is Chebyshev's, of `order` terms.  A vertex's state is s beside c.  It takes no corrections.
"""

from dataclasses import dataclass

import torch

from fedsim.core.units import Count
from fedsim.learn.convolution import chebyshev, chebyshev_flops
from fedsim.learn.model import fan_in, glorot
from fedsim.learn.ops import by_row
from fedsim.learn.recurrent import Recurrent


@dataclass(frozen=True)
class GCRNLSTM(Recurrent):
    """Weights drawn from ±1/√(inputs · order), Glorot peepholes, zero biases; i, f, o and the input in this order."""

    layers: Count = 1  # recurrent layers, followed by the classifier
    order: Count = 7  # terms of each Chebyshev convolution: hops plus one

    def layer_init(self, inputs, outputs, generator):
        """Return input (F, order · 4 H), memory (H, order · 4 H), peepholes (3 H,) and bias (4 H,)."""
        return {
            "input": fan_in(inputs * self.order, generator, (inputs, self.order * 4 * outputs)),
            "memory": fan_in(outputs * self.order, generator, (outputs, self.order * 4 * outputs)),
            "peepholes": glorot(1, outputs, generator, (3 * outputs,)),
            "bias": torch.zeros(4 * outputs),
        }

    def layer_state(self, features):
        """Return the widths of s and c together."""
        return 2 * self.hidden

    def layer(self, params, h, graph):
        """Return the new s and c (N, 2 H)."""
        state, cell = graph["state"].chunk(2, dim=1)
        given = chebyshev(h, params["input"], graph, self.order) + chebyshev(state, params["memory"], graph, self.order)
        first, second, third, fresh = (given + by_row(params["bias"], graph)).chunk(4, dim=1)
        let_in, keep, let_out = by_row(params["peepholes"], graph).chunk(3, dim=1)
        entered = torch.sigmoid(first + let_in * cell) * torch.tanh(fresh)
        cell = torch.sigmoid(second + keep * cell) * cell + entered
        return torch.cat([torch.sigmoid(third + let_out * cell) * torch.tanh(cell), cell], dim=1)

    def layer_flops(self, vertices, edges, nonzeros, inputs, outputs):
        """Convolutions of the input and of the states to four widths, and twenty operations a state."""
        of_input = chebyshev_flops(vertices, edges, nonzeros, self.order, 4 * outputs)
        return (
            of_input
            + chebyshev_flops(vertices, edges, vertices * outputs, self.order, 4 * outputs)
            + (20.0 * vertices * outputs)
        )
