"""FedEgo's model: a reduction layer, GraphSAGE on what it leaves, and a linear classifier.

    h = relu(x R + r);  h = dropout(relu(SAGE(h))), twice;  logits = h C + c

`after` takes reduced features, which is all that a server is sent.
"""

from dataclasses import dataclass

import torch
from torch import Generator, Tensor

from fedsim.data.graph import Graph
from fedsim.learn.engine import layout, ops
from fedsim.learn.layers import dense
from fedsim.learn.model import Parameters, through_layers
from fedsim.learn.models.sage import SAGE


@dataclass(frozen=True)
class EgoSAGE(SAGE):
    """`layers` are GraphSAGE's; parameters are {reduction, layer1, …, classifier}."""

    def widths(self, features: int, classes: int) -> list[int]:
        """Return the widths between GraphSAGE's layers."""
        return [self.hidden] * (self.layers + 1)

    def init(self, features: int, classes: int, generator: Generator) -> Parameters:
        """Return the model's first parameters, linear layers as `torch.nn.Linear` draws them."""
        inner = super().init(features, classes, generator)
        reduction = dense.layer(features, self.hidden, generator)
        return {"reduction": reduction, **inner, "classifier": dense.layer(self.hidden, classes, generator)}

    def reduced(self, reduction: dict[str, Tensor], graph: Graph) -> Tensor:
        """Return the reduced features (N, hidden)."""
        return torch.relu(ops.linear(graph["x"], reduction["weight"], graph, reduction["bias"]))

    def after(self, params: Parameters, h: Tensor, graph: Graph) -> Tensor:
        """Return the logits (N, C) of reduced features (N, hidden)."""
        last, embedding = params["classifier"], through_layers(self, params, h, graph, self.layers)
        return ops.linear(embedding, last["weight"], graph, last["bias"])

    def embed(self, params: Parameters, graph: Graph) -> Tensor:
        """Return the embedding (N, hidden)."""
        return through_layers(self, params, self.reduced(params["reduction"], graph), graph, self.layers)

    def forward(self, params: Parameters, graph: Graph) -> Tensor:
        """Return the logits (N, C)."""
        return self.after(params, self.reduced(params["reduction"], graph), graph)

    def reduction_flops(self, graph: Graph) -> float:
        """Return the operations of the reduction."""
        return 2.0 * layout.of(graph).nonzeros * self.hidden

    def after_flops(self, nodes: int, edges: int, classes: int) -> float:
        """Return the operations of what comes after it."""
        each: float = self.layer_flops(nodes, edges, nodes * self.hidden, self.hidden, self.hidden)
        return self.layers * each + 2.0 * nodes * self.hidden * classes

    def flops(self, graph: Graph, classes: int) -> float:
        """Return the operations of one forward pass."""
        after = self.after_flops(len(graph["y"]), graph["edges"].shape[1], classes)
        return self.reduction_flops(graph) + after
