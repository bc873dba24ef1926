"""FedProto: clients share class prototypes instead of weights (Tan et al., AAAI 2022).

Each client sends the mean embedding of its training nodes of each class.  The server averages them by the numbers of
nodes, P̄_c = Σ_k |D_kc| P_kc / Σ_k |D_kc|, and the clients train on CE + λ Σ_c ‖P_kc − P̄_c‖² / H over the classes
that both have; in the first round on CE alone.  λ = 1 assumes the division by the H numbers of an embedding, as in the
published code; with the sum that the formula prints, prototypes outweighed labels (macro F1 of 0.19 instead of 0.31 on
a drawn graph).  To get it, multiply `weight` by H.

With `average` the weights are averaged as well (FedAvg), which a comparison by global scores needs.  Otherwise a client
starts from the first model, which it is sent once, and keeps its own from then on.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from algorithms.fedavg import FedAvg
from fedsim.core.span import Span
from fedsim.data.graph import Graph
from fedsim.learn import evolution
from fedsim.learn.algorithm import Disclosed, Fit, Job, Memory, Needs, Reply, State, Tree, Work
from fedsim.learn.engine import ops, tree
from fedsim.learn.model import Parameters
from fedsim.learn.personalised import class_means


@dataclass(frozen=True)
class FedProto(FedAvg):
    """See the module's docstring; λ = 0 with `average` is FedAvg but for the prototypes that travel."""

    any_model = True
    discloses = Disclosed(("prototypes", "labels"))  # and updates with `average`
    weight: float = 1.0  # λ, weight of the distance to the global prototypes
    average: bool = False  # average the weights too
    tunes = {"weight": Span(0.01, 10.0, log=True)}

    @property
    def needs(self) -> frozenset[Needs]:  # type: ignore[override]
        """Embeddings; unless weights are averaged, buffers are each client's own, too."""
        return frozenset({"embed"} if self.average else {"embed", "own buffers"})

    def start(self) -> State:
        """Return the first model and no prototype."""
        table = torch.zeros(self.task.classes, class_means.width(self.task), device=self.task.device)
        known = torch.zeros(self.task.classes, device=self.task.device)
        first = {"model": self.task.init(), **evolution.first(self.task.model)}
        return {**first, "prototypes": table, "known": known, "met": frozenset()}

    def download(self, state: State, client: int, step: str) -> Tree:
        """Send the known prototypes, and the model if the client needs it."""
        known = state["known"].nonzero().squeeze(1)
        sent = {"classes": known.int(), "prototypes": state["prototypes"][known], **evolution.entry(state)}
        return {**sent, "model": state["model"]} if self.average or client not in state["met"] else sent

    def predictor(self, state: State, client: int, memory: Memory) -> Tree:
        """Return the client's own model, unless weights are averaged."""
        return state["model"] if self.average or memory.get("local") is None else memory["local"]

    def work(self, job: Job) -> Work:
        """Train the model towards the global prototypes; send the client's own."""
        model = job.download["model"] if self.average else job.memory.get("local", job.download.get("model"))
        start = trained = self.begun(job, model)
        if self.task.examples(job.data, "train"):
            prototypes, known = class_means.spread(job.download, self.task.classes)
            given = {"received": start, "prototypes": prototypes, "known": known}
            trained = yield Fit(start=start, loss=self.loss, given=given)
        job.memory["local"] = trained
        means = class_means.of(self.task, trained, job.data, job.data["train"], counted=True)
        sent = {**means, **evolution.mark(job)}
        return {**sent, "update": tree.sub(trained, model), "samples": self.samples(job.data)} if self.average else sent

    def begun(self, job: Job, model: Parameters) -> Parameters:
        """Return a model at the beginning of the job's period; a client's own is of the period that it last trained in.

        A client without one takes the first model, of period 0.
        """
        if self.average:
            return evolution.entered(self.task.model, job).download["model"]
        return evolution.kept(self.task.model, job, model) if evolution.KEY in job.download else model

    def loss(self, params: Parameters, data: Graph, given: Tree) -> Tensor:
        """Return the cross-entropy plus the distance to the global prototypes."""
        means, counts = ops.by_class(self.task.embed(params, data), data, self.task.classes, data["train"])
        both = (counts > 0) * given["known"]
        apart = (means - given["prototypes"]).square().mean(2)
        return self.task.loss(params, data) + self.weight * (apart * both).sum(1)

    def upload_like(self, job: Job) -> Tree:
        """Return a tree as large as the upload."""
        means = class_means.like(job.data, job.data["train"], self.task.model.embedding_width, counted=True)
        like = {**means, **evolution.mark(job)}
        return {**like, "update": job.download["model"], "samples": 0} if self.average else like

    def mass(self, reply: Reply) -> float:
        """Return the nodes that the prototypes are means of."""
        return float(reply.upload["counts"].sum())

    def update(self, state: State, replies: Sequence[Reply], step: str) -> State:
        """Average prototypes by their numbers of nodes; a class without any keeps its prototype."""
        tables = [class_means.spread(reply.upload, self.task.classes) for reply in replies]
        counts = torch.stack([counts for _, counts in tables])
        total = counts.sum(0)
        mean = torch.einsum("kc,kch->ch", counts / total.clamp(min=1), torch.stack([rows for rows, _ in tables]))
        new = super().update(state, replies, step) if self.average else state
        new = {**new, **evolution.noted(state, replies), "met": state["met"] | {reply.client for reply in replies}}
        return {**new, **replaced(state, mean, total > 0)}

    def dry_update(self, state: State, replies: Sequence[Reply], step: str) -> State:
        """Note who has the model, and which classes have a prototype."""
        known = state["known"].clone()
        known[torch.cat([reply.upload["classes"] for reply in replies]).long()] = 1.0
        return {**state, "known": known, "met": state["met"] | {reply.client for reply in replies}}

    def share(self, state: State) -> Tree:
        """Send prototypes to a peer; the model only where weights are averaged."""
        sent = {"prototypes": state["prototypes"], "known": state["known"]}
        return {**sent, "model": state["model"]} if self.average else sent

    def mix(self, state: State, shares: Sequence[Tree], weights: Sequence[float]) -> State:
        """Average the prototypes of the peers that have them, and models if weights are averaged."""
        new = super().mix(state, shares, weights) if self.average else state
        parts = torch.tensor(weights, device=state["known"].device).unsqueeze(1)
        parts = parts * torch.stack([share["known"] for share in shares])
        total = parts.sum(0)
        parts = parts / torch.where(total > 0, total, 1.0)
        mean = torch.einsum("kc,kch->ch", parts, torch.stack([share["prototypes"] for share in shares]))
        return {**new, **replaced(state, mean, total > 0)}

    def effort(self, job: Job) -> float:
        """Count the prototypes, as expensive as the step itself, once there are some."""
        return 2.0 if len(job.download["classes"]) else 1.0

    def extra_steps(self, job: Job) -> float:
        """Count the closing prototypes: a forward pass is about a third of a step."""
        return 1 / 3


def replaced(state: State, mean: Tensor, present: Tensor) -> State:
    """Return the prototypes (C, H), new where their class is `present` (C,), and which of them are known."""
    prototypes = torch.where(present.unsqueeze(1), mean, state["prototypes"])
    return {"prototypes": prototypes, "known": torch.where(present, 1.0, state["known"])}
