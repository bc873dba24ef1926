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
from typing import ClassVar, Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from algorithms.fedavg import FedAvg
from fedsim.core.errors import Problem, ScenarioError
from fedsim.core.seeds import integer
from fedsim.core.span import Span
from fedsim.core.units import Count, Fraction
from fedsim.core.wire import Tree
from fedsim.data.graph import Graph, graph_of
from fedsim.learn import joining, ops, prototypes, replay, server_training, tree
from fedsim.learn.algorithm import Job, Memory, Reply, State, Work
from fedsim.learn.model import Parameters
from fedsim.learn.optimiser import Adam
from fedsim.learn.replay import BETA

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Power(FedAvg):
    """The knowledge transfer and the replay can each be switched off: with neither, this is FedAvg bit for bit."""

    title: ClassVar[str] = "POWER"

    aggregates = True

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
    tunes: ClassVar[Mapping[str, Span]] = {
        "beta": BETA,
        "phi": Span(0.0, 0.9, step=0.1),
        "server_epochs": Span(choices=(3, 5, 10)),
    }

    def tunable(self) -> Mapping[str, Span]:
        """Return the spans of what is switched on."""
        off = ({"beta"} if not self.replay else set()) | ({"phi", "server_epochs"} if not self.transfer else set())
        return {name: span for name, span in self.tunes.items() if name not in off}

    # ---- server

    def start(self) -> State:
        """Return the model, the encoder Γ, and empty notes on the classes met.

        Raises ScenarioError for a single class, of which a prototype's gradients say nothing.
        """
        if self.transfer and self.task.classes == 1:
            message = "'power' reads a prototype's class from its gradients, which are 0 where there is only one class"
            raise ScenarioError([Problem("algorithm", message)])
        features, classes, seed = self.task.features, self.task.classes, integer(self.task.seed, "power", "encoder")
        gamma = prototypes.encoder(features, classes, seed, self.task.device)
        notes = {"known": {}, "met": {}, "x": torch.zeros(0, features), "y": [], "updates": 0, "sent": 0}
        return {**super().start(), "encoder": gamma, **notes, "restarts": 0, "skipped": 0}

    def download(self, state: State, client: int, step: str) -> Tree:
        """Send the model; the encoder until a reply has shown that the client has it; the last period known of it."""
        if not self.transfer:
            return super().download(state, client, step)
        known = state["known"].get(client)
        first = {"encoder": state["encoder"]} if known is None else {}
        return {**super().download(state, client, step), "known": "" if known is None else str(known), **first}

    def update(self, state: State, replies: Sequence[Reply], step: str) -> State:
        """Aggregate, reconstruct the prototypes received, and transfer."""
        new = super().update(state, replies, step)
        if not self.transfer:
            return new
        new["updates"] = state["updates"] + 1
        new = self.learn(new, [reply for reply in replies if "prototypes" in reply.upload])
        teachers = {r.client: tree.add(r.download["model"], r.upload["update"]) for r in replies}
        return {**new, "model": self.teach(new, teachers)} if len(new["y"]) else new

    @property
    def averages(self) -> bool:
        """Whether nothing but the mean is used: not where prototypes are sent and models taught."""
        return not self.transfer

    def learn(self, state: State, replies: Sequence[Reply]) -> State:
        """Note the classes that clients have met, and add the prototypes that can be reconstructed to the buffer."""
        met, sent, labels = dict(state["met"]), [], []
        for reply in replies:
            period, counts = int(reply.upload["period"]), torch.zeros(self.task.classes, dtype=torch.double)
            for one in reply.upload["prototypes"]:
                labels.append(prototypes.label_of(one["gradients"]))
                sent.append(one["gradients"])
                counts[labels[-1]] += one["count"]
            before, q = met.get(reply.client, (period, torch.zeros_like(counts)))
            share = counts if self.preset == "official" else counts / counts.sum().clamp(min=1)
            met[reply.client] = (period, self.faded(q, period - before) + share)
        state = {**state, "known": prototypes.periods_known(state["known"], replies), "met": met}
        if not sent:
            return state
        generator = torch.Generator().manual_seed(integer(self.task.seed, "power", "rebuild", state["updates"]))
        built = prototypes.rebuild(state["encoder"], sent, generator, steps=self.rebuild_steps, restarts=self.again)
        good = built.good | (self.preset == "official")  # the published code keeps what diverged
        skipped = int((~good).sum())
        if built.restarts or skipped:
            log.warning("%d prototypes received, %d restarts, %d skipped", len(sent), built.restarts, skipped)
        labels = [label for label, fine in zip(labels, good.tolist(), strict=True) if fine]
        x = torch.cat([state["x"].to(built.x.device), built.x[good]])
        tally = {"restarts": state["restarts"] + built.restarts, "skipped": state["skipped"] + skipped}
        return {**state, "x": x, "y": state["y"] + labels, "sent": state["sent"] + len(sent), **tally}

    def dry_update(self, state: State, replies: Sequence[Reply], step: str) -> State:
        """Note whose period is known, and how many prototypes were sent."""
        if not self.transfer:
            return state
        sent = sum(len(reply.upload.get("prototypes", ())) for reply in replies)
        return {**state, "known": prototypes.periods_known(state["known"], replies), "sent": state["sent"] + sent}

    @property
    def again(self) -> int:
        """The restarts of a reconstruction that diverged: none in the published code."""
        return self.restarts if self.preset == "paper" else 0

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
            wisdom = self.task.forward(stacked, joining.union([buffer] * len(clients)))
        wisdom = wisdom.view(len(clients), len(y), -1)
        weight = self.trust(state, clients)[:, y]
        seed = integer(self.task.seed, "power", "teach", state["updates"])

        def loss(model: Parameters, epoch: int) -> Tensor:
            graph = server_training.in_training(buffer, seed, epoch) if self.server_dropout else buffer
            return self.divergence(self.task.forward(model, graph), wisdom, weight, y)

        adam = Adam(self.server_lr, self.server_decay)
        return server_training.descend(state["model"], loss, adam, self.server_epochs)[0]

    def divergence(self, own: Tensor, wisdom: Tensor, weight: Tensor, y: Tensor) -> Tensor:
        """Return Σ w KL(global ‖ client) as printed, or the code's weighted L1 distance of logits, by class means."""
        if self.preset == "official":
            counts = torch.bincount(y, minlength=self.task.classes)[y]
            return (weight * (own - wisdom).abs().mean(2) / counts).sum()
        mine, theirs = F.log_softmax(own, 1), F.log_softmax(wisdom, 2)
        return (weight * (mine.exp() * (mine - theirs)).sum(2)).sum()

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
        sent = sum(len(reply.upload.get("prototypes", ())) for reply in replies)
        pass_of = 2.0 * tree.count(state["model"])
        return (
            total
            + prototypes.rebuild_flops(state["encoder"], sent, steps=self.rebuild_steps, restarts=self.again)
            + (state["sent"] + sent) * pass_of * (len(replies) + 3 * self.server_epochs)
        )

    # ---- client

    def work(self, job: Job) -> Work:
        """Close the period that has ended, train with replay, and send prototypes that the server does not know yet."""
        given = {"received": job.download["model"]}
        if self.replay:
            given = {"buffer": replay.closed(job, self.select)}
        extra = self.introduce(job) if self.transfer else {}
        trained = yield from self.fit(job, given)
        if self.replay:
            received = job.download["model"]
            job.memory["last"] = {"period": job.period, "data": job.data, "model": trained, "received": received}
            job.memory["last"]["seed"] = job.seed
        return {"update": tree.sub(trained, job.download["model"]), "samples": self.samples(job.data), **extra}

    def loss(self, params: Parameters, data: Graph, given: Tree) -> Tensor:
        """Return β L_new + (1 − β) L_old (Eq. 7), or the task's loss alone without replay."""
        if not self.replay:
            return self.task.loss(params, data)
        return replay.mixed(self.task, params, data, given["buffer"], self.beta)

    def introduce(self, job: Job) -> Tree:
        """Return the prototype gradients and class counts of a period that the server does not know yet."""
        if "encoder" in job.download:
            job.memory["encoder"] = job.download["encoder"]
        if not self.introduces(job):
            return {}
        labels, means, counts = prototypes.of_classes(job.data, self.task.classes)
        sent = prototypes.gradients(job.memory["encoder"], means, labels)
        both = zip(sent, counts.tolist(), strict=True)
        return {"prototypes": [{"gradients": g, "count": n} for g, n in both], "period": str(job.period)}

    def dry_work(self, job: Job) -> None:
        """Keep the encoder, and note what will be replayed."""
        if "encoder" in job.download:
            job.memory["encoder"] = job.download["encoder"]
        if self.replay:
            replay.dry(job, self.keep)

    def effort(self, job: Job) -> float:
        """Count the replayed vertices beside the graph's own."""
        return 1 + replay.replayed(job, self.keep) if self.replay else 1.0

    def extra_steps(self, job: Job) -> float:
        """Count two forward passes, a third of a step each, if a period has ended, and Γ's gradients."""
        steps = 2 / 3 if self.replay and replay.closes(job) else 0.0
        if self.introduces(job):
            gamma, classes = self.introduction(job)
            steps += classes * 6.0 * tree.count(gamma) / self.task.flops(job.data)
        return steps

    def introduces(self, job: Job) -> bool:
        """Return whether the server does not know the client's period yet."""
        return self.transfer and job.download["known"] != str(job.period)

    def introduction(self, job: Job) -> tuple[Parameters, int]:
        """Return Γ, and the number of classes whose gradients a client would send."""
        gamma = job.download.get("encoder") or job.memory["encoder"]
        return gamma, len(job.data["y"][job.data["train"]].unique())  # type: ignore[no-untyped-call]

    def upload_like(self, job: Job) -> Tree:
        """Return a tree as large as the upload: the model, and Γ for each class to be introduced."""
        like = super().upload_like(job)
        if not self.introduces(job):
            return like
        gamma, classes = self.introduction(job)
        return {**like, "prototypes": [{"gradients": gamma, "count": 0}] * classes, "period": str(job.period)}

    @torch.no_grad()
    def select(self, last: Memory) -> Graph:
        """Return the experience nodes of a period by local-global coverage (Eq. 2-4), as a buffer."""
        data: Graph = last["data"]
        official = self.preset == "official"
        own = self.task.embed(tree.stack([last["model"]]), data)
        seeds = torch.tensor([last["seed"]], device=own.device)
        # the published code never puts its copy of the global model in evaluation mode
        noisy: Graph = {**data, "seed": ops.seed_steps(seeds, 0, 63)} if official else data
        z = self.alpha * own + (1 - self.alpha) * self.task.embed(tree.stack([last["received"]]), noisy)
        scale, best = ("class", replay.greedy_cover) if official else ("vertex", replay.most_covering)
        return replay.of_each_class(
            data, lambda rows: best(replay.coverage(z[rows], self.epsilon, scale=scale), self.keep)
        )
