"""Graph-convolutional recurrent network with a gated recurrent unit (after Seo et al., ICONIP 2018).

    z, r = σ(conv(x) + conv(s)), each with weights of its own;  c = tanh(conv(x) + conv(r ⊙ s));
    s ← z ⊙ s + (1 - z) ⊙ c

conv is Chebyshev's, of `order` terms.  It takes no corrections.
"""

from dataclasses import dataclass

import torch

from fedsim.core.units import Count
from fedsim.learn.convolution import chebyshev, chebyshev_flops
from fedsim.learn.model import fan_in
from fedsim.learn.ops import by_row
from fedsim.learn.recurrent import Recurrent


@dataclass(frozen=True)
class GCRNGRU(Recurrent):
    """Weights drawn from ±1/√(inputs · order), zero biases."""

    layers: Count = 1  # recurrent layers, followed by the classifier
    order: Count = 7  # terms of each Chebyshev convolution: hops plus one

    def layer_init(self, inputs, outputs, generator):
        """Return input (F, order · 3 H), memory (H, order · 2 H), candidate (H, order · H) and bias (3 H,)."""
        return {
            "input": fan_in(inputs * self.order, generator, (inputs, self.order * 3 * outputs)),
            "memory": fan_in(outputs * self.order, generator, (outputs, self.order * 2 * outputs)),
            "candidate": fan_in(outputs * self.order, generator, (outputs, self.order * outputs)),
            "bias": torch.zeros(3 * outputs),
        }

    def layer(self, params, h, graph):
        """Return the new states (N, H)."""
        state = graph["state"]
        given = chebyshev(h, params["input"], graph, self.order) + by_row(params["bias"], graph)
        of_gates, of_candidate = given.split([2 * self.hidden, self.hidden], dim=1)
        gates = torch.sigmoid(of_gates + chebyshev(state, params["memory"], graph, self.order))
        kept, reset = gates.chunk(2, dim=1)
        fresh = torch.tanh(of_candidate + chebyshev(reset * state, params["candidate"], graph, self.order))
        return kept * state + (1 - kept) * fresh

    def layer_flops(self, vertices, edges, nonzeros, inputs, outputs):
        """Convolutions of the input and of the states to three widths, and twelve operations a state."""
        of_input = chebyshev_flops(vertices, edges, nonzeros, self.order, 3 * outputs)
        return (
            of_input
            + chebyshev_flops(vertices, edges, vertices * outputs, self.order, 3 * outputs)
            + (12.0 * vertices * outputs)
        )
