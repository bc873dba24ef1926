"""FedDGL: federated learning on dynamic graphs, with distillation, global prototypes and personal models
(Xie, Li, Chen, Yu and Huang, ACML 2024).

A client trains on  CE + w_kd L_KD + w_p L_P:

- L_KD = mean over sensitive nodes (`sensitive.py`) of CE + γ ‖z − z_g‖, with z embeddings of length 1 and z_g that
  of the global model at the end of the previous snapshot, in that snapshot; from the second snapshot on (Eqs. 4-11);
- L_P = mean over the client's classes of 1 − cos(P_kc, P̄_c), with P_kc the mean embedding of its training nodes
  that have an edge, and P̄ the global prototypes, once they exist (Eqs. 12, 15).

The server trains P̄ on the pairs (P_kc, c) (`global_prototypes.py`; Eqs. 13, 14), and gives each client a model of its
own: w_k ← λ_k w_k + (1 − λ_k) w̄ with λ_k = cos_k / Σ_j cos_j, cos_k between the client's prototypes and the global
ones of the same classes (Eqs. 18, 19).  w̄, λ_k and P̄ travel down, w_k and the P_kc with their classes up; the client
mixes.  Where a mean is over several servers' clients or over peers, Σ_j is over all of them.

As printed, Eqs. 14 and 15 push prototypes away from those of their own class: minimising −log of e^(−cos) favours a
small cosine with the own class, and Eq. 15 adds the cosine to what is minimised.  Both are right with the cosine
distance in place of the cosine (`sign: corrected`, the default); `literal` exists for comparison.

λ_k is 1/K on average, so personalisation is weak by construction.  Cosines are clamped to at least 1e-6.  All training
nodes are trained on, as in every method that it is compared with; with `trained: present` those without an edge,
which the paper's active set leaves out, are not, and are forgotten unless distilled.  If the graph does not change, all
nodes are in it, and none is sensitive.  The teacher is the model downloaded with the client's first job in a period,
which is the last mean of the previous period if all clients always train.

A client's own model is the mixed one, which is what Algorithm 1 returns; scores of local models are of that.  A model
whose weights evolve begins a period by its step (`fedsim/learn/evolution.py`): w̄ if it is of an earlier period, and the
client's own w_k, before both are mixed.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from algorithms.feddgl import global_prototypes, sensitive
from fedsim.core.span import Span
from fedsim.core.units import Count, Fraction
from fedsim.data.graph import Graph, with_masks
from fedsim.learn import evolution
from fedsim.learn.algorithm import Algorithm, Disclosed, Fit, Job, Memory, Needs, Reply, State, Tree, Work
from fedsim.learn.averaging import plain_mean
from fedsim.learn.engine import ops, tree
from fedsim.learn.model import Parameters
from fedsim.learn.personalised import class_means

LEAST = 1e-6  # that a cosine counts


@dataclass(frozen=True)
class FedDGL(Algorithm):
    """Without its three parts this is the plain mean of models."""

    discloses = Disclosed(("updates", "prototypes", "labels"))

    use_kd: bool = True  # distil at sensitive nodes
    use_gp: bool = True  # pull prototypes towards the global ones
    use_pa: bool = True  # personalise the models; otherwise all clients continue with the mean
    trained: Literal["all", "present"] = "all"  # train on all nodes, or on those with an edge in the snapshot
    active: sensitive.Rule = "edges"  # what makes a node active; the others may be forgotten
    sign: Literal["corrected", "literal"] = "corrected"  # sign of the cosines in Eqs. 14 and 15
    prototypes: Literal["cosine", "margin"] = "cosine"  # loss of the server's prototypes P̄: Eq. 14, or as in FedTGP
    weigh: Literal["cosine", "softmax"] = "cosine"  # λ_k by cosines, or by exp(β cos) as in the published code
    beta: float = 0.5  # sharpness β of the softmax weights
    lambda_scale: float = 1.0  # factor on λ_k, which stays at most 1
    w_kd: float = 1.0  # weight of L_KD
    w_p: float = 1.0  # weight of L_P
    reduce: Literal["mean", "sum"] = "mean"  # reduction over sensitive nodes; the paper prints sums
    gamma: float = 0.1  # weight γ of the distance between embeddings
    q: float = 1.0  # a node is well learned if its loss is below this multiple of the mean
    topk: Fraction = 0.1  # share of the candidates that count as sensitive, rounded up
    tau: float = 1.0  # temperature τ
    epochs: Count = 100  # epochs of the server's training of prototypes
    batch: Count = 10  # pairs per step of this training
    rate: float = 0.01  # learning rate of this training
    tunes = {"w_kd": Span(0.01, 10.0, log=True), "w_p": Span(0.01, 10.0, log=True), "lambda_scale": Span(0.0, 2.0)}

    @property
    def any_model(self) -> bool:  # type: ignore[override]
        """Whether nothing is distilled at nodes that no message of so many layers reaches."""
        return not self.use_kd

    @property
    def needs(self) -> frozenset[Needs]:  # type: ignore[override]
        """Embeddings; a client with a model of its own has buffers of its own."""
        return frozenset({"embed", "own buffers"} if self.use_pa else {"embed"})

    # ---- server

    def start(self) -> State:
        """Return the first model, and prototypes that are not trained yet."""
        net = global_prototypes.drawn(self.task.classes, class_means.width(self.task), self.generator("prototypes"))
        net = tree.to(net, self.task.device)
        known = {"table": None, "met": torch.zeros(self.task.classes, 1, device=self.task.device)}
        sums = {"updates": 0, "votes": {}, "total": 0.0, "last": {}}
        return {"model": self.task.init(), "net": net, **known, **sums, **evolution.first(self.task.model)}

    def generator(self, *names: object) -> torch.Generator:
        """Return a generator of this run's seed."""
        return ops.generator(self.task.seed, "feddgl", *names)

    def download(self, state: State, client: int, step: str) -> Tree:
        """Send the mean model, this client's share of its own, and the global prototypes once there are some."""
        sent = {"model": state["model"], **evolution.entry(state)}
        if self.use_pa:
            sent["share"] = self.share_of(state, client)
        if self.use_gp and state["table"] is not None:
            sent["prototypes"] = state["table"]
        return sent

    def share_of(self, state: State, client: int) -> float:
        """Return λ_k, 0 for a client that has not replied yet."""
        vote = state["votes"].get(client, 0.0)
        return min(1.0, self.lambda_scale * vote / max(vote, state["total"], LEAST))

    def predictor(self, state: State, client: int, memory: Memory) -> Tree:
        """Return the client's own model."""
        local = state["last"].get(client)
        return state["model"] if local is None else mixed(local, state["model"], self.share_of(state, client))

    def personal(self, state: State, client: int, memory: Memory) -> Tree:
        """Return the client's own model: mixed with the mean, not as its last training left it."""
        return self.predictor(state, client, memory)

    def update(self, state: State, replies: Sequence[Reply], step: str) -> State:
        """Average all models with equal weights (Eq. 19), train the prototypes, and weight the clients by theirs."""
        changed = {"model": tree.add(state["model"], plain_mean(replies)), "updates": state["updates"] + 1}
        state = {**state, **changed, **evolution.noted(state, replies)}
        if self.sends_prototypes:
            state = self.fitted(state, replies)
        if not self.use_pa:
            return state
        votes = {**state["votes"], **{reply.client: self.vote(reply.upload, state["table"]) for reply in replies}}
        models = {r.client: tree.add(r.download["model"], r.upload["update"]) for r in replies}
        return {**state, "votes": votes, "total": sum(votes.values()), "last": {**state["last"], **models}}

    def dry_update(self, state: State, replies: Sequence[Reply], step: str) -> State:
        """Note that there are global prototypes, once a client has sent some."""
        if state["table"] is not None or not any(len(reply.upload.get("classes", ())) for reply in replies):
            return state
        return {**state, "table": torch.zeros(self.task.classes, self.task.model.embedding_width)}

    @property
    def sends_prototypes(self) -> bool:
        """Whether clients send their prototypes."""
        return self.use_gp or self.use_pa

    def fitted(self, state: State, replies: Sequence[Reply]) -> State:
        """Return the state after training the prototypes; zeros for classes without any."""
        rows = torch.cat([reply.upload["prototypes"] for reply in replies])
        labels = torch.cat([reply.upload["classes"].long() for reply in replies])
        if not len(rows):
            return state
        sign, steps = 1.0 if self.sign == "corrected" else -1.0, (self.epochs, self.batch, self.rate)
        objective = global_prototypes.Objective(self.prototypes, sign, self.tau, *steps)
        order = self.generator("order", state["updates"])
        net = global_prototypes.fitted(state["net"], rows, labels, objective, order)
        met = state["met"].index_fill(0, labels, 1.0)
        return {**state, "net": net, "met": met, "table": global_prototypes.table_of(net) * met}

    def vote(self, sent: Tree, table: Tensor) -> float:
        """Return what λ_k is proportional to, from the cosine of a client's prototypes with the global ones."""
        cosine = 0.0
        if len(sent["classes"]):
            same = table[sent["classes"].long()]
            cosine = float(F.cosine_similarity(sent["prototypes"].flatten(), same.flatten(), dim=0))
        return max(LEAST, cosine) if self.weigh == "cosine" else exp(self.beta * cosine)

    def share(self, state: State) -> Tree:
        """Send the model and the total that its clients' λ_k are shares of."""
        return {**super().share(state), **({"total": state["total"]} if self.use_pa else {})}

    def mix(self, state: State, shares: Sequence[Tree], weights: Sequence[float]) -> State:
        """Average models; λ_k becomes a share of the joint total."""
        total = sum(sent["total"] for sent in shares) if self.use_pa else 0.0
        return {**super().mix(state, shares, weights), "total": total}

    def server_flops(self, state: State, replies: Sequence[Reply], step: str) -> float:
        """Return the averaging and the training of the prototypes."""
        pairs = sum(len(reply.upload.get("classes", ())) for reply in replies)
        sizes = self.task.classes, self.task.model.embedding_width, pairs, self.epochs, self.batch
        return super().server_flops(state, replies, step) + global_prototypes.operations(*sizes)

    # ---- client

    def work(self, job: Job) -> Work:
        """Mix the client's own model, train it, and send it with its prototypes."""
        received, memory = job.download["model"], job.memory
        local, share = memory.get("local"), job.download.get("share", 0.0)
        since = memory.get("present_period", 0)  # the period that its own model is of
        self.enter(job, received if local is None else mixed(local, received, share))
        start = evolution.entered(self.task.model, job).download["model"]
        if local is not None and share:
            periods = job.period - since if evolution.KEY in job.download else 0
            local = evolution.begun(self.task.model, local, periods, memory["past"] if periods else job.data)
            start = mixed(local, start, share)
        data, trained = memory["data"], start
        if self.task.examples(data, "train") or len(memory["held"]["y"]):
            given = {"held": memory["held"], "prototypes": job.download.get("prototypes")}
            trained = yield Fit(start=start, loss=self.loss, given=given, data=data)
        memory["local"] = trained
        update = {"update": tree.sub(trained, received), **evolution.mark(job)}
        if not self.sends_prototypes:
            return update
        return {**class_means.of(self.task, trained, data, present(data), counted=False), **update}

    def enter(self, job: Job, model: Parameters) -> None:
        """Choose the sensitive nodes of a new period, by the model and the graph of the previous one."""
        memory, graph = job.memory, job.data
        if memory.get("period") == job.period:
            return
        held = sensitive.nobody(self.task, graph)
        if self.distils(job):
            before, hops = memory["graph"], self.task.model.layers
            among = sensitive.candidates(graph, memory["learned"], memory["ever"], hops, self.active)
            rows = sensitive.choose(self.task, model, before, graph, among, q=self.q, share=self.topk)
            targets = sensitive.taught(self.task, job.download["model"], before, graph["node"][rows])
            held = sensitive.held(graph, rows, targets, whole=sensitive.whole(self.task, self.active))
        data = with_masks(graph, present(graph), graph["val"], graph["test"]) if self.trained == "present" else graph
        notes = sensitive.notes(memory, graph, present(graph)) if "node" in graph else {}
        memory.update(period=job.period, graph=graph, data=data, held=held, **notes)

    def distils(self, job: Job) -> bool:
        """Return whether nodes can have been forgotten since the client's last job."""
        return self.use_kd and "ever" in job.memory and job.memory["period"] != job.period

    def loss(self, params: Parameters, data: Graph, given: Tree) -> Tensor:
        """Return CE + w_kd L_KD + w_p L_P."""
        total, held, table = self.task.loss(params, data), given["held"], given["prototypes"]
        if table is not None:
            means, counts = ops.by_class(self.task.embed(params, data), data, self.task.classes, present(data))
            cosine, held_classes = F.cosine_similarity(means, table, dim=2), (counts > 0).to(means.dtype)
            apart = 1 - cosine if self.sign == "corrected" else cosine
            total = total + self.w_p * (apart * held_classes).sum(1) / held_classes.sum(1).clamp(min=1)
        if len(held["y"]):
            z = F.normalize(self.task.embed(params, held), dim=1)
            far = ops.root((z - held["target"]).square().sum(1) + 1e-12)
            lost = self.task.loss(params, held) + self.gamma * ops.mean_by_client(far, held, held["train"])
            count = ops.sum_by_client(held["train"].to(far.dtype), held) if self.reduce == "sum" else 1.0
            total = total + self.w_kd * count * lost
        return total

    def upload_like(self, job: Job) -> Tree:
        """Return a tree as large as the upload."""
        update = {"update": job.download["model"], **evolution.mark(job)}
        if not self.sends_prototypes:
            return update
        means = class_means.like(job.data, present(job.data), self.task.model.embedding_width, counted=False)
        return {**means, **update}

    def effort(self, job: Job) -> float:
        """Count the prototypes, as expensive as the step itself, and L_KD, twice as expensive.

        Sensitive nodes without edges are not counted: they are few, and which they are depends on training.
        """
        held = 2.0 if self.use_kd and "ever" in job.memory and sensitive.whole(self.task, self.active) else 0.0
        return 1.0 + (1.0 if "prototypes" in job.download else 0.0) + held

    def extra_steps(self, job: Job) -> float:
        """Count forward passes, a third of a step each: one for the prototypes, three for a choice of nodes."""
        return (1 / 3 if self.sends_prototypes else 0.0) + (1.0 if self.distils(job) else 0.0)


def present(graph: Graph) -> Tensor:
    """Return the training nodes (N,) that are in the snapshot: have an edge, where the graph changes."""
    return graph["train"] & sensitive.active(graph)


def mixed(local: Parameters, mean: Parameters, share: float) -> Parameters:
    """Return share · own + (1 − share) · mean."""
    return tree.add(tree.scale(local, share), tree.scale(mean, 1 - share))
