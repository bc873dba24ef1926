"""The topology-consistency criterion: how much neighbours' similarity depends on a model's parameters (GHOST, Eq. 9).

    h^l: output of layer l, rectified save for the last;   e_ij^l = ⟨V^l h_i^l, tanh(V^l h_j^l)⟩,   V^l h = W^l h
    J^l = (1/|E|) Σ_{(i,j) ∈ E} (e_ij^l)²;   I_p = Σ_l |∂J^l/∂p|

W^l (F_in, F_out) is the layer's own weight, so that V^l leads from its output back to the width of its input.

Reconstructed: the public code has the first layer alone, and with self-loops; the authors speak of all layers.  That
J is divided by the number of edges, so that its scale does not depend on a graph's size, and that importance is taken
of each number and not of each tensor follows TWP (Liu, Yang and Wang, AAAI 2021).  Dropout is off.  Models that are
not plain layers with a `weight` are not covered (`fedsim.learn.model.plain`).
"""

import torch
from torch import Tensor

from fedsim.data.graph import Graph
from fedsim.learn import tree
from fedsim.learn.model import Model, Parameters


def layers(model: Model, params: Parameters, graph: Graph) -> list[Tensor]:
    """Return the output of every layer (N, ·) of parameters with a client axis of one: rectified, but the last."""
    outputs, h = [], graph["x"]
    for i in range(1, model.layers + 1):
        h = model.layer(params[f"layer{i}"], h, graph)
        h = torch.relu(h) if i < model.layers else h
        outputs.append(h)
    return outputs


def coherence(h: Tensor, weight: Tensor, pairs: Tensor) -> Tensor:
    """Return e (E,) of pairs (2, E) for a layer's output h (N, H) and weight W (F, H)."""
    back = torch.tanh(h @ weight.T) @ weight  # ⟨W h_i, tanh(W h_j)⟩ = ⟨h_i, Wᵀ tanh(W h_j)⟩: H numbers an edge, not F
    return (h[pairs[0]] * back[pairs[1]]).sum(1)


def measures(model: Model, params: Parameters, graph: Graph, *, self_loops: bool = False) -> list[Tensor]:
    """Return J () of every layer; zero where there is no pair."""
    pairs = graph["edges"]
    if self_loops:
        every = torch.arange(len(graph["y"]), device=pairs.device)
        pairs = torch.cat([pairs, torch.stack([every, every])], 1)
    outputs = layers(model, params, graph)
    weights = [params[f"layer{i}"]["weight"][0] for i in range(1, model.layers + 1)]
    each = [coherence(h, weight, pairs) for h, weight in zip(outputs, weights, strict=True)]
    return [e.square().sum() / max(1, len(e)) for e in each]


def importance(model: Model, params: Parameters, graph: Graph, *, self_loops: bool = False) -> Parameters:
    """Return I, one number for each of the parameters (without a client axis), of a graph outside training."""
    own = tree.transform(lambda leaf: leaf.detach().unsqueeze(0).requires_grad_(True), params)
    leaves = list(tree.leaves(own))
    total = [torch.zeros_like(leaf) for leaf in leaves]
    for measure in measures(model, own, graph, self_loops=self_loops):
        found = torch.autograd.grad(measure, leaves, retain_graph=True, allow_unused=True)
        total = [sum_ if grad is None else sum_ + grad.abs() for sum_, grad in zip(total, found, strict=True)]
    each = iter(total)
    return tree.transform(lambda _: next(each)[0], own)
