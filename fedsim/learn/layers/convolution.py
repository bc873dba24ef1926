"""Linear parts of graph convolutions: sums over neighbours and oneself, corrected from outside, and Chebyshev's.

A client that holds a part of a graph lacks the neighbours that others hold.  What they would add to a layer's
sums, `delta` (N, F), is linear up to the weight, so that with it (and with the degrees of the whole graph,
`degree`) the layer's output is that of the whole graph.  Not modelled: attention and edge weights.
"""

from typing import Literal

import torch
from torch import Tensor

from fedsim.data.graph import Graph
from fedsim.learn.engine import layout, ops

Norm = Literal["sum", "mean", "sym"]


def aggregate(h: Tensor, graph: Graph, norm: Norm) -> Tensor:
    """Return the sum over each node's in-neighbours and itself of h (N, H), the graph's `delta` left aside.

    With d the nodes there are in each sum, `mean` divides it by d_i and `sym` weighs each term by
    1/√(d_i d_j).  Where the graph has `degree`, that is d: the degrees in a larger graph that this one is a
    part of.
    """
    degree = graph.get("degree")
    if norm == "sum":
        return ops.propagate(h, graph, "closed")
    if norm == "sym" and degree is None:
        return ops.propagate(h, graph, "sym")
    size = (layout.of(graph).degree if degree is None else degree).clamp(min=1).to(h.dtype).unsqueeze(1)
    if norm == "mean":
        return ops.propagate(h, graph, "closed") / size
    root = size.rsqrt()
    return root * ops.propagate(root * h, graph, "closed")


def convolve(h: Tensor, weight: Tensor, graph: Graph, norm: Norm) -> Tensor:
    """Return (aggregate(h) + delta) W: h (N, F) dense or the graph's sparse features, weight (K, F, H), result (N, H).

    The weight comes first, which is the same and mostly moves fewer numbers along the edges.
    """
    result = aggregate(ops.linear(h, weight, graph), graph, norm)
    delta = graph.get("delta")
    return result if delta is None else result + ops.linear(delta, weight, graph)


def chebyshev(h: Tensor, weight: Tensor, graph: Graph, order: int) -> Tensor:
    """Return Σ_k T_k(L̂) h W_k for k < order: h (N, F), weight (K, F, order · H), result (N, H).

    L̂ = 2 L / 2 - I = -D^-1/2 A D^-1/2, the Laplacian scaled by the largest eigenvalue that it can have, 2
    (Defferrard, Bresson and Vandergheynst, NeurIPS 2016, section 2.1).  Summed by Clenshaw's recurrence, from
    the highest term down, so that it is the outputs that move along the edges.
    """
    terms = ops.linear(h, weight, graph).chunk(order, dim=1)
    above = after = torch.zeros_like(terms[0])
    for term in reversed(terms[1:]):
        above, after = term - 2 * ops.propagate(above, graph, "open_sym") - after, above
    return terms[0] - ops.propagate(above, graph, "open_sym") - after


def chebyshev_flops(nodes: int, edges: int, nonzeros: int, order: int, outputs: int) -> float:
    """Return the operations of `chebyshev` on h of that many numbers."""
    return 2.0 * nonzeros * order * outputs + (order - 1) * (2.0 * edges + 3 * nodes) * outputs


def batch_norm(h: Tensor, scale: Tensor, shift: Tensor, graph: Graph) -> Tensor:
    """Return h (N, H) normalised over each client's nodes, times scale (K, H), plus shift (K, H).

    By the mean and the biased variance of the graph at hand, in evaluation too: no running statistics (Ioffe
    and Szegedy, ICML 2015, without section 3.1).  Nodes of the halo do not count.
    """
    halo = graph.get("halo")
    counted = torch.ones_like(h[:, :1]) if halo is None else (~halo).to(h.dtype).unsqueeze(1)
    size = ops.sum_by_client(counted, graph).clamp(min=1)
    centred = h - ops.by_row(ops.sum_by_client(h * counted, graph) / size, graph)
    variance = ops.sum_by_client(centred.square() * counted, graph) / size
    return centred * ops.by_row(scale * (variance + 1e-5).rsqrt(), graph) + ops.by_row(shift, graph)
