"""How well a client's neighbourhoods speak for each class (FedTAD, IJCAI 2024: class-wise knowledge reliability).

    rᵢ = [(P)ᵢᵢ, (P²)ᵢᵢ, …],   P = D⁻¹ (A + I): the chances that a random walk is back after so many steps
    φ_c = Σ_{i ∈ train, yᵢ = c} (1 + Σ_{j ∈ N(i)} cos([xᵢ ‖ rᵢ], [xⱼ ‖ rⱼ])) / (|N(i)| + 1)

Many training vertices of a class that resemble their neighbours make it reliable.  The published code takes for r the
numbers of the vertices on drawn walks, which depend on the numbering of vertices and outweigh any feature; here r is
what random walks are likely to do.  Nothing but the labels of training vertices is read; features of all are.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from fedsim.data.graph import Graph, as_dense
from fedsim.learn import layout, ops

COLUMNS = 2048  # vertices whose walks are followed together


def returns(graph: Graph, length: int) -> Tensor:
    """Return the chances of being back after 1 … length steps, one graph's: (N, length)."""
    n, device = len(graph["y"]), graph["y"].device
    degree = layout.of(graph).degree.unsqueeze(1)
    found = torch.zeros(n, length, device=device)
    for first in range(0, n, COLUMNS):
        own = torch.arange(first, min(first + COLUMNS, n), device=device)
        column = torch.arange(len(own), device=device)
        reached = torch.zeros(n, len(own), device=device)
        reached[own, column] = 1.0
        for step in range(length):
            reached = ops.propagate(reached, graph, "closed") / degree
            found[own, step] = reached[own, column]
    return found


@torch.no_grad()
def of_classes(graph: Graph, classes: int, length: int) -> Tensor:
    """Return φ (C,) of one client's graph; 0 where a class has no training vertex."""
    unit = F.normalize(torch.cat([as_dense(graph["x"]), returns(graph, length)], 1), dim=1)
    # no row is zero, so that the vertex itself adds the 1 to the sum over its neighbours
    agreement = (unit * ops.propagate(unit, graph, "closed")).sum(1) / layout.of(graph).degree
    marks = F.one_hot(torch.where(graph["train"], graph["y"], 0), classes) * graph["train"].unsqueeze(1)
    return marks.to(agreement.dtype).T @ agreement


def flops(graph: Graph, length: int) -> float:
    """Return the operations of `of_classes`: walks of all vertices, and a product for each edge."""
    n, edges = len(graph["y"]), graph["edges"].shape[1] + len(graph["y"])
    return 2.0 * length * edges * n + 2.0 * edges * (graph["x"].shape[1] + length)
