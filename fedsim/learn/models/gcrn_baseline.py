"""Graph-convolutional recurrent network whose recurrence looks at no neighbours (Seo et al., ICONIP 2018, model 1).

    u = conv(x) + b;  i, f = σ(u W + s U + w ⊙ c + b), each with weights of its own;
    c ← f ⊙ c + i ⊙ tanh(u W + s U + b);  o = σ(u W + s U + w ⊙ c + b);  s ← o ⊙ tanh(c)

conv is Chebyshev's, of `order` terms.  A node's state is s beside c, 2 H floats, which its owner keeps.  This
is GCRN-Baseline of ROLAND's public code (`gconv_lstm_baseline.py`), which demands F = H and sums over
directed edges by the degree of rows; here conv maps F to H, and edges are undirected.  It takes no
corrections.

Trained by live update, a node's state is given and nothing teaches the model what to keep; `bptt` of
`dg_colearn` is the other published mode, gradients through all snapshots.
"""

from dataclasses import dataclass

import torch
from torch import Generator, Tensor

from fedsim.data.graph import Graph
from fedsim.learn.engine import ops
from fedsim.learn.layers.convolution import chebyshev_flops
from fedsim.learn.layers.gcrn import GCRNCell
from fedsim.learn.model import glorot


@dataclass(frozen=True)
class GCRNBaseline(GCRNCell):
    """Glorot gates, i, f, o and the input, and peepholes; zero biases; conv from ±1/√(inputs · order)."""

    def layer_init(self, inputs: int, outputs: int, generator: Generator) -> dict[str, Tensor]:
        """Return input (F, order · H), shift (H,), given and memory (H, 4 H), peepholes (3 H,) and bias (4 H,)."""
        return {
            "input": self.filters(inputs, outputs, generator),
            "shift": torch.zeros(outputs),
            "given": glorot(outputs, outputs, generator, (outputs, 4 * outputs)),
            "memory": glorot(outputs, outputs, generator, (outputs, 4 * outputs)),
            "peepholes": glorot(1, outputs, generator, (3 * outputs,)),
            "bias": torch.zeros(4 * outputs),
        }

    def layer(self, params: dict[str, Tensor], h: Tensor, graph: Graph) -> Tensor:
        """Return the new s and c (N, 2 H)."""
        state, cell = graph["state"].chunk(2, dim=1)
        u = self.convolve(h, params["input"], graph) + ops.by_row(params["shift"], graph)
        given = ops.linear(u, params["given"], graph, params["bias"]) + ops.linear(state, params["memory"], graph)
        return self.lstm(params, given, cell, graph)

    def layer_flops(self, nodes: int, edges: int, nonzeros: int, inputs: int, outputs: int) -> float:
        """The convolution, two dense products to four widths, and 21 operations a state."""
        dense = 16.0 * nodes * outputs**2 + 21.0 * nodes * outputs
        return chebyshev_flops(nodes, edges, nonzeros, self.order, outputs) + dense
