"""Graphs with states, and gradients of models on unions, for the tests of recurrent models."""

import torch
from learnlab import sparse
from torch import Tensor

from fedsim.data.graph import Graph, graph_of
from fedsim.learn.engine import tree


def undirected(nodes: int, seed: int, *, features: int = 7, width: int = 0, as_csr: bool = False) -> Graph:
    """A random undirected graph without self-loops, its last nodes isolated; with states of that width."""
    g = torch.Generator().manual_seed(seed)
    ends = torch.randint(max(1, nodes - nodes // 4), (2, 2 * nodes), generator=g)
    ends = ends[:, ends[0] != ends[1]]
    edges = torch.unique(torch.cat([ends, ends.flip(0)], 1), dim=1)
    x = torch.randn(nodes, features, generator=g)
    if as_csr:
        x = x * (torch.rand(nodes, features, generator=g) < 0.3)
    y = torch.randint(3, (nodes,), generator=g)
    train = torch.rand(nodes, generator=g) < 0.6
    graph = graph_of(sparse(x) if as_csr else x, edges, y, train, ~train)
    if width:
        graph["state"] = torch.randn(nodes, width, generator=g)
    return graph


def dense(graph: Graph, *, loops: bool = True) -> Tensor:
    """A or A + I as a dense matrix, row = target."""
    n = len(graph["y"])
    matrix = torch.eye(n) if loops else torch.zeros(n, n)
    source, target = graph["edges"]
    matrix[target, source] = 1
    return matrix


def shaken(params: tree.Tree, seed: int) -> tree.Tree:
    """Parameters none of which is zero or one any more."""
    g = torch.Generator().manual_seed(seed)
    return tree.transform(lambda leaf: leaf + 0.3 * torch.randn(leaf.shape, generator=g), params)


def outcome(model, params, graph):
    """Output, states and gradients of the sum of squared outputs of stacked parameters."""
    leaves = tree.transform(lambda leaf: leaf.clone().requires_grad_(True), tree.stack(params))
    out, states = model.step(leaves, graph)
    order = iter(torch.autograd.grad(out.square().sum(), list(tree.leaves(leaves))))
    return out.detach(), states, tree.transform(lambda _: next(order), leaves)
