"""Distillates: a few short codes that stand for a client's core set, and the decoder that turns them into features.

An autoencoder of two layers each way is trained on the client's labelled vertices,

    code = W₂ relu(W₁ x + b₁) + b₂,   x̂ = W₄ relu(W₃ code + b₃) + b₄

Its codes of the core set, per class the vertices of lowest loss, are then moved until the client's model gives the
decoded vertices, joined by their neighbour lists, the predictions that it gives the real ones.  Parameters have
no client axis.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Generator, Tensor

from fedsim.core.wire import Spec
from fedsim.data.graph import Graph, graph_of
from fedsim.learn import dense
from fedsim.learn.model import Parameters
from fedsim.learn.optimiser import Adam
from fedsim.learn.pseudo_graphs import knn_graph
from fedsim.learn.server_training import descend

Coder = dict[str, Parameters]


@dataclass(frozen=True)
class Autoencoder:
    """The sizes of an autoencoder of F features."""

    features: int
    width: int = 128  # of the hidden layer of either half
    latent: int = 64  # numbers in a code

    def widths(self, half: str) -> list[int]:
        """Return the widths between the layers of the encoder or the decoder."""
        encoder = [self.features, self.width, self.latent]
        return encoder if half == "encoder" else encoder[::-1]

    def init(self, generator: Generator) -> Coder:
        """Return first parameters on the CPU, layers as `torch.nn.Linear` draws them."""
        return {half: dense.layers(self.widths(half), generator) for half in ("encoder", "decoder")}

    def like(self) -> dict[str, dict[str, Spec]]:
        """Return the shapes of the decoder, as it travels."""
        return dense.like(self.widths("decoder"))

    def error(self, params: Coder, x: Tensor) -> Tensor:
        """Return the mean squared error () of features x (n, F) and what becomes of them."""
        return (dense.through(params["decoder"], dense.through(params["encoder"], x)) - x).square().mean()

    def flops(self, n: int) -> float:
        """Return the operations of one half's forward pass of n rows."""
        return 2.0 * n * self.width * (self.features + self.latent)


def core_set(losses: Tensor, y: Tensor, rows: Tensor, classes: int, each: int) -> Tensor:
    """Return the core set's vertices (M,): of each class among `rows` the `each` with the lowest loss (N,)."""
    own, label = losses[rows], y[rows]
    kept = []
    for c in range(classes):
        there = (label == c).nonzero().squeeze(1)
        kept.append(rows[there[torch.argsort(own[there], stable=True)[:each]]])
    return torch.cat(kept)


def core_size(y: Tensor, rows: Tensor, classes: int, each: int) -> int:
    """Return the size of the core set, which does not depend on the losses."""
    return int(torch.bincount(y[rows], minlength=classes).clamp(max=each).sum())


def distilled(
    codes: Tensor,
    decoder: Parameters,
    answer: Callable[[Graph], Tensor],
    wanted: Tensor,
    neighbours: int,
    *,
    steps: int,
    lr: float,
) -> Tensor:
    """Return codes (M, L) after steps of Adam on KL(wanted ‖ softmax of the answer).

    `answer` gives the logits (M, C) of a graph with M vertices; `wanted` (M, C) are shares that sum to one.  Neighbour
    lists are computed again in each step.
    """
    y = wanted.argmax(1)

    def loss(params: dict[str, Tensor], step: int) -> Tensor:
        x = dense.through(decoder, params["codes"][0])
        graph = graph_of(x, knn_graph(x, neighbours), y)
        return F.kl_div(F.log_softmax(answer(graph), 1), wanted, reduction="batchmean")

    found: Tensor = descend({"codes": codes}, loss, Adam(lr), steps)[0]["codes"]
    return found
