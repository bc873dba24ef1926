"""Graph convolutions whose weights evolve (Pareja et al., "EvolveGCN", AAAI 2020): what both variants share.

    W_t = (1 - u) ⊙ W + u ⊙ c,  h = σ(AGG(h) W_t),  with W the weight that the period begins with,
    u, r = σ(M I + U W + B), each with M, U, B of its own,  c = tanh(M_c I + U_c (r ⊙ W) + B_c)

I is the variant's input, of the weight's shape.  W is trained along with the gates, for the period at hand: when it
ends, W_t replaces it (`turn`).  The original unrolls many periods from the first W in every pass instead; here
gradients end where the period begins, as they do for states.  Vertices have no states, and those of the
halo are computed like all others.  Two square matrices a gate and layer make it large where features are many.
"""

from abc import abstractmethod
from dataclasses import dataclass

import torch
from torch import Generator, Tensor

from fedsim.data.graph import Graph
from fedsim.learn import ops, tree
from fedsim.learn.convolution import Norm, convolve
from fedsim.learn.model import Parameters, fan_in, glorot
from fedsim.learn.recurrent import Activation, Recurrent, activate


@dataclass(frozen=True)
class Evolving(Recurrent):
    """Glorot weights, gates drawn from ±1/√inputs, zero biases."""

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
        """Return 0: vertices have no states."""
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

    def layer_flops(self, vertices: int, edges: int, nonzeros: int, inputs: int, outputs: int) -> float:
        """The gates' six products and ten operations an entry, and the convolution."""
        evolution = 12.0 * inputs**2 * outputs + 10.0 * inputs * outputs
        return evolution + 2.0 * nonzeros * outputs + 2.0 * (edges + vertices) * outputs
