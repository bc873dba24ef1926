"""Graph convolutional network with trained masks (Baek et al., "Personalized Subgraph Federated Learning", ICML 2023).

    h = dropout(relu(Â h (W ⊙ M) + b))  for all layers but the last;  logits = h (W ⊙ M) + b

Â is the GCN's D^-1/2 (A + I) D^-1/2, and M has the shape of W, starts as ones and is trained with it.
Training uses all of M; evaluation zeroes entries below a threshold.  Products stay dense: a mask saves
neither bytes nor operations.
"""

from dataclasses import dataclass
from typing import Annotated

import torch
from pydantic import Field
from torch import Generator, Tensor

from fedsim.core.units import Count
from fedsim.data.graph import Graph
from fedsim.learn.engine import ops
from fedsim.learn.model import Model, Parameters, glorot, through_layers


@dataclass(frozen=True)
class MaskedGCN(Model):
    """Glorot weights, and zero biases but in the classifier, whose bias is drawn as a matrix (1, C) as published."""

    layers: Annotated[Count, Field(ge=2)] = 3  # convolutions, followed by the linear classifier
    threshold: float = 1e-3  # in evaluation, mask entries of smaller magnitude count as 0

    def layer_init(self, inputs: int, outputs: int, generator: Generator) -> dict[str, Tensor]:
        """Return a convolution's weight and mask (F, H) and bias (H,)."""
        weight = glorot(inputs, outputs, generator)
        return {"weight": weight, "bias": torch.zeros(outputs), "mask": torch.ones_like(weight)}

    def init(self, features: int, classes: int, generator: Generator) -> Parameters:
        """Return the model's first parameters, without a client axis."""
        params = super().init(features, classes, generator)
        params[f"layer{self.layers}"]["bias"] = glorot(1, classes, generator, (classes,))
        return params

    def layer(self, params: dict[str, Tensor], h: Tensor, graph: Graph) -> Tensor:
        """Transform, then propagate."""
        moved = ops.propagate(ops.linear(h, self.weight(params, graph), graph), graph, "sym")
        return moved + ops.by_row(params["bias"], graph)

    def weight(self, params: dict[str, Tensor], graph: Graph) -> Tensor:
        """Return W ⊙ M (K, F, H), without the small entries of M except in training."""
        mask = params["mask"]
        if "seed" not in graph:
            mask = torch.where(mask.abs() < self.threshold, 0.0, mask)
        return params["weight"] * mask

    def convolved(self, params: Parameters, graph: Graph) -> Tensor:
        """Return the output of the last convolution (N, hidden), before the rectifier."""
        h = through_layers(self, params, graph["x"], graph, self.layers - 2)
        return self.layer(params[f"layer{self.layers - 1}"], h, graph)

    def embed(self, params: Parameters, graph: Graph) -> Tensor:
        """Return the embedding (N, hidden)."""
        return ops.dropout(torch.relu(self.convolved(params, graph)), self.dropout, graph, self.layers - 1)

    def forward(self, params: Parameters, graph: Graph) -> Tensor:
        """Return the logits (N, C) of parameters with a client axis on a union of as many graphs."""
        last = params[f"layer{self.layers}"]
        return ops.linear(self.embed(params, graph), self.weight(last, graph), graph, last["bias"])

    def layer_flops(self, nodes: int, edges: int, nonzeros: int, inputs: int, outputs: int) -> float:
        """Two operations a multiply-add, as in a GCN, and the product with the mask."""
        return 2.0 * nonzeros * outputs + 2.0 * (edges + nodes) * outputs + inputs * outputs

    def convolutions_flops(self, graph: Graph) -> float:
        """Return the floating-point operations of a forward pass up to the last convolution."""
        return self.layers_flops(graph, self.widths(graph["x"].shape[1], 0)[:-1])

    def flops(self, graph: Graph, classes: int) -> float:
        """Return the floating-point operations of one forward pass."""
        of_classifier = 2.0 * len(graph["y"]) * self.hidden * classes + self.hidden * classes
        return self.convolutions_flops(graph) + of_classifier
