"""FedOpt: the server steps along the mean update with an adaptive optimiser (Reddi et al., ICLR 2021, Algorithm 2).

    Δ = Σ nₖ (wₖ − w) / Σ nₖ                 the cohort's mean update, as FedAvg's
    m ← β₁ m + (1 − β₁) Δ
    v ← v + Δ²                               `server: adagrad`
    v ← v − (1 − β₂) Δ² sign(v − Δ²)         `server: yogi`
    v ← β₂ v + (1 − β₂) Δ²                   `server: adam`
    w ← w + η m / (√v + τ)

coordinate by coordinate, with m = 0 and v = τ² at first and no correction of the bias, as printed.  Messages are
FedAvg's.  τ says how adaptive the steps are: the larger, the more like FedAvg with momentum.  Its defaults are those of
the paper's section 5 and appendix D (β₁ = 0.9, for adagrad 0; β₂ = 0.99, τ = 0.001); there η is tuned
along with the clients' learning rate, from 0.001 to 10.  The paper's plots use the weighted mean as here;
its Algorithm 1 a uniform one.

An update of several late replies is discounted before it enters m and v.  Under `hierarchical` each edge has moments of
its own, and the cloud averages models.  Not modelled: server learning rates that change over the rounds,
differential privacy.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

import torch
from pydantic import Field
from torch import Tensor

from algorithms.fedavg import FedAvg
from fedsim.core.span import Span
from fedsim.core.units import Positive
from fedsim.learn.algorithm import Reply, State
from fedsim.learn.engine import ops, tree

OPERATIONS = 12  # a parameter and update: two moments, a root, a division and a step


@dataclass(frozen=True)
class FedOpt(FedAvg):
    """FedAdam, FedYogi or FedAdagrad."""

    title = "FedOpt"
    aggregates = any_model = any_targets = True
    server: Literal["adam", "yogi", "adagrad"] = "adam"  # the server's optimiser
    server_lr: Positive = 0.01  # η
    beta_1: Annotated[float, Field(ge=0, lt=1)] | None = None  # decay of the mean; 0.9, for adagrad 0
    beta_2: Annotated[float, Field(ge=0, lt=1)] = 0.99  # decay of the mean of their squares, except for adagrad
    tau: Positive = 1e-3  # τ: how adaptive the steps are
    tunes = {"server_lr": Span(0.001, 1.0, log=True)}

    def start(self) -> State:
        """Return the model with its first parameters, a mean of 0 and squares of τ²."""
        state = super().start()
        zeros = tree.zeros_like(state["model"])
        return {**state, "mean": zeros, "squares": tree.transform(lambda leaf: leaf + self.tau**2, zeros)}

    def update(self, state: State, replies: Sequence[Reply], step: str) -> State:
        """Take the optimiser's step along the mean of the differences, each times the protocol's discount."""
        usual = 0.0 if self.server == "adagrad" else 0.9
        change, beta_1 = self.aggregate(replies), usual if self.beta_1 is None else self.beta_1
        mean = tree.add(tree.scale(state["mean"], beta_1), tree.scale(change, 1 - beta_1))
        squares = tree.transform(self.squared, state["squares"], change)
        model = tree.transform(self.stepped, state["model"], mean, squares)
        return {**state, "model": model, "mean": mean, "squares": squares}

    def stepped(self, w: Tensor, m: Tensor, v: Tensor) -> Tensor:
        """Return w after the optimiser's step."""
        return w + self.server_lr * m / (ops.root(v) + self.tau)

    def squared(self, squares: Tensor, change: Tensor) -> Tensor:
        """Return v after an update of Δ."""
        new = change * change
        if self.server == "adagrad":
            return squares + new
        if self.server == "yogi":
            return squares - (1 - self.beta_2) * new * torch.sign(squares - new)
        return self.beta_2 * squares + (1 - self.beta_2) * new

    def server_flops(self, state: State, replies: Sequence[Reply], step: str) -> float:
        """Return FedAvg's, and the optimiser's."""
        return super().server_flops(state, replies, step) + OPERATIONS * tree.count(state["model"])
