"""POWER: graph evolution trajectory-aware knowledge transfer (Zhu, Hu and Wu, KDD 2025).

Clients replay a few experience nodes of past periods (Eq. 2-7).  Once a period each client also sends the gradients
of its class prototypes (Eq. 8-9).  The server reconstructs pseudo prototypes from them (Eq. 10-11) and, after every
aggregation, trains the global model on them with the clients' models as teachers, each trusted on a class as far as its
trajectory has met that class (Eq. 12-14).

Where the paper and its published code differ, `preset` chooses: `paper` follows the equations, `official` the code's
formulas, its faults included.  Both use the softmax cross-entropy, since the printed loss (Eq. 5) would not let the
server infer classes.  `official` differs from the code in the reconstruction: it is computed in double precision, keeps
the best iterate instead of the last, and stops where no progress is left, while the code takes all 300 steps in single
precision; and it draws other random numbers.
What the paper calls privacy is none: a prototype follows from its gradients in closed form.  Whether intertask edges
are kept is the stream's option `edges`.
"""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from algorithms.fedavg import FedAvg
from fedsim.core.errors import ScenarioError
from fedsim.core.seeds import integer
from fedsim.core.span import Span
from fedsim.core.units import Count, Fraction
from fedsim.data.graph import Graph, graph_of
from fedsim.learn.algorithm import Disclosed, Job, Memory, Needs, Reply, State, Tree, Work
from fedsim.learn.continual import prototypes, replay
from fedsim.learn.continual.replay import BETA
from fedsim.learn.engine import joining, ops, tree
from fedsim.learn.engine.optimiser import Adam, descend, in_training
from fedsim.learn.model import Parameters

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Power(prototypes.Introducing, FedAvg):
    """The knowledge transfer and the replay can each be switched off: with neither, this is FedAvg bit for bit."""

    title = "POWER"

    aggregates = any_model = True
    discloses = Disclosed(("updates", "prototypes", "labels"))

    preset: Literal["paper", "official"] = "paper"  # the printed formulas, or the published code
    beta: Fraction = 0.01  # share of the new period's loss; the rest is replay
    alpha: Fraction = 0.5  # share of the local embedding in Z; 1 is "Local CM"
    keep: Count = 1  # experience nodes per class and period
    epsilon: float = 0.1  # radius of the coverage, in mean distances
    phi: Fraction = 0.3  # weight of earlier periods; 0 is "Non-cumulative"
    replay: bool = True  # false is "w/o LGF"
    transfer: bool = True  # false is "w/o GEC"
    server_epochs: Count = 3  # steps of the transfer after each aggregation
    server_lr: float = 1e-2  # learning rate, of a new Adam each time
    server_decay: float = 5e-4  # weight decay of that Adam
    server_dropout: bool = True  # train the global model with dropout, as in the code
    rebuild_steps: Count = 300  # outer L-BFGS steps, of at most 20 iterations, per prototype
    restarts: int = 5  # restarts of a reconstruction that diverged; the official code has none
    neighbours: int = 0  # edges of the buffer graph to the k̄ most similar; 0: only self-loops
    tunes = {"beta": BETA, "phi": Span(0.0, 0.9, step=0.1), "server_epochs": Span(choices=(3, 5, 10))}

    @property
    def needs(self) -> frozenset[Needs]:  # type: ignore[override]
        """What the replay needs, and the transfer."""
        replay: set[Needs] = {"embed", "own buffers"} if self.replay else set()
        return frozenset(replay | ({"vectors", "no buffers"} if self.transfer else set()))

    def tunable(self) -> Mapping[str, Span]:
        """Return the spans of what is switched on."""
        off = ({"beta"} if not self.replay else set()) | ({"phi", "server_epochs"} if not self.transfer else set())
        return {name: span for name, span in self.tunes.items() if name not in off}

    # ---- server

    def start(self) -> State:
        """Return the model, and for the transfer the encoder Γ and empty notes on the classes met.

        Raises ScenarioError for a single class, of which a prototype's gradients say nothing.
        """
        if not self.transfer:
            return super().start()
        if self.task.classes == 1:
            message = "'power' reads a prototype's class from its gradients, which are 0 where there is only one class"
            raise ScenarioError.at("algorithm", message)
        seed = integer(self.task.seed, "power", "encoder")
        gamma = prototypes.encoder(self.task.features, self.task.classes, seed, self.task.device)
        notes = {"known": {}, "met": {}, "x": torch.zeros(0, self.task.features), "y": [], "updates": 0, "sent": 0}
        return {**super().start(), "encoder": gamma, **notes, "restarts": 0, "skipped": 0}

    def update(self, state: State, replies: Sequence[Reply], step: str) -> State:
        """Aggregate, reconstruct the prototypes received, and transfer."""
        new = super().update(state, replies, step)
        if not self.transfer:
            return new
        introductions = [reply for reply in replies if "prototypes" in reply.upload]
        new = self.record_trajectories({**new, "updates": state["updates"] + 1}, introductions)
        new = self.extend_buffer(new, introductions)
        teachers = {r.client: tree.add(r.download["model"], r.upload["update"]) for r in replies}
        return {**new, "model": self.teach(new, teachers)} if len(new["y"]) else new

    def record_trajectories(self, state: State, replies: Sequence[Reply]) -> State:
        """Add the classes of each client's new period to its trajectory q; earlier periods fade by φ (Eq. 12)."""
        trajectories = dict(state["met"])
        for reply in replies:
            period, counts = int(reply.upload["period"]), torch.zeros(self.task.classes, dtype=torch.double)
            for item in reply.upload["prototypes"]:
                counts[prototypes.label_of(item["gradients"])] += item["count"]
            last, q = trajectories.get(reply.client, (period, torch.zeros_like(counts)))
            share = counts if self.preset == "official" else counts / counts.sum().clamp(min=1)
            trajectories[reply.client] = (period, self.faded(q, period - last) + share)
        return {**state, "known": prototypes.periods_known(state["known"], replies), "met": trajectories}

    def extend_buffer(self, state: State, replies: Sequence[Reply]) -> State:
        """Reconstruct the received prototypes and append those that converged (Eq. 10-11)."""
        received = [prototype["gradients"] for prototype in prototypes.received(replies)]
        if not received:
            return state
        generator = ops.generator(self.task.seed, "power", "rebuild", state["updates"])
        built = prototypes.rebuild(state["encoder"], received, generator, **self.limits)
        converged = built.good | (self.preset == "official")  # the published code keeps all
        skipped = int((~converged).sum())
        if built.restarts or skipped:
            log.warning("%d prototypes received, %d restarts, %d skipped", len(received), built.restarts, skipped)
        labels = [prototypes.label_of(gradients) for gradients in received]
        return {
            **state,
            "x": torch.cat([state["x"].to(built.x.device), built.x[converged]]),
            "y": state["y"] + [label for label, ok in zip(labels, converged.tolist(), strict=True) if ok],
            "sent": state["sent"] + len(received),
            "restarts": state["restarts"] + built.restarts,
            "skipped": state["skipped"] + skipped,
        }

    @property
    def averages(self) -> bool:  # type: ignore[override]
        """Whether nothing but the mean is used: not where prototypes are sent and models taught."""
        return not self.transfer

    def dry_update(self, state: State, replies: Sequence[Reply], step: str) -> State:
        """Note whose period is known, and how many prototypes were sent."""
        if not self.transfer:
            return state
        known, sent = prototypes.periods_known(state["known"], replies), len(prototypes.received(replies))
        return {**state, "known": known, "sent": state["sent"] + sent}

    @property
    def limits(self) -> dict[str, int]:
        """The limits of a reconstruction; there is no restart in the published code."""
        return {"steps": self.rebuild_steps, "restarts": self.restarts if self.preset == "paper" else 0}

    def faded(self, q: Tensor, periods: int) -> Tensor:
        """Return φ^periods q, which is q for zero periods even if φ = 0."""
        return q * self.phi**periods if periods else q

    def trust(self, state: State, clients: Sequence[int]) -> Tensor:
        """Return w (K, C): q of each client over the sum of all, zero if no client has met the class."""
        now = max(period for period, _ in state["met"].values())
        none = (now, torch.zeros(self.task.classes, dtype=torch.double))
        met = [state["met"].get(client, none) for client in clients]
        q = torch.stack([self.faded(past, now - period) for period, past in met])
        return (q / q.sum(0).clamp(min=torch.finfo(q.dtype).tiny)).float().to(self.task.device)

    def teach(self, state: State, teachers: Mapping[int, Parameters]) -> Parameters:
        """Distil the participants' models into the global one on the pseudo prototypes (Eq. 14)."""
        clients = sorted(teachers)
        y = torch.tensor(state["y"], device=self.task.device)
        buffer = self.buffer_graph(state["x"].to(self.task.device), y)
        with torch.no_grad():
            stacked = tree.stack([teachers[c] for c in clients])
            answers = self.task.forward(stacked, joining.union([buffer] * len(clients)))
        answers = answers.view(len(clients), len(y), -1)
        weight = self.trust(state, clients)[:, y]
        seed = integer(self.task.seed, "power", "teach", state["updates"])

        def loss(model: Parameters, epoch: int) -> Tensor:
            graph = in_training(buffer, seed, epoch) if self.server_dropout else buffer
            return self.divergence(self.task.forward(model, graph), answers, weight, y)

        return descend(state["model"], loss, Adam(self.server_lr, self.server_decay), self.server_epochs)[0]

    def divergence(self, logits: Tensor, answers: Tensor, weight: Tensor, y: Tensor) -> Tensor:
        """Return Σ w KL(global ‖ client) as printed, or the code's weighted L1 distance of logits, by class means."""
        if self.preset == "official":
            counts = torch.bincount(y, minlength=self.task.classes)[y]
            return (weight * (logits - answers).abs().mean(2) / counts).sum()
        student, teachers = F.log_softmax(logits, 1), F.log_softmax(answers, 2)
        return (weight * (student.exp() * (student - teachers)).sum(2)).sum()

    def buffer_graph(self, x: Tensor, y: Tensor) -> Graph:
        """Return the pseudo prototypes as a graph (Eq. 13), ranked on raw products since the sigmoid saturates."""
        edges = torch.zeros(2, 0, dtype=torch.long, device=y.device)
        if self.neighbours:
            near = (x @ x.T).topk(min(self.neighbours, len(y)), dim=1).indices
            row = torch.arange(len(y), device=y.device).repeat_interleave(near.shape[1])
            pairs = torch.stack([torch.cat([row, near.flatten()]), torch.cat([near.flatten(), row])])
            edges = torch.unique(pairs[:, pairs[0] != pairs[1]], dim=1)
        return graph_of(x, edges, y)

    def server_flops(self, state: State, replies: Sequence[Reply], step: str) -> float:
        """Return the aggregation, the most that rebuilding may take (`prototypes.rebuild_flops`), and the transfer.

        Counted from the prototypes sent, not from those that could be rebuilt: time must not depend on values.
        """
        total = super().server_flops(state, replies, step)
        if not self.transfer:
            return total
        sent = len(prototypes.received(replies))
        rebuilding = prototypes.rebuild_flops(state["encoder"], sent, **self.limits)
        passes = (state["sent"] + sent) * (2.0 * tree.count(state["model"])) * (len(replies) + 3 * self.server_epochs)
        return total + rebuilding + passes

    # ---- client

    def work(self, job: Job) -> Work:
        """Close the period that has ended, train with replay, and send prototypes that the server does not know yet."""
        received = job.download["model"]
        given = {"buffer": replay.closed(job, self.select)} if self.replay else {"received": received}
        extra = self.introduce(job) if self.transfer else {}
        trained = yield from self.fit(job, given)
        if self.replay:
            last = {"period": job.period, "data": job.data, "model": trained, "received": received, "seed": job.seed}
            job.memory["last"] = last
        return {"update": tree.sub(trained, received), "samples": self.samples(job.data), **extra}

    def loss(self, params: Parameters, data: Graph, given: Tree) -> Tensor:
        """Return β L_new + (1 − β) L_old (Eq. 7), or the task's loss alone without replay."""
        if not self.replay:
            return self.task.loss(params, data)
        return replay.mixed(self.task, params, data, given["buffer"], self.beta)

    def introduce(self, job: Job) -> Tree:
        """Return the prototype gradients and class counts of a period that the server does not know yet."""
        self.keep_encoder(job)
        if not self.introduces(job):
            return {}
        labels, means, counts = prototypes.of_classes(job.data, self.task.classes)
        sent = prototypes.gradients(job.memory["encoder"], means, labels)
        return {"prototypes": list(map(self.prototype, sent, counts.tolist())), "period": str(job.period)}

    def dry_work(self, job: Job) -> None:
        """Keep the encoder, and note what will be replayed."""
        self.keep_encoder(job)
        if self.replay:
            replay.dry(job, self.keep)

    def effort(self, job: Job) -> float:
        """Count the replayed nodes beside the graph's own."""
        return 1 + replay.replayed(job, self.keep) if self.replay else 1.0

    def extra_steps(self, job: Job) -> float:
        """Count two forward passes, a third of a step each, if a period has ended, and Γ's gradients."""
        steps = 2 / 3 if self.replay and replay.closes(job) else 0.0
        if self.introduces(job):
            steps += self.introduction_flops(job) / self.task.flops(job.data)
        return steps

    def prototype(self, gradients: prototypes.Gradients, nodes: int) -> Tree:
        """Return what is sent of a class with so many training nodes."""
        return {"gradients": gradients, "count": nodes}

    @torch.no_grad()
    def select(self, last: Memory) -> Graph:
        """Return the experience nodes of a period by local-global coverage (Eq. 2-4), as a buffer."""
        data: Graph = last["data"]
        official = self.preset == "official"
        local = self.task.embed(tree.stack([last["model"]]), data)
        # the published code never puts its copy of the global model in evaluation mode
        noisy = in_training(data, last["seed"], 0, 63) if official else data
        z = self.alpha * local + (1 - self.alpha) * self.task.embed(tree.stack([last["received"]]), noisy)
        scale, best = ("class", replay.greedy_cover) if official else ("node", replay.most_covering)
        return replay.of_each_class(
            data, lambda rows: best(replay.coverage(z[rows], self.epsilon, scale=scale), self.keep)
        )
