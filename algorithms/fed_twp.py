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
those of the first call in the next period, with dropout, on that period's graph: for the ended period's nodes if
both have the same graph (edges kept), otherwise for its own, since the old ones are not part of it.

Every job starts from the global model, so averaging undoes what the penalty preserves as far as clients differ.
"""

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from algorithms.fedavg import FedAvg
from fedsim.core.span import Span
from fedsim.data.graph import Graph
from fedsim.learn.algorithm import Disclosed, Job, Tree, Work
from fedsim.learn.continual import replay, retention
from fedsim.learn.engine import tree
from fedsim.learn.engine.optimiser import in_training, slopes
from fedsim.learn.model import Parameters


@dataclass(frozen=True)
class FedTWP(FedAvg):
    """With all three strengths zero and the preset `paper`, this is FedAvg bit for bit."""

    title = "Fed-TWP"
    any_model = True
    discloses = Disclosed(("updates",))
    needs = frozenset({"embed", "own buffers"})
    preset: Literal["paper", "official"] = "paper"  # the printed formulas, or the published code
    lambda_loss: float = 1e4  # strength of the importance for the loss, λ_l
    lambda_topology: float = 1e4  # strength of the importance for the attention, λ_t
    beta: float = 0.01  # strength of the gradient norm; `official` ignores it, as the code does
    tunes = {"lambda_loss": Span(1.0, 1e4, log=True), "lambda_topology": Span(1.0, 1e4, log=True)}

    def work(self, job: Job) -> Work:
        """Close the period that has ended, then train near the parameters that mattered in past ones."""
        trained = yield from self.fit(job, self.closed(job))
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
        return 2.0 if replay.closes(job) else 0.0

    def loss(self, params: Parameters, data: Graph, given: Tree) -> Tensor:
        """Return the cross-entropy, the penalty of past periods and the norm of the gradient."""
        plain = self.task.loss(params, data)
        if self.preset == "official":
            return 2 * plain + retention.pull(given, params)
        total = plain + retention.pull(given, params)
        return total + self.beta * self.steepness(plain, params) if self.beta else total

    def steepness(self, loss: Tensor, params: Parameters) -> Tensor:
        """Return ‖∂loss/∂θ‖₁ of each client, differentiable: (K,)."""
        leaves, clients = self.task.model.variables(params), len(loss)
        slopes = torch.autograd.grad(loss.sum(), leaves, create_graph=True, allow_unused=True)
        return torch.stack([slope.abs().reshape(clients, -1).sum(1) for slope in slopes if slope is not None]).sum(0)

    # ---- at the end of a period

    def closed(self, job: Job) -> Tree:
        """Return the client's A and c, after adding those of a period that has ended since its last job."""
        past = job.memory.get("past") or retention.nothing(job.download["model"])
        if replay.closes(job):
            last = job.memory["last"]
            past = retention.added(past, last["model"], self.importance(last["model"], self.graph(job, last["data"])))
            job.memory["last"] = None
        job.memory["past"] = past
        return past

    def graph(self, job: Job, ended: Graph) -> Graph:
        """Return the graph whose importances are computed; the published code takes that of the next period's call."""
        if self.preset == "paper":
            return ended
        same = all(torch.equal(ended[name], job.data[name]) for name in ("y", "edges"))
        return in_training(ended if same else job.data, job.seed, 0, 63)

    def importance(self, model: Parameters, data: Graph) -> Parameters:
        """Return A = λ_l I^loss + λ_t I^topo of one client's model on a graph."""
        of_loss = slopes(model, lambda params: self.task.loss(params, data).sum())
        of_topology = slopes(model, lambda params: self.topology(params, data))
        if self.preset == "official":  # the second backward pass adds to what the first has left
            of_topology = tree.add(of_topology, of_loss)
        scales = self.lambda_loss, self.lambda_topology
        return tree.transform(lambda a, b: scales[0] * a.square() + scales[1] * b.square(), of_loss, of_topology)

    def topology(self, params: Parameters, data: Graph) -> Tensor:
        """Return ‖a‖₂, with slope zero where all of a is; of a single layer the output is the embedding."""
        a = self.task.model.attention(params, data)
        if a is None:
            embeds = self.task.model.embedding_width
            a = self.task.embed(params, data) if embeds else self.task.forward(params, data)
        return torch.linalg.vector_norm(a)
