"""Models of graphs that change in time: recurrent layers, and a linear classifier behind them.

    h = x;  s_l = layer_l(h, s_l before);  h = s_l's first `hidden` numbers, for all layers;  logits = h W + b

The state of a vertex is s_1, …, s_L side by side (N, S), zeros for one never seen before.  Each layer sees the graph
with its own part of the state as `state` and its own correction as `delta`.  Vertices of the halo provide their states
to neighbours: a layer's output for them is their previous state.

Gradients enter given states only where these have any (as with `bptt`); stored ones have none.  Periods
follow one another; not modelled: the time between them, and edge features.
"""

from abc import abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import torch
from torch import Generator, Tensor

from fedsim.core.units import Count, Fraction
from fedsim.data.graph import Graph, vertex_keys, with_keys
from fedsim.learn import dense, layout, ops, tree
from fedsim.learn.model import Model, Parameters

Activation = Literal["selu", "relu", "elu", "tanh", "none"]


@dataclass(frozen=True)
class Recurrent(Model):
    """Recurrent layers of one kind; subclasses give `layer_init`, `layer` and `layer_flops`."""

    hidden: Count = 16  # width of every layer
    layers: Count = 2  # recurrent layers, followed by the classifier
    dropout: Fraction = 0.0  # share of the values between layers zeroed while training; states are kept
    unit: bool = False  # normalise embeddings to length 1; states stay as they are

    @abstractmethod
    def layer(self, params: dict[str, Tensor], h: Tensor, graph: Graph) -> Tensor:
        """Return the new states (N, S_l), or (N, hidden) without states, given h and the layer's view of the graph."""

    def layer_state(self, features: int) -> int:
        """Return S_l, the width of a layer's state; its first `hidden` numbers are the layer's output."""
        return self.hidden

    def pools(self) -> bool:
        """Whether a layer computes anything from a whole graph, so that graphs of one client must be kept separate."""
        return False

    def widths(self, features: int, classes: int) -> list[int]:
        """Return the widths between the recurrent layers."""
        return [features] + [self.hidden] * self.layers

    def state_width(self, features: int, classes: int) -> int:
        """Return S, the width of all layers' states together."""
        return sum(self.layer_state(inputs) for inputs in self.widths(features, classes)[:-1])

    def init(self, features: int, classes: int, generator: Generator) -> Parameters:
        """Return the first parameters, without a client axis; with 0 classes there is no classifier."""
        params = super().init(features, classes, generator)
        if classes:
            params["classifier"] = dense.layer(self.hidden, classes, generator)
        return params

    def advance(self, params: Parameters, graph: Graph) -> tuple[Tensor, Tensor]:
        """Return the embedding (N, hidden) and the new states (N, S), both with gradients."""
        params, graph = self._apart(params, graph)
        if (
            "far" in graph
        ):  # the first layer's sums over cut neighbours, which the second layer lacks, as if it were linear
            graph = with_keys(graph, {"delta2": ops.linear(graph["far"], params["layer1"]["weight"], graph)})
        h, states = graph["x"], [torch.zeros(len(graph["y"]), 0, device=graph["y"].device)]
        for i, seen in self._views(graph):
            result = self.layer(params[f"layer{i}"], h, seen)
            if "state" in seen:
                if "halo" in graph:
                    result = torch.where(graph["halo"].unsqueeze(1), seen["state"], result)
                states.append(result)
            h = result[:, : self.hidden]
            if i < self.layers:
                h = ops.dropout(h, self.dropout, graph, i)
        return unit_length(h) if self.unit else h, torch.cat(states, dim=1)

    def embed(self, params: Parameters, graph: Graph) -> Tensor:
        """Return the embedding (N, hidden)."""
        return self.advance(params, graph)[0]

    def forward(self, params: Parameters, graph: Graph) -> Tensor:
        """Return the logits (N, C), or the embedding where there is no classifier."""
        return self.step(params, graph)[0]

    def step(self, params: Parameters, graph: Graph) -> tuple[Tensor, Tensor]:
        """Return the logits (N, C) and the vertices' new states (N, S), detached, of one forward pass."""
        embedding, states = self.advance(params, graph)
        states = states.detach()
        if "classifier" not in params:
            return embedding, states
        last = params["classifier"]
        return ops.linear(embedding, last["weight"], graph, last["bias"]), states

    def flops(self, graph: Graph, classes: int) -> float:
        """Return the floating-point operations of one forward pass."""
        vertices, edges = len(graph["y"]), graph["edges"].shape[1]
        total, nonzeros = 2.0 * vertices * self.hidden * classes, layout.of(graph).nonzeros
        for inputs, outputs in pairwise(self.widths(graph["x"].shape[1], classes)):
            total += self.layer_flops(vertices, edges, nonzeros, inputs, outputs)
            nonzeros = vertices * outputs
        return total

    def _apart(self, params: Parameters, graph: Graph) -> tuple[Parameters, Graph]:
        """Return parameters and graph with one graph per client, if `pools`."""
        alone = layout.apart(graph) if self.pools() else None
        if alone is None:
            return params, graph
        apart, owner = alone
        return tree.transform(lambda leaf: leaf[owner], params), apart

    def _views(self, graph: Graph) -> Iterator[tuple[int, Graph]]:
        """Yield each layer's number and the graph as that layer sees it.  Raises ValueError for states of another
        width.

        `state` is absent if the layers have none, and `delta` if there is no correction.
        """
        widths = [self.layer_state(inputs) for inputs in self.widths(graph["x"].shape[1], 0)[:-1]]
        x, n, at = graph["x"], len(graph["y"]), 0
        state = graph.get("state")
        if state is None:
            state = torch.zeros(n, sum(widths), dtype=x.dtype, device=x.device)
        if state.shape != (n, sum(widths)):
            raise ValueError(f"states have the shape {tuple(state.shape)}; this model's have {(n, sum(widths))}")
        layout.of(graph)
        own = {key for key in vertex_keys(graph) if key.startswith("delta")} | {"state"}
        plain = {key: value for key, value in graph.items() if key not in own}
        for i, width in enumerate(widths, 1):
            seen = {**plain, "state": state[:, at : at + width]} if width else plain
            if f"delta{i}" in graph:
                seen = {**seen, "delta": graph[f"delta{i}"]}  # type: ignore[literal-required]
            yield i, Graph(**seen)  # type: ignore[typeddict-item]
            at += width


def activate(h: Tensor, name: Activation) -> Tensor:
    """Apply the named activation to h."""
    known: dict[str, Callable[[Tensor], Tensor]] = {
        "selu": torch.selu, "relu": torch.relu, "elu": torch.nn.functional.elu, "tanh": torch.tanh,
    }  # fmt: skip
    return h if name == "none" else known[name](h)


def unit_length(h: Tensor) -> Tensor:
    """Return the rows of h (N, H) divided by their lengths; one of zeros stays as it is, with a finite gradient."""
    length = h.norm(dim=1, keepdim=True)
    return h / torch.where(length > 0, length, torch.ones_like(length))
