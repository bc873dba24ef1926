"""Several models of one kind and a small network over their outputs, as one model: so an ensemble can be scored.

    logits = W₂ relu(W₁ [logits of member 1 ‖ … ‖ logits of member M] + b₁) + b₂

Parameters are {"members": {"0": …, "1": …}, "aggregator": {"layer1": …, "layer2": …}}; those of a single model are
accepted too and stand for that model alone, which is how members are trained.  Each member sees the whole graph; the
aggregator sees one vertex at a time (FENS, NeurIPS 2024).  It models no members of different kinds.
"""

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Generator, Tensor

from fedsim.core.units import Count
from fedsim.data.graph import Graph
from fedsim.learn import dense, ops
from fedsim.learn.model import Model, Parameters


@dataclass(frozen=True)
class Ensemble(Model):
    """Members are of the model `one`; hidden, layers and dropout are its own."""

    one: Model = field(kw_only=True)
    width: Count = 64  # of the aggregator's hidden layer

    def init(self, features: int, classes: int, generator: Generator) -> Parameters:
        """Return the first parameters of a single model."""
        return self.one.init(features, classes, generator)

    def aggregator(self, members: int, classes: int, generator: Generator) -> Parameters:
        """Return an aggregator's first parameters, layers as `torch.nn.Linear` draws them."""
        return dense.layers([members * classes, self.width, classes], generator)

    def layer_init(self, inputs: int, outputs: int, generator: Generator) -> dict[str, Tensor]:
        """Return a member's layer."""
        return self.one.layer_init(inputs, outputs, generator)

    def layer(self, params: dict[str, Tensor], h: Tensor, graph: Graph) -> Tensor:
        """Return the output of a member's layer."""
        return self.one.layer(params, h, graph)

    def layer_flops(self, vertices: int, edges: int, nonzeros: int, inputs: int, outputs: int) -> float:
        """Return the operations of a member's layer."""
        return self.one.layer_flops(vertices, edges, nonzeros, inputs, outputs)

    def flops(self, graph: Graph, classes: int) -> float:
        """Return the operations of one forward pass of a single member."""
        return self.one.flops(graph, classes)

    def embed(self, params: Any, graph: Graph) -> Tensor:
        """Return a single model's embedding, or the members' outputs side by side (N, M C)."""
        if "members" not in params:
            return self.one.embed(params, graph)
        return torch.cat([self.one.forward(member, graph) for member in params["members"].values()], dim=1)

    def forward(self, params: Any, graph: Graph) -> Tensor:
        """Return the logits (N, C) of a single model or of the ensemble, parameters with a client axis."""
        if "members" not in params:
            return self.one.forward(params, graph)
        return combined(params["aggregator"], self.embed(params, graph), graph)


def combined(aggregator: Parameters, outputs: Tensor, graph: Graph) -> Tensor:
    """Return the aggregator's logits (N, C) of the members' outputs (N, M C); parameters with a client axis."""
    first, second = aggregator["layer1"], aggregator["layer2"]
    hidden = torch.relu(ops.linear(outputs, first["weight"], graph, first["bias"]))
    return ops.linear(hidden, second["weight"], graph, second["bias"])


def aggregator_flops(vertices: int, members: int, classes: int, width: int) -> float:
    """Return the operations of the aggregator's forward pass."""
    return 2.0 * vertices * width * (members + 1) * classes
