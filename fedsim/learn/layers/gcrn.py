"""What graph-convolutional recurrent networks share (Seo et al., ICONIP 2018): Chebyshev's convolutions, and the LSTM.

They take no corrections.
"""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Generator, Tensor

from fedsim.core.units import Count
from fedsim.data.graph import Graph
from fedsim.learn.engine.ops import by_row
from fedsim.learn.layers.convolution import chebyshev, chebyshev_flops
from fedsim.learn.layers.recurrent import Recurrent
from fedsim.learn.model import fan_in


@dataclass(frozen=True)
class GCRN(Recurrent):
    """Convolutions drawn from ±1/√(inputs · order)."""

    layers: Count = 1  # recurrent layers, followed by the classifier
    order: Count = 7  # terms of each Chebyshev convolution: hops plus one
    gates: ClassVar[int]  # widths H to which input and states are convolved
    state_flops: ClassVar[float]  # operations a state beside the convolutions

    def filters(self, inputs: int, outputs: int, generator: Generator) -> Tensor:
        """Return the first weights (F, order · H) of a convolution."""
        return fan_in(inputs * self.order, generator, (inputs, self.order * outputs))

    def convolve(self, h: Tensor, weight: Tensor, graph: Graph) -> Tensor:
        """Return the convolution of h (N, F) with the weights (K, F, order · H): (N, H)."""
        return chebyshev(h, weight, graph, self.order)

    def layer_flops(self, nodes: int, edges: int, nonzeros: int, inputs: int, outputs: int) -> float:
        """Convolutions of the input and of the states to the gates' widths, and what follows."""
        numbers, width = (nonzeros, nodes * outputs), self.gates * outputs
        convolutions = sum(chebyshev_flops(nodes, edges, count, self.order, width) for count in numbers)
        return convolutions + self.state_flops * nodes * outputs


class GCRNCell(GCRN):
    """One whose nodes have the state s beside the cell c of an LSTM with peepholes."""

    def layer_state(self, features: int) -> int:
        """Return the widths of s and c together."""
        return 2 * self.hidden

    def lstm(self, params: dict[str, Tensor], given: Tensor, cell: Tensor, graph: Graph) -> Tensor:
        """Return the new s and c (N, 2 H) for what enters i, f, o and the input (N, 4 H), in this order."""
        first, second, third, fresh = given.chunk(4, dim=1)
        let_in, keep, let_out = by_row(params["peepholes"], graph).chunk(3, dim=1)
        entered = torch.sigmoid(first + let_in * cell) * torch.tanh(fresh)
        cell = torch.sigmoid(second + keep * cell) * cell + entered
        return torch.cat([torch.sigmoid(third + let_out * cell) * torch.tanh(cell), cell], dim=1)
