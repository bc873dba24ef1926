"""Several models of one kind and a small network over their outputs, as one model: so an ensemble can be scored.

    logits = W₂ relu(W₁ [logits of member 1 ‖ … ‖ logits of member M] + b₁) + b₂

Parameters are {"members": {"0": …, "1": …}, "aggregator": {"layer1": …, "layer2": …}}; those of a single model are
accepted too and stand for that model alone, which is how members are trained.  Each member sees the whole graph; the
aggregator sees one node at a time (FENS, NeurIPS 2024).  It models no members of different kinds.

Members travel with eight bits a number (`quantised`): each tensor as its smallest and largest number, and for every
number the index of the nearest of 256 evenly spaced values between them.  Not modelled: a range for each row, random
rounding (the codec `int8` has it).
"""

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Generator, Tensor

from fedsim.core.units import Count
from fedsim.data.graph import Graph
from fedsim.learn.engine import ops, tree
from fedsim.learn.layers import dense
from fedsim.learn.model import Model, Parameters

STEPS = 255  # of the eight bits


@dataclass(frozen=True)
class Ensemble(Model):
    """Members are of the model `one`; hidden, layers and dropout are its own."""

    one: Model = field(kw_only=True)
    width: Count = 64  # of the aggregator's hidden layer

    @property
    def is_module(self) -> bool:  # type: ignore[override]
        """Whether members are torch modules."""
        return self.one.is_module

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

    def layer_flops(self, nodes: int, edges: int, nonzeros: int, inputs: int, outputs: int) -> float:
        """Return the operations of a member's layer."""
        return self.one.layer_flops(nodes, edges, nonzeros, inputs, outputs)

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


def aggregator_flops(nodes: int, members: int, classes: int, width: int) -> float:
    """Return the operations of the aggregator's forward pass."""
    return 2.0 * nodes * width * (members + 1) * classes


def quantised(params: tree.Tree) -> tree.Tree:
    """Return the parameters as they are sent: {"steps": uint8, "range": float32 (2,)} for every tensor."""
    if isinstance(params, dict):
        return {key: quantised(value) for key, value in params.items()}
    ends = torch.stack([params.min(), params.max()]).float()
    unit = ((ends[1] - ends[0]) / STEPS).clamp(min=torch.finfo(torch.float32).tiny)
    return {"steps": ((params - ends[0]) / unit).round().clamp(0, STEPS).to(torch.uint8), "range": ends}


def dequantised(sent: tree.Tree) -> tree.Tree:
    """Return parameters from the output of `quantised`, each at most half a step off."""
    if set(sent) != {"steps", "range"}:
        return {key: dequantised(value) for key, value in sent.items()}
    low, high = sent["range"]
    return low + sent["steps"].to(torch.float32) * ((high - low) / STEPS)
