"""Generators of node features from noise and a label, as one-shot and data-free methods train them.

    h = [label's vector ‖ z],   h = dropout(tanh(h W + b)) for every hidden width,   x̂ = h W + b

A label's vector is its row of a trained table (C, C), or its one-hot code.  Parameters are a tree of tensors without a
client axis, and everything random is drawn from generators passed in.  Not included: edges, which
`fedsim.learn.synthetic.pseudo_graphs` adds.
"""

from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import torch
from torch import Tensor

from fedsim.learn.layers import dense
from fedsim.learn.model import Parameters


@dataclass(frozen=True)
class FeatureGenerator:
    """The sizes of a generator of F features for C classes."""

    features: int
    classes: int
    noise: int = 64  # numbers in z
    hidden: tuple[int, ...] = (64, 128, 256)
    dropout: float = 0.2  # share of hidden values zeroed while training
    labels: Literal["table", "one_hot"] = "table"

    @property
    def widths(self) -> list[int]:
        """The widths between the layers, from label and noise to the features."""
        return [self.classes + self.noise, *self.hidden, self.features]

    def init(self, generator: torch.Generator) -> Parameters:
        """Return first parameters on the CPU: layers as `torch.nn.Linear` draws them, the table from N(0, 1)."""
        drawn: Parameters = {}
        if self.labels == "table":
            drawn["labels"] = {"weight": torch.randn(self.classes, self.classes, generator=generator)}
        return drawn | dense.layers(self.widths, generator)

    def draw(self, n: int, generator: torch.Generator, centre: float = 0.0) -> Tensor:
        """Return noise z (n, noise) from N(centre, I) on the CPU."""
        return torch.randn(n, self.noise, generator=generator) + centre

    def forward(self, params: Parameters, z: Tensor, y: Tensor, drop: torch.Generator | None = None) -> Tensor:
        """Return features (n, F) for noise z (n, noise) and labels y (n,).

        Given `drop`, a generator on the CPU, as in training: hidden values are dropped.
        """
        table = params["labels"]["weight"] if self.labels == "table" else torch.eye(self.classes, device=z.device)
        h = torch.cat([table[y], z], dim=1)
        for i in range(1, len(self.hidden) + 1):
            layer = params[f"layer{i}"]
            h = torch.tanh(torch.addmm(layer["bias"], h, layer["weight"]))
            if drop is not None and self.dropout:
                keep = torch.rand(h.shape, generator=drop).to(h.device) >= self.dropout
                h = h * (keep / (1 - self.dropout))
        last = params[f"layer{len(self.hidden) + 1}"]
        return torch.addmm(last["bias"], h, last["weight"])

    def flops(self, n: int) -> float:
        """Return the operations of one forward pass of n rows: two for each weight."""
        return 2.0 * n * sum(inputs * outputs for inputs, outputs in pairwise(self.widths))
