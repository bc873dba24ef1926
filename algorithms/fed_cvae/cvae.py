"""A conditional variational autoencoder of vertex features, given their labels (Sohn, Lee and Yan, NeurIPS 2015).

    h = relu([x ‖ y] W₁ + b₁),   [μ ‖ log σ²] = h W₂ + b₂,   z = μ + σ ε,   x̂ = decoder(z, y)
    L = (1/n) Σᵢ ½ ‖xᵢ − x̂ᵢ‖² + β (1/n) Σᵢ ½ Σ (μᵢ² + σᵢ² − log σᵢ² − 1)

y is one-hot; the decoder is a `FeatureGenerator` with one hidden layer.  The first term is, up to a constant, the
negative likelihood of features with normal noise of variance 1.  It sees no edges.
"""

import math
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from fedsim.core.seeds import integer
from fedsim.data.graph import Graph, as_dense
from fedsim.learn import dense, tree
from fedsim.learn.generators import FeatureGenerator

Parameters = dict[str, Any]


@dataclass(frozen=True)
class CVAE:
    """The sizes of encoder and decoder for F features and C classes."""

    features: int
    classes: int
    latent: int = 64
    hidden: int = 256
    beta: float = 1.0

    @property
    def decoder(self) -> FeatureGenerator:
        """The part that travels."""
        return FeatureGenerator(
            self.features, self.classes, noise=self.latent, hidden=(self.hidden,), dropout=0.0, labels="one_hot"
        )

    def init(self, generator: torch.Generator) -> Parameters:
        """Return first parameters on the CPU, as `torch.nn.Linear` draws them: encoder and decoder."""
        widths = (self.features + self.classes, self.hidden, 2 * self.latent)
        return {"encoder": dense.layers(widths, generator), "decoder": self.decoder.init(generator)}

    def encode(self, params: Parameters, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        """Return μ and log σ² (n, latent) of features x (n, F) with labels y (n,)."""
        both = torch.cat([x, F.one_hot(y, self.classes).to(x.dtype)], 1)
        mean, spread = dense.through(params, both).chunk(2, dim=1)
        return mean, spread

    def loss(self, params: Any, data: Graph, given: Any) -> Tensor:
        """Return L (1,) of one client's autoencoder on all vertices of a graph, all with a client axis of one.

        Noise is drawn from the graph's `seed`.
        """
        own, x, y = tree.at(params, 0), as_dense(data["x"]), data["y"]
        mean, spread = self.encode(own["encoder"], x, y)
        drawn = torch.Generator().manual_seed(integer(int(data["seed"]), "cvae"))
        z = mean + torch.exp(0.5 * spread) * torch.randn(mean.shape, generator=drawn).to(x.device)
        missed = (self.decoder.forward(own["decoder"], z, y) - x).square().sum(1)
        apart = (mean.square() + spread.exp() - spread - 1).sum(1)
        return (0.5 * (missed + self.beta * apart)).mean().unsqueeze(0)

    def flops(self, n: int) -> float:
        """Return the operations of one training step on n vertices: three passes."""
        encoder = (self.features + self.classes) * self.hidden + self.hidden * 2 * self.latent
        return 3 * (2.0 * n * encoder + self.decoder.flops(n))


def truncated_normal(rows: int, columns: int, generator: torch.Generator, limit: float = 1.0) -> Tensor:
    """Return N(0, 1) cut to [−limit, limit], (rows, columns) on the CPU, by the inverse of its distribution."""
    inside = math.erf(limit / math.sqrt(2))
    drawn = torch.rand(rows, columns, generator=generator, dtype=torch.double)
    return (math.sqrt(2) * torch.erfinv((2 * drawn - 1) * inside)).clamp(-limit, limit).float()
