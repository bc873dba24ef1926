"""ROLAND (You, Du and Leskovec, KDD 2022): message passing in which every layer keeps a state of each node.

    m = σ(norm((AGG(h) + delta) W));  s = update(m, s before);  h = s

`update` is one of
- gru: z = σ([m, s] W_z + b_z), r = σ([m, s] W_r + b_r), c = tanh([m, r ⊙ s] W_c + b_c), s ← z ⊙ s + (1 - z) ⊙ c;
- moving_average: s ← ρ s + (1 - ρ) m, with ρ = `keep`, or of each node, by its degrees d: Σ d before / Σ d by now;
- mlp: s ← relu([m, s] A + a) B + b.

norm is over each client's nodes of the graph at hand, in evaluation too (`convolution.batch_norm`), or + b.
Not modelled: edge features, residual links, and layers before or after the message passing other than one
linear classifier.
"""

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Generator, Tensor

from fedsim.core.units import Fraction
from fedsim.data.graph import Graph
from fedsim.learn.engine import layout, ops
from fedsim.learn.layers.convolution import Norm, batch_norm, convolve
from fedsim.learn.layers.recurrent import Activation, Recurrent, activate
from fedsim.learn.model import fan_in, glorot
from fedsim.learn.models import gat


@dataclass(frozen=True)
class Roland(Recurrent):
    """Glorot weights in the convolutions; updates drawn as `torch.nn.Linear` does."""

    convolution: Literal["gcn", "gat"] = "gcn"  # the message passing; gat takes no corrections
    norm: Norm = "sym"  # normalisation of the sums over neighbours and oneself, in gcn
    update: Literal["gru", "moving_average", "mlp"] = "gru"  # how a node's state is updated
    keep: Fraction | None = None  # weight of the past in moving_average; null: by the degrees, as in the original
    activation: Activation = "selu"  # activation after each layer
    normalise: Literal["batch", "none"] = "batch"  # normalisation after each convolution
    unit: bool = True  # normalise embeddings to length 1; states stay as they are

    def layer_init(self, inputs: int, outputs: int, generator: Generator) -> dict[str, Tensor]:
        """Return weight (F, H); bias (H,), or scale and shift (H,); what attends (H,); and what updates."""
        params = {"weight": glorot(inputs, outputs, generator)}
        if self.convolution == "gat":
            params |= {end: glorot(1, outputs, generator, (outputs,)) for end in ("source", "target")}
        if self.normalise == "batch":
            params |= {"scale": torch.ones(outputs), "shift": torch.zeros(outputs)}
        else:  # after mean subtraction a bias has only rounding errors as its gradient, which Adam would amplify
            params["bias"] = torch.zeros(outputs)
        both = {"gru": (("gates", 2), ("candidate", 1)), "mlp": (("mix", 1),), "moving_average": ()}
        for name, times in both[self.update]:
            params[name] = fan_in(2 * outputs, generator, (2 * outputs, times * outputs))
            params[f"{name}_bias"] = fan_in(2 * outputs, generator, (times * outputs,))
        if self.update == "mlp":
            params["out"] = fan_in(outputs, generator, (outputs, outputs))
            params["out_bias"] = fan_in(outputs, generator, (outputs,))
        return params

    def layer_state(self, features: int) -> int:
        """One more number if a node's degrees are summed up."""
        return self.hidden + self.counts()

    def counts(self) -> bool:
        """Whether the weight of the past depends on degrees."""
        return self.update == "moving_average" and self.keep is None

    def pools(self) -> bool:
        """Batch normalisation needs a whole graph."""
        return self.normalise == "batch"

    def delta_widths(self, features: int, classes: int) -> list[int]:
        """Return every layer's input width, if sums can be corrected."""
        return [] if self.convolution == "gat" else self.widths(features, classes)[:-1]

    def layer(self, params: dict[str, Tensor], h: Tensor, graph: Graph) -> Tensor:
        """Pass messages, then update each node's state by its message."""
        message, state = self.message(params, h, graph), graph["state"]
        if self.update == "gru":
            return gru(params, message, state, graph)
        if self.update == "mlp":
            mixed = ops.linear(torch.cat([message, state], 1), params["mix"], graph, params["mix_bias"])
            return ops.linear(torch.relu(mixed), params["out"], graph, params["out_bias"])
        if self.keep is not None:
            return self.keep * state + (1 - self.keep) * message
        before = state[:, -1:]
        total = before + (layout.of(graph).degree - 1).unsqueeze(1)
        share = before / total.clamp(min=1)
        return torch.cat([share * state[:, :-1] + (1 - share) * message, total], 1)

    def message(self, params: dict[str, Tensor], h: Tensor, graph: Graph) -> Tensor:
        """Return each node's message: (N, H)."""
        if self.convolution == "gcn":
            moved = convolve(h, params["weight"], graph, self.norm)
        else:
            moved = self.attended(params, h, graph)
        if self.normalise == "batch":
            moved = batch_norm(moved, params["scale"], params["shift"], graph)
        else:
            moved = moved + ops.by_row(params["bias"], graph)
        return activate(moved, self.activation)

    def attended(self, params: dict[str, Tensor], h: Tensor, graph: Graph) -> Tensor:
        """Return the mean of h W that attention weighs.  Raises ValueError if the graph has corrections."""
        if "delta" in graph:
            raise ValueError("delta: attention cannot be corrected, only sums can; choose convolution: gcn")
        return ops.attend(*gat.scored(params, h, graph), graph)

    def layer_flops(self, nodes: int, edges: int, nonzeros: int, inputs: int, outputs: int) -> float:
        """The convolution, ten operations a value of what follows, and the update's products."""
        attention = 4.0 * nodes * outputs + 6.0 * (edges + nodes) if self.convolution == "gat" else 0.0
        products = {"gru": 12.0, "mlp": 6.0, "moving_average": 0.0}[self.update] * nodes * outputs**2
        return 2.0 * nonzeros * outputs + (2.0 * (edges + nodes) + 10 * nodes) * outputs + attention + products


def gru(params: dict[str, Tensor], message: Tensor, state: Tensor, graph: Graph) -> Tensor:
    """Return the states (N, H) of a gated recurrent unit after the messages (N, H)."""
    gates = ops.linear(torch.cat([message, state], 1), params["gates"], graph, params["gates_bias"])
    keep, reset = torch.sigmoid(gates).chunk(2, dim=1)
    fresh = ops.linear(torch.cat([message, reset * state], 1), params["candidate"], graph, params["candidate_bias"])
    return keep * state + (1 - keep) * torch.tanh(fresh)
