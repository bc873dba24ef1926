"""O-pFGL: one exchange of class moments, and personal models taught by a global one (arXiv 2411.11304).

A round has two halves of one exchange, with one cohort:

    moments   a client sends, for each class with two or more training nodes, n, and the mean and deviation of
              x̃ = [x ‖ Âx ‖ … ‖ Âʰx]; from those of all clients the server learns a small surrogate graph (surrogate.py)
    train     a client receives the first model and the surrogate, trains the model on the surrogate, and then, with the
              result as a frozen teacher, on its own graph; it sends a confirmation without content

    L = CE on training nodes + (1/n) Σ_i γ_i KL(teacher_i ‖ model_i), over all n nodes   (γ: adaptive.py)

The client keeps its model: there is no common one, and what is scored as global is the client's own too.  With N
numbers in the model, D = (h + 1) F, C classes, m of them held, and a surrogate of n' nodes, arrays take

    up    4 C + 8 m D                        (C counts, of which those of classes that are not held are 0)
    down  4 N + 4 n' F + n' (n' − 1) / 2 + 8 n'

The published down message holds 12 bytes for each weighted edge.  Here a message's size must not depend on a trained
value, and models know no edge weights: one byte for each pair says whether it is joined, at A' ≥ 0.5 and not 0.01.

From the authors' code of November 2024; their newer text, of which only the abstract was read, may differ.  Here:

- `official` takes the code's divisor Σ n − K of the variance, which is not exact, and its propagated labels, whose rows
  are not normalised.
- The second stage has the scenario's optimiser, rate and steps; the code's is Adam of 5e-5.  The first stage is the
  code's: Adam of 1e-4, at most 3,000 steps, validated by accuracy every 100, and stopped after 5 without a better one;
  of equals the later is the teacher.  The clock bills all steps, as time must not depend on what is learned.
- Pseudo-labelled nodes do not enter the moments, which is an option of the code.
- The floor of γ is not published: `least`.

A further round does the same again, with the moments of the graphs then held, and each client begins anew from the
first model; the server keeps the latest moments of everybody.  It is billed for a node of each class, present or not,
or for those that `rate` yields, and for all pairs as edges.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from math import ceil
from typing import Annotated

import torch
import torch.nn.functional as F
from pydantic import Field, NonNegativeInt
from torch import Tensor

from algorithms.o_pfgl import adaptive, surrogate
from fedsim.core.seeds import integer
from fedsim.core.span import Span
from fedsim.core.units import Count, Fraction
from fedsim.data.graph import Graph, with_keys
from fedsim.learn.algorithm import Algorithm, Disclosed, Fit, Job, Memory, Reply, State, Tree, Work
from fedsim.learn.engine import ops, tree
from fedsim.learn.engine.optimiser import Adam, descend, in_training
from fedsim.learn.model import Parameters
from fedsim.learn.synthetic.pseudo_graphs import stand_in


@dataclass(frozen=True)
class OPFGL(Algorithm):
    """See the module's docstring."""

    title = "O-pFGL"
    own_steps = any_model = True
    discloses = Disclosed(("prototypes", "labels"))
    needs = frozenset({"vectors", "no buffers"})
    prepares = frozenset({"moments"})

    hops: NonNegativeInt = 1  # h, sums over neighbours whose moments are sent
    # surrogate nodes per labelled node of a class; null: one node for each class
    rate: Annotated[float, Field(gt=0, le=1)] | None = None
    surrogate_steps: Count = 3000  # steps that learn the surrogate
    surrogate_lr: float = 5e-3  # learning rate of its features
    edges_lr: float = 1e-3  # learning rate of the network that draws its edges
    threshold: Fraction = 0.5  # A' from which a pair is an edge
    first_steps: Count = 3000  # most steps of the first stage
    first_lr: float = 1e-4  # learning rate of its Adam
    check: Count = 100  # steps between its validations
    patience: Count = 5  # validations without a better one after which it stops
    gamma: float = 0.2  # largest weight of the teacher
    least: float = 0.0  # smallest weight of the teacher
    official: bool = False  # divide variances by Σ n − K, and leave propagated labels as they are, as the code does

    tunes = {"gamma": Span(0.01, 1.0, log=True)}

    def __post_init__(self) -> None:
        """Raise ValueError for weights of the teacher in the wrong order."""
        if not 0 <= self.least <= self.gamma:
            raise ValueError("least: must be from 0 to gamma")

    @property
    def learner(self) -> surrogate.Learner:
        """How the surrogate is learned."""
        return surrogate.Learner(self.surrogate_steps, self.threshold, self.surrogate_lr, self.edges_lr)

    # ---- server

    def start(self) -> State:
        """Return the first model, without moments.  Raises ScenarioError for a task without classes."""
        self.task.require_classes("'o_pfgl' sends moments of classes")
        return {"model": self.task.init(), "moments": {}, "surrogate": None, "learned": 0}

    def steps(self, state: State) -> Sequence[str]:
        """Return both halves of the exchange."""
        return ("moments", "train")

    def download(self, state: State, client: int, step: str) -> Tree:
        """Send the first model and the surrogate, after the moments have arrived."""
        if step == "moments":
            return {}
        learned = state["surrogate"]
        if learned is None:
            return {"model": state["model"]}
        pairs = surrogate.triangle(learned["links"])
        return {"model": state["model"], "surrogate": {"x": learned["x"], "pairs": pairs, "y": learned["y"]}}

    def update(self, state: State, replies: Sequence[Reply], step: str) -> State:
        """Learn a surrogate from everybody's latest moments."""
        if step != "moments":
            return {**state}
        sent = dict(sorted({**state["moments"], **{reply.client: reply.upload for reply in replies}}.items()))
        new = {**state, "moments": sent, "learned": state["learned"] + 1}
        wanted = surrogate.pooled(sent.values(), official=self.official)
        if wanted is None:
            return new
        drawn = ops.generator(self.task.seed, "o_pfgl", state["learned"])
        return {**new, "surrogate": self.learner.learned(wanted, self.labels(wanted), self.task.features, drawn)}

    def labels(self, wanted: surrogate.Moments) -> Tensor:
        """Return the labels (n',) of the surrogate's nodes, ascending."""
        sizes = [self.rows(int(n)) for n in wanted.n]
        return wanted.classes.repeat_interleave(torch.tensor(sizes, device=wanted.classes.device))

    def rows(self, n: int) -> int:
        """Return the number of surrogate nodes of a class of n labelled ones."""
        return 1 if self.rate is None else ceil(self.rate * n)

    def server_flops(self, state: State, replies: Sequence[Reply], step: str) -> float:
        """Return the reading, and the surrogate's steps."""
        total = super().server_flops(state, replies, step)
        if step != "moments":
            return total
        return total + self.learner.flops(self.size(state, replies), self.task.features, self.hops)

    def size(self, state: State, replies: Sequence[Reply]) -> int:
        """Return the number of nodes for which the server is billed."""
        if self.rate is None:
            return self.task.classes
        sent = {**state["moments"], **{reply.client: reply.upload for reply in replies}}
        counts = torch.stack([upload["counts"].cpu() for upload in sent.values()]).sum(0)
        return sum(self.rows(n) for n in counts.tolist())

    def predictor(self, state: State, client: int, memory: Memory) -> Tree:
        """Return the client's own model, or the first one."""
        return memory.get("local", state["model"])

    def common(self, state: State) -> None:
        """Return None: there is no common model."""

    # ---- client

    def work(self, job: Job) -> Tree | Work:
        """Send moments, or train."""
        if job.step == "moments":
            return surrogate.moments(job.data, self.task.classes, self.hops)
        return self.training(job)

    def training(self, job: Job) -> Work:
        """Train on the surrogate, then on the client's own graph; keep the model."""
        model = teacher = self.taught(job)
        if self.task.examples(job.data, "train"):
            model = yield Fit(start=teacher, loss=self.loss, data=self.listening(job, teacher), slot=None)
        job.memory["local"] = model
        return {}

    def taught(self, job: Job) -> Parameters:
        """Return the model after the first stage, the best of its validations."""
        model, received = job.download["model"], job.download.get("surrogate")
        if received is None:
            return model
        data = surrogate.graph(received["x"], received["pairs"], received["y"])
        seed = integer(job.seed, "o_pfgl")
        validates = bool(self.task.examples(job.data, "val"))
        best, top, waited, moments = model, -1.0, 0, None
        for first in range(0, self.first_steps, self.check):
            count = min(self.check, self.first_steps - first)
            loss = partial(self.on_surrogate, data, integer(seed, first))
            model, moments = descend(model, loss, Adam(self.first_lr), count, moments)
            score = self.validated(job, model) if validates else 0.0
            waited = 0 if score > top else waited + 1
            if score >= top:
                best, top = model, score
            if validates and waited == self.patience:
                break
        return best

    def on_surrogate(self, data: Graph, seed: int, params: Parameters, step: int) -> Tensor:
        """Return the task's loss on the surrogate."""
        return self.task.loss(params, in_training(data, seed, step))

    @torch.no_grad()
    def validated(self, job: Job, model: Parameters) -> float:
        """Return the share of the client's validation nodes that a model gets right."""
        rows = job.data["val"]
        guess = self.task.forward(tree.stack([model]), job.data)[rows].argmax(1)
        return float((guess == job.data["y"][rows]).float().mean())

    @torch.no_grad()
    def listening(self, job: Job, teacher: Parameters) -> Graph:
        """Return the client's graph with the teacher's log-probabilities, and γ behind them, as `target` (n, C + 1)."""
        log_shares = F.log_softmax(self.task.forward(tree.stack([teacher]), job.data), 1)
        top = self.gamma if "surrogate" in job.download else 0.0  # an untrained model is no teacher
        gamma = adaptive.weights(job.data, self.task.classes, top, min(self.least, top), official=self.official)
        return with_keys(job.data, {"target": torch.cat([log_shares, gamma.unsqueeze(1)], 1)})

    def loss(self, params: Parameters, data: Graph, given: Tree) -> Tensor:
        """Return the cross-entropy on training nodes, and the distance from the teacher on all."""
        output = self.task.forward(params, data)
        hard = ops.cross_entropy(output, data)
        taught, gamma = data["target"][:, :-1], data["target"][:, -1]
        apart = (taught.exp() * (taught - F.log_softmax(output, 1))).sum(1)
        return hard + ops.sum_by_client(gamma * apart, data) / data["sizes"]

    def upload_like(self, job: Job) -> Tree:
        """Return a tree as large as the upload."""
        return self.untrained_upload(job) if job.step == "moments" else {}

    def effort(self, job: Job) -> float:
        """Count the second stage's steps."""
        return 1.0 if job.step == "train" and self.task.examples(job.data, "train") else 0.0

    def extra_steps(self, job: Job) -> float:
        """Count the moments; or the first stage, its validations and the teacher's answers, and γ."""
        once, n, edges = self.task.flops(job.data), len(job.data["y"]), job.data["edges"].shape[1]
        if not once:
            return 0.0
        if job.step == "moments":
            sums = self.hops * 2.0 * (edges + n) * self.task.features
            return (sums + 4.0 * n * (self.hops + 1) * self.task.features) / once
        steps = 0.0
        if "surrogate" in job.download:
            n = len(job.download["surrogate"]["y"])  # all its pairs are counted as edges
            steps += self.first_steps * self.task.flops(stand_in(n, self.task.features, n)) / once
            steps += ceil(self.first_steps / self.check) / 3 if self.task.examples(job.data, "val") else 0.0
        if self.task.examples(job.data, "train"):
            steps += 1 / 3 + adaptive.flops(job.data, self.task.classes) / once
        return steps
