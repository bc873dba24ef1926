"""Graph-convolutional recurrent network whose recurrence looks at no neighbours (Seo et al., ICONIP 2018, model 1).

    u = conv(x) + b;  i, f = σ(u W + s U + w ⊙ c + b), each with weights of its own;
    c ← f ⊙ c + i ⊙ tanh(u W + s U + b);  o = σ(u W + s U + w ⊙ c + b);  s ← o ⊙ tanh(c)

conv is Chebyshev's, of `order` terms.  A vertex's state is s beside c, 2 H floats, which its owner keeps.  This is
GCRN-Baseline of ROLAND's public code (`gconv_lstm_baseline.py`), which demands F = H and sums over directed edges by
the degree of rows; here conv maps F to H, and edges are undirected.  It takes no corrections.

Trained by live update, a vertex's state is given and nothing teaches the model what to keep; `bptt` of `dg_colearn`
is the other published mode, gradients through all snapshots.
"""

from dataclasses import dataclass

import torch

from fedsim.core.units import Count
from fedsim.learn import ops
from fedsim.learn.convolution import chebyshev, chebyshev_flops
from fedsim.learn.model import fan_in, glorot
from fedsim.learn.recurrent import Recurrent


@dataclass(frozen=True)
class GCRNBaseline(Recurrent):
    """Glorot gates, i, f, o and the input, and peepholes; zero biases; conv from ±1/√(inputs · order)."""

    layers: Count = 1  # recurrent layers, followed by the classifier
    order: Count = 7  # terms of each Chebyshev convolution: hops plus one

    def layer_init(self, inputs, outputs, generator):
        """Return input (F, order · H), shift (H,), given and memory (H, 4 H), peepholes (3 H,) and bias (4 H,)."""
        return {
            "input": fan_in(inputs * self.order, generator, (inputs, self.order * outputs)),
            "shift": torch.zeros(outputs),
            "given": glorot(outputs, outputs, generator, (outputs, 4 * outputs)),
            "memory": glorot(outputs, outputs, generator, (outputs, 4 * outputs)),
            "peepholes": glorot(1, outputs, generator, (3 * outputs,)),
            "bias": torch.zeros(4 * outputs),
        }

    def layer_state(self, features):
        """Return the widths of s and c together."""
        return 2 * self.hidden

    def layer(self, params, h, graph):
        """Return the new s and c (N, 2 H)."""
        state, cell = graph["state"].chunk(2, dim=1)
        u = chebyshev(h, params["input"], graph, self.order) + ops.by_row(params["shift"], graph)
        given = ops.linear(u, params["given"], graph, params["bias"])
        first, second, third, fresh = (given + ops.linear(state, params["memory"], graph)).chunk(4, dim=1)
        let_in, keep, let_out = ops.by_row(params["peepholes"], graph).chunk(3, dim=1)
        entered = torch.sigmoid(first + let_in * cell) * torch.tanh(fresh)
        cell = torch.sigmoid(second + keep * cell) * cell + entered
        return torch.cat([torch.sigmoid(third + let_out * cell) * torch.tanh(cell), cell], dim=1)

    def layer_flops(self, vertices, edges, nonzeros, inputs, outputs):
        """The convolution, two dense products to four widths, and 21 operations a state."""
        dense = 16.0 * vertices * outputs**2 + 21.0 * vertices * outputs
        return chebyshev_flops(vertices, edges, nonzeros, self.order, outputs) + dense
