"""Graph-convolutional recurrent network with a gated recurrent unit (after Seo et al., ICONIP 2018).

    z, r = σ(conv(x) + conv(s)), each with weights of its own;  c = tanh(conv(x) + conv(r ⊙ s));
    s ← z ⊙ s + (1 - z) ⊙ c

conv is Chebyshev's, of `order` terms.  It takes no corrections.
"""

from dataclasses import dataclass

import torch
from torch import Generator, Tensor

from fedsim.data.graph import Graph
from fedsim.learn.engine.ops import by_row
from fedsim.learn.layers.gcrn import GCRN


@dataclass(frozen=True)
class GCRNGRU(GCRN):
    """Weights drawn from ±1/√(inputs · order), zero biases."""

    gates = 3
    state_flops = 12.0

    def layer_init(self, inputs: int, outputs: int, generator: Generator) -> dict[str, Tensor]:
        """Return input (F, order · 3 H), memory (H, order · 2 H), candidate (H, order · H) and bias (3 H,)."""
        return {
            "input": self.filters(inputs, 3 * outputs, generator),
            "memory": self.filters(outputs, 2 * outputs, generator),
            "candidate": self.filters(outputs, outputs, generator),
            "bias": torch.zeros(3 * outputs),
        }

    def layer(self, params: dict[str, Tensor], h: Tensor, graph: Graph) -> Tensor:
        """Return the new states (N, H)."""
        state = graph["state"]
        given = self.convolve(h, params["input"], graph) + by_row(params["bias"], graph)
        of_gates, of_candidate = torch.split(given, [2 * self.hidden, self.hidden], dim=1)
        update, reset = torch.sigmoid(of_gates + self.convolve(state, params["memory"], graph)).chunk(2, dim=1)
        candidate = torch.tanh(of_candidate + self.convolve(reset * state, params["candidate"], graph))
        return update * state + (1 - update) * candidate
