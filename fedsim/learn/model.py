"""The contract of a model: a pure function of (parameters, graph), made of equal layers.

    h = x;  h = dropout(relu(layer(h)))  for all layers but the last;  logits = layer(h)

The output of the last hidden layer is the *embedding*.  Parameters are a dict of layers, each a dict of
tensors; with a leading client axis K when they are used.  It models message passing on one static graph: no
edge features, no batch normalisation, no residual links.

A model may have memory: states of nodes, carried with the graph from period to period (`state`), and
parameters that change between periods beside training (`turn`).  The models here have none; recurrent ones
descend from `fedsim.learn.layers.recurrent.Recurrent`.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar

import torch
from torch import Generator, Tensor

from fedsim.core.units import Count, Fraction
from fedsim.data.graph import Graph
from fedsim.learn.engine import layout, ops, tree

Parameters = dict[str, dict[str, Tensor]]


@dataclass(frozen=True)
class Model(ABC):
    """Layers of one kind; subclasses give a layer's first values, its function and its cost."""

    hidden: Count = 64  # width of every hidden layer
    layers: Count = 2  # layers, the classifier included
    dropout: Fraction = 0.5  # share of hidden values zeroed while training
    pairs: ClassVar[bool] = False  # True where it judges pairs instead of nodes (`PairModel`)
    is_module: ClassVar[bool] = False  # True for a `torch.nn.Module` (learn/modules/)
    reads: ClassVar[
        Sequence[str]
    ] = ()  # what it reads of "edge_attr" and "edge_weight"; other data with these are refused

    @abstractmethod
    def layer_init(self, inputs: int, outputs: int, generator: Generator) -> dict[str, Tensor]:
        """Return one layer's first parameters, drawn from the generator on the CPU."""

    @abstractmethod
    def layer(self, params: dict[str, Tensor], h: Tensor, graph: Graph) -> Tensor:
        """Return one layer's output (N, outputs) for h (N, inputs); params with a client axis."""

    @abstractmethod
    def layer_flops(self, nodes: int, edges: int, nonzeros: int, inputs: int, outputs: int) -> float:
        """Return the floating-point operations of one layer's forward pass, h having `nonzeros` numbers."""

    def widths(self, features: int, classes: int) -> list[int]:
        """Return the widths between the layers, from the features to the classes."""
        return [features] + [self.hidden] * (self.layers - 1) + [classes]

    def init(self, features: int, classes: int, generator: Generator) -> Parameters:
        """Return the model's first parameters, without a client axis."""
        ends = enumerate(pairwise(self.widths(features, classes)), 1)
        return {f"layer{i}": self.layer_init(inputs, outputs, generator) for i, (inputs, outputs) in ends}

    def embed(self, params: Parameters, graph: Graph) -> Tensor:
        """Return the embedding (N, hidden), or the features themselves if there is a single layer."""
        return through_layers(self, params, graph["x"], graph, self.layers - 1)

    @property
    def embedding_width(self) -> int:
        """H, the width of an embedding; 0 where there is no hidden layer."""
        return self.hidden if self.layers > 1 else 0

    def variables(self, params: Parameters) -> list[Tensor]:
        """Return the tensors that a loss depends on: what to differentiate by inside of a loss of these parameters."""
        return list(tree.leaves(params))

    def attention(self, params: Parameters, graph: Graph) -> Tensor | None:
        """Return the first layer's attention coefficients (E + N,), or None if the layers have no attention."""
        return None

    def forward(self, params: Parameters, graph: Graph) -> Tensor:
        """Return the logits (N, C) of parameters with a client axis on a union of as many graphs."""
        return self.layer(params[f"layer{self.layers}"], self.embed(params, graph), graph)

    def state_dict(self, params: Parameters) -> Mapping[str, Any]:
        """Return parameters without a client axis by their names, those of layers and tensors joined by a dot."""
        return dict(tree.named(params))

    def state_width(self, features: int, classes: int) -> int:
        """Return S, the width of a node's state; 0 without states."""
        return 0

    def delta_widths(self, features: int, classes: int) -> list[int]:
        """Return the widths F_l of `delta1`, `delta2`, … that the layers take; empty if they take none."""
        return []

    def step(self, params: Parameters, graph: Graph) -> tuple[Tensor, Tensor]:
        """Return the output (N, C) and the nodes' new states (N, S), detached, of one forward pass."""
        output = self.forward(params, graph)
        return output, output.new_zeros(len(output), 0)

    @torch.no_grad()
    def remember(self, params: Parameters, graph: Graph) -> Tensor:
        """Return the nodes' states (N, S) after this graph, given those before it (`state`)."""
        return self.step(params, graph)[1]

    def turn(self, params: Parameters, graph: Graph) -> Parameters:
        """Return the parameters at the beginning of the period after this graph, detached."""
        return params

    def turns(self) -> bool:
        """Return whether parameters change between periods beside training."""
        return type(self).turn is not Model.turn

    def flops(self, graph: Graph, classes: int) -> float:
        """Return the floating-point operations of one forward pass."""
        return self.layers_flops(graph, self.widths(graph["x"].shape[1], classes))

    def layers_flops(self, graph: Graph, widths: Sequence[int]) -> float:
        """Return the operations of layers between these widths, one after the other."""
        nodes, edges, nonzeros, total = len(graph["y"]), graph["edges"].shape[1], layout.of(graph).nonzeros, 0.0
        for inputs, outputs in pairwise(widths):
            total += self.layer_flops(nodes, edges, nonzeros, inputs, outputs)
            nonzeros = nodes * outputs
        return total


def through_layers(model: Model, params: Parameters, h: Tensor, graph: Graph, count: int) -> Tensor:
    """Return what the first `count` layers make of h (N, ·), each followed by a rectifier and dropout."""
    for i in range(1, count + 1):
        h = ops.dropout(model.layer(params[f"layer{i}"], h, graph).relu(), model.dropout, graph, i)
    return h


def plain(model: Model) -> bool:
    """Return whether the model is made of plain layers, each with a weight of its own."""
    own = type(model).forward is Model.forward and type(model).embed is Model.embed
    return own and "weight" in model.layer_init(1, 1, Generator())


def glorot(inputs: int, outputs: int, generator: Generator, shape: tuple[int, ...] | None = None) -> Tensor:
    """Draw uniformly from ±√(6 / (inputs + outputs)) (Glorot and Bengio, AISTATS 2010)."""
    bound = (6 / (inputs + outputs)) ** 0.5
    return (torch.rand(shape or (inputs, outputs), generator=generator) * 2 - 1) * bound  # type: ignore[no-any-return]


def fan_in(inputs: int, generator: Generator, shape: tuple[int, ...]) -> Tensor:
    """Draw uniformly from ±1/√inputs, as `torch.nn.Linear` does."""
    return (torch.rand(shape, generator=generator) * 2 - 1) * inputs**-0.5  # type: ignore[no-any-return]


class PairModel(Model):
    """A model that judges two nodes together, and has no embedding of either by itself.

    `forward` returns one logit for each of the graph's `pairs` (2, P) at its second (`moments`): whether the
    two have an event then.  Algorithms that exchange, compare or store embeddings do not fit;
    `point/checks/fit.py` says so.
    """

    pairs: ClassVar[bool] = True

    @abstractmethod
    def forward(self, params: Parameters, graph: Graph) -> Tensor:
        """Return the logits (P,) of parameters with a client axis, for the pairs of a union of as many graphs."""

    @abstractmethod
    def pair_flops(self, features: int, message: int) -> float:
        """Return the operations of judging a pair where nodes and events have that many features."""

    @abstractmethod
    def pair_bytes(self) -> int:
        """Return roughly how many bytes of values training keeps for a pair until the backward pass."""

    def flops(self, graph: Graph, classes: int) -> float:
        """Return the operations of judging all pairs of the graph."""
        return self.pair_flops(graph["x"].shape[1], graph["message"].shape[1]) * graph["pairs"].shape[1]
