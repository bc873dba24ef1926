"""The other side of the comparisons: a loop over clients that deep-copies a network out of PyG's layers for each.

Each client has a `torch.optim.Adam` whose moments it keeps from round to round (by reference, no copy); the server
averages state dicts.  This is what a plain implementation of FedAvg does, and what simulators built on such loops do.
`drawn` makes the random graphs that both sides are given.
"""

import copy
import time
import warnings
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, TypeVar

import torch
import torch.nn.functional as F

from fedsim.data.graph import Graph, graph_of

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from torch_geometric.nn import GATConv, GCNConv
    from torch_geometric.nn.conv.gcn_conv import gcn_norm

Weights = dict[str, torch.Tensor]  # a state dict
Result = TypeVar("Result")


class Network(torch.nn.Module):
    """The GCN, or the GAT, of fedsim/learn/models out of PyG's layers, of these widths and without dropout."""

    def __init__(self, widths: Sequence[int], *, normalise: bool = True, attend: bool = False) -> None:
        super().__init__()
        self.layers = torch.nn.ModuleList(
            GATConv(a, b) if attend else GCNConv(a, b, normalize=normalise) for a, b in pairwise(widths)
        )

    def forward(self, x: torch.Tensor, edges: torch.Tensor, weight: torch.Tensor | None) -> torch.Tensor:
        """Return the logits (N, C)."""
        for layer in self.layers[:-1]:
            x = torch.relu(layer(x, edges, weight))
        logits: torch.Tensor = self.layers[-1](x, edges, weight)
        return logits


def to_state_dict(params: dict[str, Any]) -> Weights:
    """Return fedsim's parameters under the names of `Network`, whose weights are transposed; copies."""
    named: Weights = {}
    for i, layer in enumerate(params.values()):
        named[f"layers.{i}.lin.weight"] = layer["weight"].T.clone()
        named[f"layers.{i}.bias"] = layer["bias"].clone()
        for theirs, ours in (("att_src", "source"), ("att_dst", "target")):
            if ours in layer:
                named[f"layers.{i}.{theirs}"] = layer[ours].view(1, 1, -1).clone()
    return named


def loop(
    graphs: Sequence[Graph],
    build: Callable[[], torch.nn.Module],
    lr: float,
    steps: int = 1,
    *,
    weight_decay: float = 0.0,
    normalise: bool = True,
) -> Callable[[Weights, Sequence[int]], list[Weights]]:
    """Return a round: given the global state dict and who takes part, it returns each one's trained state dict.

    `build` makes a network that is called with (x, edges, edge weights or None).  Without `normalise` the graphs are
    normalised here, once, which the network's layers must then leave out.
    """
    model = build()
    kept: dict[int, dict[int, Any]] = {client: {} for client in range(len(graphs))}
    features = [graph["x"] if graph["x"].layout == torch.strided else graph["x"].to_dense() for graph in graphs]
    edges = [(g["edges"], None) if normalise else gcn_norm(g["edges"], None, len(g["y"])) for g in graphs]

    def one(client: int) -> Weights:
        own, moments, graph = copy.deepcopy(model), kept[client], graphs[client]
        optimiser = torch.optim.Adam(own.parameters(), lr=lr, weight_decay=weight_decay)
        for i, parameter in enumerate(own.parameters()):
            if moments:
                optimiser.state[parameter] = moments[i]
        train = graph["train"]
        for _ in range(steps):
            optimiser.zero_grad()
            F.cross_entropy(own(features[client], *edges[client])[train], graph["y"][train]).backward()
            optimiser.step()
        kept[client] = {i: optimiser.state[parameter] for i, parameter in enumerate(own.parameters())}
        return own.state_dict()

    def round_(weights: Weights, clients: Sequence[int]) -> list[Weights]:
        model.load_state_dict(weights)
        return [one(client) for client in clients]

    return round_


def average(states: Sequence[Weights], masses: Sequence[float]) -> Weights:
    """Return the weighted mean of state dicts, as a loop over clients and names computes it."""
    total = sum(masses)
    return {
        name: sum(
            (state[name] * (mass / total) for state, mass in zip(states, masses, strict=True)),
            start=torch.zeros_like(states[0][name]),
        )
        for name in states[0]
    }


def drawn(nodes: int, features: int, classes: int, generator: torch.Generator) -> Graph:
    """Return a random graph of about four edges a node, three quarters of its nodes for training."""
    ends = torch.randint(nodes, (2, 2 * nodes), generator=generator)
    edges = torch.unique(torch.cat([ends, ends.flip(0)], dim=1), dim=1)
    edges = edges[:, edges[0] != edges[1]]
    x = torch.randn(nodes, features, generator=generator)
    y = torch.randint(classes, (nodes,), generator=generator)
    return graph_of(x, edges, y, train=torch.arange(nodes) % 4 > 0)


def apart(one: Weights, other: Weights) -> float:
    """Return the largest absolute difference between two state dicts of the same names."""
    return max(float((one[name] - other[name]).abs().max()) for name in one)


def timed(function: Callable[[], Result], *, clock: Callable[[], float] = time.perf_counter) -> tuple[float, Result]:
    """Return the seconds that a call takes by this clock, and its result."""
    began = clock()
    result = function()
    return clock() - began, result
