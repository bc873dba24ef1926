"""Models of graphs that change in time: recurrent layers, and a linear classifier behind them.

    h = x;  s_l = layer_l(h, s_l before);  h = s_l's first `hidden` numbers, for all layers;  logits = h W + b

The state of a node is s_1, …, s_L side by side (N, S), zeros for one never seen before.  Each layer sees the
graph with its own part of the state as `state` and its own correction as `delta`.  Nodes of the halo provide
their states to neighbours: a layer's output for them is their previous state.

Gradients enter given states only where these have any (as with `bptt`); stored ones have none.  Periods
follow one another; not modelled: the time between them, and edge features.
"""

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Generator, Tensor

from fedsim.core.units import Count, Fraction
from fedsim.data.graph import Graph, node_keys, with_keys
from fedsim.learn.engine import layout, ops, tree
from fedsim.learn.layers import dense
from fedsim.learn.layers.convolution import Norm, convolve
from fedsim.learn.model import Model, Parameters, fan_in, glorot, through_layers

Activation = Literal["selu", "relu", "elu", "tanh", "none"]


class Classified(Model):
    """A model whose layers are all hidden ones, with a linear classifier behind them."""

    def widths(self, features: int, classes: int) -> list[int]:
        """Return the widths between the layers, without the classifier's."""
        return [features] + [self.hidden] * self.layers

    @property
    def embedding_width(self) -> int:
        """H, the width of an embedding."""
        return self.hidden

    def init(self, features: int, classes: int, generator: Generator) -> Parameters:
        """Return the first parameters, without a client axis; with 0 classes there is no classifier."""
        params = super().init(features, classes, generator)
        if classes:
            params["classifier"] = dense.layer(self.hidden, classes, generator)
        return params

    def classified(self, params: Parameters, embedding: Tensor, graph: Graph) -> Tensor:
        """Return the logits (N, C) of an embedding (N, hidden)."""
        last = params["classifier"]
        return ops.linear(embedding, last["weight"], graph, last["bias"])

    def flops(self, graph: Graph, classes: int) -> float:
        """Return the floating-point operations of one forward pass."""
        return super().flops(graph, classes) + 2.0 * len(graph["y"]) * self.hidden * classes


@dataclass(frozen=True)
class Headed(Classified):
    """Put before a model with a graph layer, this makes all its layers hidden ones and adds a linear classifier.

        h = x;  h = dropout(relu(layer(h))) for all layers;  h = h / ‖h‖ if `unit`;  logits = h W + b

    So a static model has the depth of a recurrent one, and a comparison of both is one of memory.
    Not modelled: classifiers of several layers.
    """

    dropout: Fraction = 0.0  # share of hidden values zeroed while training; as for recurrent models
    unit: bool = False  # normalise embeddings to length 1

    def embed(self, params: Parameters, graph: Graph) -> Tensor:
        """Return the embedding (N, hidden)."""
        h = through_layers(self, params, graph["x"], graph, self.layers)
        return unit_length(h) if self.unit else h

    def forward(self, params: Parameters, graph: Graph) -> Tensor:
        """Return the logits (N, C)."""
        return self.classified(params, self.embed(params, graph), graph)


@dataclass(frozen=True)
class Recurrent(Classified):
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

    def state_width(self, features: int, classes: int) -> int:
        """Return S, the width of all layers' states together."""
        return sum(self.layer_state(inputs) for inputs in self.widths(features, classes)[:-1])

    def advance(self, params: Parameters, graph: Graph) -> tuple[Tensor, Tensor]:
        """Return the embedding (N, hidden) and the new states (N, S), both with gradients."""
        params, graph = self._apart(params, graph)
        if "far" in graph:  # what the second layer lacks, cut neighbours' sums, as if the first one were linear
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
        """Return the logits (N, C) and the nodes' new states (N, S), detached, of one forward pass."""
        embedding, states = self.advance(params, graph)
        states = states.detach()
        return self.classified(params, embedding, graph) if "classifier" in params else embedding, states

    def _apart(self, params: Parameters, graph: Graph) -> tuple[Parameters, Graph]:
        """Return parameters and graph with one graph per client, if `pools`."""
        alone = layout.apart(graph) if self.pools() else None
        if alone is None:
            return params, graph
        apart, owner = alone
        return tree.transform(lambda leaf: leaf[owner], params), apart

    def _views(self, graph: Graph) -> Iterator[tuple[int, Graph]]:
        """Yield each layer's number and the graph as that layer sees it.  Raises ValueError for states of
        another width.

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
        own = {key for key in node_keys(graph) if key.startswith("delta")} | {"state"}
        plain = {key: value for key, value in graph.items() if key not in own}
        for i, width in enumerate(widths, 1):
            seen = {**plain, "state": state[:, at : at + width]} if width else plain
            if f"delta{i}" in graph:
                seen = {**seen, "delta": graph[f"delta{i}"]}  # type: ignore[literal-required]
            yield i, Graph(**seen)  # type: ignore[typeddict-item]
            at += width


def activate(h: Tensor, name: Activation) -> Tensor:
    """Apply the named activation to h."""
    return h if name == "none" else getattr(torch.nn.functional, name)(h)


def unit_length(h: Tensor) -> Tensor:
    """Return the rows of h (N, H) divided by their lengths; one of zeros stays as it is, with a finite gradient."""
    length = h.norm(dim=1, keepdim=True)
    return h / torch.where(length > 0, length, torch.ones_like(length))


@dataclass(frozen=True)
class Evolving(Recurrent):
    """Graph convolutions whose weights evolve (Pareja et al., "EvolveGCN", AAAI 2020): what both variants share.

    W_t = (1 - u) ⊙ W + u ⊙ c,  h = σ(AGG(h) W_t),  with W the weight that the period begins with,
    u, r = σ(M I + U W + B), each with M, U, B of its own,  c = tanh(M_c I + U_c (r ⊙ W) + B_c)

    I is the variant's input, of the weight's shape.  W is trained along with the gates, for the period at
    hand: when it ends, W_t replaces it (`turn`).  The original unrolls many periods from the first W in every
    pass instead; here gradients end where the period begins, as they do for states.  Nodes have no states,
    and those of the halo are computed like all others.  Two square matrices a gate and layer make it large
    where features are many.  Glorot weights, gates drawn from ±1/√inputs, zero biases.
    """

    norm: Norm = "sym"  # normalisation of the sums over neighbours and oneself; mean is GraphSAGE's (FedSageDyn)
    activation: Activation = "relu"  # activation after each layer

    @abstractmethod
    def summary(self, params: dict[str, Tensor], h: Tensor, graph: Graph) -> Tensor:
        """Return the gates' input I (K, F, H)."""

    def layer_init(self, inputs: int, outputs: int, generator: Generator) -> dict[str, Tensor]:
        """Return weight (F, H), and input, memory (3, F, F) and bias (3, F, H) of u, r and c."""
        return {
            "weight": glorot(inputs, outputs, generator),
            "input": fan_in(inputs, generator, (3, inputs, inputs)),
            "memory": fan_in(inputs, generator, (3, inputs, inputs)),
            "bias": torch.zeros(3, inputs, outputs),
        }

    def layer_state(self, features: int) -> int:
        """Return 0: nodes have no states."""
        return 0

    def delta_widths(self, features: int, classes: int) -> list[int]:
        """Return every layer's inputs."""
        return self.widths(features, classes)[:-1]

    def evolved(self, params: dict[str, Tensor], h: Tensor, graph: Graph) -> Tensor:
        """Return W_t (K, F, H)."""
        weight, summary = params["weight"], self.summary(params, h, graph)
        given = params["input"] @ summary.unsqueeze(1) + params["bias"]
        gates = torch.sigmoid(given[:, :2] + params["memory"][:, :2] @ weight.unsqueeze(1))
        update, reset = gates.unbind(1)
        candidate = torch.tanh(given[:, 2] + params["memory"][:, 2] @ (reset * weight))
        return (1 - update) * weight + update * candidate

    def layer(self, params: dict[str, Tensor], h: Tensor, graph: Graph) -> Tensor:
        """Evolve the weight, then convolve with it."""
        return self.convolved(self.evolved(params, h, graph), h, graph)

    def convolved(self, weight: Tensor, h: Tensor, graph: Graph) -> Tensor:
        """Return the layer's output (N, H) with this weight (K, F, H)."""
        return activate(convolve(h, weight, graph, self.norm), self.activation)

    @torch.no_grad()
    def turn(self, params: Parameters, graph: Graph) -> Parameters:
        """Return the parameters with every W replaced by its W_t.

        Raises ValueError where a client has several graphs that evolve its weights in different ways.
        """
        if len(self._apart(params, graph)[1]["sizes"]) != len(next(tree.leaves(params))):
            raise ValueError("one set of weights cannot evolve by several graphs")
        turned, h = dict(params), graph["x"]
        for i, seen in self._views(graph):
            own = params[f"layer{i}"]
            weight = self.evolved(own, h, seen)
            turned[f"layer{i}"] = {**own, "weight": weight}
            h = ops.dropout(self.convolved(weight, h, seen), self.dropout, graph, i)
        return tree.transform(Tensor.detach, turned)  # type: ignore[no-any-return]

    def layer_flops(self, nodes: int, edges: int, nonzeros: int, inputs: int, outputs: int) -> float:
        """The gates' six products and ten operations an entry, and the convolution."""
        evolution = 12.0 * inputs**2 * outputs + 10.0 * inputs * outputs
        return evolution + 2.0 * nonzeros * outputs + 2.0 * (edges + nodes) * outputs
