"""EvolveGCN-H (Pareja et al., AAAI 2020, section 3.3): weights evolve with a summary of the nodes.

    s = h p / ‖p‖;  I = (h[top] ⊙ tanh(s[top]))ᵀ,  top: the H nodes of the largest s, as many as W has columns

A graph with fewer nodes repeats the last of them; an empty one has a summary of zeros.
"""

from dataclasses import dataclass

import torch
from torch import Generator, Tensor

from fedsim.data.graph import Graph, as_dense
from fedsim.learn.engine import blocks, ops
from fedsim.learn.engine.products import product
from fedsim.learn.layers.recurrent import Evolving
from fedsim.learn.model import fan_in


@dataclass(frozen=True)
class EvolveGCNH(Evolving):
    """Ties are broken by the order of the nodes."""

    def layer_init(self, inputs: int, outputs: int, generator: Generator) -> dict[str, Tensor]:
        """Return the layer's parameters with the vector p (F,), `scorer`."""
        return super().layer_init(inputs, outputs, generator) | {"scorer": fan_in(inputs, generator, (inputs,))}

    def pools(self) -> bool:
        """The summary is computed from a whole graph."""
        return True

    def summary(self, params: dict[str, Tensor], h: Tensor, graph: Graph) -> Tensor:
        """Return the summary (K, F, H), differentiable in h and in p."""
        direction = params["scorer"] / params["scorer"].norm(dim=1, keepdim=True)
        score = ops.linear(h, direction.unsqueeze(2), graph)
        taken = chosen(score.detach().squeeze(1), params["weight"].shape[2], graph)
        dense = as_dense(h)
        return product(dense * torch.tanh(score), taken).view(len(params["weight"]), -1, dense.shape[1]).mT

    def layer_flops(self, nodes: int, edges: int, nonzeros: int, inputs: int, outputs: int) -> float:
        """The scores and their products too."""
        return super().layer_flops(nodes, edges, nonzeros, inputs, outputs) + 3.0 * nonzeros + nodes


def chosen(score: Tensor, count: int, graph: Graph) -> blocks.Matrix:
    """Return the matrix (K · count, N) that takes each client's nodes of the largest scores (N,), best first."""
    clients, n = len(graph["sizes"]), len(score)
    order = torch.argsort(score, descending=True, stable=True)
    order = order[torch.argsort(graph["client"][order], stable=True)]
    sizes = graph["sizes"].unsqueeze(1)
    place = torch.minimum(torch.arange(count, device=score.device).unsqueeze(0), (sizes - 1).clamp(min=0))
    filled = (sizes > 0).expand(clients, count).flatten()
    column = order[((sizes.cumsum(0) - sizes) + place).flatten()[filled]]
    crow = torch.cat([filled.new_zeros(1).int(), filled.cumsum(0).int()])
    rows = blocks.Csr(crow, column.int(), score.new_ones(len(column)), (len(filled), n))
    return blocks.Matrix(rows, blocks.transposed(rows))
