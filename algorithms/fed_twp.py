"""Fed-TWP: FedAvg with topology-aware weight preserving on each client (Liu, Yang and Wang, AAAI 2021).

When a period t has ended, on the client's own model Θ*_t after its last training in it:

    I^loss_t = (∂L_t/∂θ)²,   I^topo_t = (∂‖a‖₂/∂θ)²,   A_t = λ_l I^loss_t + λ_t I^topo_t,

where a are the attention coefficients of the first layer on the period's graph, or the embedding if the model has no
attention.  Training in later periods (and in the first, with the last term alone) minimises

    L = CE + Σ_t Σ_i A_t,i (θ_i − Θ*_t,i)² + β ‖∇CE‖₁.

The sum over periods equals, up to a constant, A_i (θ_i − c_i)² with A = Σ_t A_t and c = Σ_t A_t Θ*_t / A: two models'
worth of numbers are kept, however many periods there were.  None of this travels: messages are FedAvg's.

The published code differs, and `preset` chooses.  `paper` follows the formulas; the norm of the gradient is itself
differentiated, without which it has no effect.  `official` repeats the code: the norm is a constant and is left out;
the gradient of CE counts twice; the topology's gradient is added to the loss's before squaring; and the importances are
those of the first call in the next period, with dropout, on that period's graph: for the ended period's vertices if
both have the same graph (edges kept), otherwise for its own, since the old ones are not part of it.

Every job starts from the global model, so averaging undoes what the penalty preserves as far as clients differ.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor

from algorithms.fedavg import FedAvg
from fedsim.core.span import Span
from fedsim.core.wire import Tree
from fedsim.data.graph import Graph
from fedsim.learn import ops, tree
from fedsim.learn.algorithm import Job, Work
from fedsim.learn.model import Parameters


@dataclass(frozen=True)
class FedTWP(FedAvg):
    """With all three strengths zero and the preset `paper`, this is FedAvg bit for bit."""

    title: ClassVar[str] = "Fed-TWP"
    preset: Literal["paper", "official"] = "paper"  # the printed formulas, or the published code
    lambda_loss: float = 1e4  # strength of the importance for the loss, λ_l
    lambda_topology: float = 1e4  # strength of the importance for the attention, λ_t
    beta: float = 0.01  # strength of the gradient norm; `official` ignores it, as the code does
    tunes: ClassVar[Mapping[str, Span]] = {
        "lambda_loss": Span(1.0, 1e4, log=True),
        "lambda_topology": Span(1.0, 1e4, log=True),
    }

    def work(self, job: Job) -> Work:
        """Close the period that has ended, then train near the parameters that mattered in past ones."""
        past = self.closed(job)
        trained = yield from self.fit(job, past)
        if bool(job.data["train"].any()):  # an untrained model has learned nothing of the period
            job.memory["last"] = {"period": job.period, "data": job.data, "model": trained}
        return {"update": tree.sub(trained, job.download["model"]), "samples": self.samples(job.data)}

    def dry_work(self, job: Job) -> None:
        """Note the period of the last training."""
        if bool(job.data["train"].any()):
            job.memory["last"] = {"period": job.period}

    def effort(self, job: Job) -> float:
        """Return the share of a plain step: differentiating a gradient takes two steps more, a second pass 2/3."""
        if self.preset == "official":
            return 5 / 3
        return 3.0 if self.beta else 1.0

    def extra_steps(self, job: Job) -> float:
        """Count the two gradients of a period that has ended."""
        last = job.memory.get("last")
        return 2.0 if last is not None and last["period"] != job.period else 0.0

    def loss(self, params: Parameters, data: Graph, given: Tree) -> Tensor:
        """Return the cross-entropy, the penalty of past periods and the norm of the gradient."""
        plain = self.task.loss(params, data)
        if self.preset == "official":
            return 2 * plain + penalty(params, given)
        total = plain + penalty(params, given)
        return total + self.beta * self.steepness(plain, params) if self.beta else total

    def steepness(self, loss: Tensor, params: Parameters) -> Tensor:
        """Return ‖∂loss/∂θ‖₁ of each client, differentiable: (K,)."""
        slopes = torch.autograd.grad(loss.sum(), list(tree.leaves(params)), create_graph=True, allow_unused=True)
        return torch.stack([slope.abs().flatten(1).sum(1) for slope in slopes if slope is not None]).sum(0)

    # ---- at the end of a period

    def closed(self, job: Job) -> Tree:
        """Return the client's A and c, after adding those of a period that has ended since its last job."""
        past, last = job.memory.get("past"), job.memory.get("last")
        if past is None:
            nothing = tree.zeros_like(job.download["model"])
            past = {"weight": nothing, "centre": nothing}
        if last is not None and last["period"] != job.period:
            past = joined(past, self.importance(last["model"], self.graph(job, last["data"])), last["model"])
            job.memory["last"] = None
        job.memory["past"] = past
        return past

    def graph(self, job: Job, ended: Graph) -> Graph:
        """Return the graph whose importances are computed; the published code takes that of the next period's call."""
        if self.preset == "paper":
            return ended
        same = all(torch.equal(ended[name], job.data[name]) for name in ("y", "edges"))
        seed = torch.tensor([job.seed], device=ended["y"].device)
        return {**(ended if same else job.data), "seed": ops.seed_steps(seed, 0, 63)}

    def importance(self, model: Parameters, data: Graph) -> Parameters:
        """Return A = λ_l I^loss + λ_t I^topo of one client's model on a graph."""
        of_loss = self.slopes(model, data, lambda params: self.task.loss(params, data).sum())
        of_topology = self.slopes(model, data, lambda params: self.topology(params, data))
        if self.preset == "official":  # the second backward pass adds to what the first has left
            of_topology = tree.add(of_topology, of_loss)
        return tree.transform(
            lambda a, b: self.lambda_loss * a.square() + self.lambda_topology * b.square(), of_loss, of_topology
        )

    def topology(self, params: Parameters, data: Graph) -> Tensor:
        """Return ‖a‖₂, with slope zero where all of a is; of a single layer the output is the embedding."""
        a = self.task.model.attention(params, data)
        if a is None:
            a = self.task.embed(params, data) if self.task.model.layers > 1 else self.task.forward(params, data)
        return torch.linalg.vector_norm(a)

    def slopes(self, model: Parameters, data: Graph, function: Callable[[Parameters], Tensor]) -> Parameters:
        """Return the gradient of a function of one client's stacked parameters, zero where there is none."""
        params = tree.transform(lambda leaf: leaf.detach().clone().unsqueeze(0).requires_grad_(True), model)
        order = iter(torch.autograd.grad(function(params), list(tree.leaves(params)), materialize_grads=True))
        return tree.transform(lambda _: next(order).squeeze(0), model)


def penalty(params: Parameters, past: Tree) -> Tensor:
    """Return Σ A (θ − c)² of each client: (K,)."""
    parts = zip(tree.leaves(past["weight"]), tree.leaves(params), tree.leaves(past["centre"]), strict=True)
    return torch.stack([(a * (theta - c).square()).flatten(1).sum(1) for a, theta, c in parts]).sum(0)


def joined(past: Tree, weight: Parameters, model: Parameters) -> Tree:
    """Return A and c with a period's A_t and Θ*_t added; c stays where both weights are zero."""
    total = tree.add(past["weight"], weight)
    tiny = torch.finfo(torch.float32).tiny
    centre = tree.transform(
        lambda c, a, all_of_it, theta: c + a / all_of_it.clamp(min=tiny) * (theta - c),
        past["centre"],
        weight,
        total,
        model,
    )
    return {"weight": total, "centre": centre}
