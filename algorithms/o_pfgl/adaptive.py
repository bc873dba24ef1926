"""How much each node of a client listens to the global teacher (O-pFGL's node-adaptive distillation).

    γ_i = clamp(γ Σ_c P_i(c) / (1 + ln(1 + H_c)), least, γ)

P comes of label propagation from training nodes: Y ← clip(α Â Y + (1 − α) Y₀), α = 0.9, twice, Â without self-loops;
rows are normalised to sum to one unless `official`, whose rows are as they come.  H_c sums the homophily of the class's
training nodes: the share of a node's labelled neighbours that have its label.  (Reconstructed: no label but those
of training nodes is read.)  A class that is seldom, or badly linked, so listens more.
"""

import torch
from torch import Tensor

from fedsim.data.graph import Graph
from fedsim.learn.engine import ops

ALPHA, STEPS = 0.9, 2


def propagated(graph: Graph, classes: int, *, official: bool = False) -> Tensor:
    """Return P (N, C); a node that no label reaches has zeros."""
    first = ops.training_labels(graph, classes).float()
    y = ops.spread_labels(first, ALPHA, STEPS, lambda y: ops.propagate(y, graph, "open_sym"))
    return y if official else y / y.sum(1, keepdim=True).clamp(min=1e-12)


def homophily(graph: Graph, classes: int) -> Tensor:
    """Return H (C,)."""
    first = ops.training_labels(graph, classes).float()
    around = ops.propagate(first, graph, "sum")
    return ((around * first).sum(1) / around.sum(1).clamp(min=1)) @ first


@torch.no_grad()
def weights(graph: Graph, classes: int, top: float, least: float, *, official: bool = False) -> Tensor:
    """Return γ (N,) of a client's nodes."""
    each = 1 / (1 + torch.log1p(homophily(graph, classes)))
    return (top * (propagated(graph, classes, official=official) @ each)).clamp(least, top)


def flops(graph: Graph, classes: int) -> float:
    """Return the operations of the weights: three sums over neighbours."""
    return 2.0 * (STEPS + 1) * graph["edges"].shape[1] * classes
