"""Graph-convolutional recurrent network with an LSTM (Seo et al., ICONIP 2018, model 2, Eq. 5), peepholes included.

    i, f = σ(conv(x) + conv(s) + w ⊙ c), each with weights of its own;  c ← f ⊙ c + i ⊙ tanh(conv(x) + conv(s));
    o = σ(conv(x) + conv(s) + w ⊙ c);  s ← o ⊙ tanh(c)

conv is Chebyshev's, of `order` terms.  A node's state is s beside c.  It takes no corrections.
"""

from dataclasses import dataclass

import torch
from torch import Generator, Tensor

from fedsim.data.graph import Graph
from fedsim.learn.engine.ops import by_row
from fedsim.learn.layers.gcrn import GCRNCell
from fedsim.learn.model import glorot


@dataclass(frozen=True)
class GCRNLSTM(GCRNCell):
    """Weights drawn from ±1/√(inputs · order), Glorot peepholes, zero biases; i, f, o and the input in this order."""

    gates = 4
    state_flops = 20.0

    def layer_init(self, inputs: int, outputs: int, generator: Generator) -> dict[str, Tensor]:
        """Return input (F, order · 4 H), memory (H, order · 4 H), peepholes (3 H,) and bias (4 H,)."""
        return {
            "input": self.filters(inputs, 4 * outputs, generator),
            "memory": self.filters(outputs, 4 * outputs, generator),
            "peepholes": glorot(1, outputs, generator, (3 * outputs,)),
            "bias": torch.zeros(4 * outputs),
        }

    def layer(self, params: dict[str, Tensor], h: Tensor, graph: Graph) -> Tensor:
        """Return the new s and c (N, 2 H)."""
        state, cell = graph["state"].chunk(2, dim=1)
        given = self.convolve(h, params["input"], graph) + self.convolve(state, params["memory"], graph)
        return self.lstm(params, given + by_row(params["bias"], graph), cell, graph)
