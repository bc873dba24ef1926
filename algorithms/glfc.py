"""GLFC as a graph adaptation: compensated gradients and relations to an old model (Dong et al., CVPR 2022).

GLFC is a method for images.  POWER (KDD 2025) compares with an adaptation to graphs that its authors have not
published; this is ours.  A client trains on its period's nodes and, without edges, on its exemplars:

    L_GC = mean over nodes and outputs of w BCE(logits, one-hot),   w = |σ(z_y) − 1| / its mean over the same group
    L_RD = mean of BCE(logits, one-hot, but σ(old model) for old classes)
    L    = ½ L_GC + ½ L_RD, or L_GC where there is no old model

Groups are old and new classes: those of the client's earlier periods, and the others; w = 1 while there is none.  There
is no share of replay to choose: an exemplar counts as a node of the period, but for the weights.  Exemplars are the
`keep` training nodes of each class and period that are nearest to the class's mean embedding by herding.

After its first training in a period a client sends for each class the gradients of a fixed random encoder at a
prototype: the training node nearest to the class's mean embedding, after 50 SGD steps on the BCE of the trained
model, taken as an isolated node.  The server infers their labels and reconstructs them, as POWER does
(fedsim/learn/continual/prototypes.py), and scores every new global model on those of the latest updates that brought
some; the model that does best since then is `second`, the best of the time before `first`.  In the first job of a
period the old model is `second`, later `first`.

What differs from the published code: old columns are a set of classes of each client's own; the encoder is POWER's MLP
(`uniform: 0.5` draws its weights as the code does); the change of period is announced rather than inferred from
entropy; weights are normalised over a full batch; the code keeps the last 20 iterates of each reconstruction, which of
a search that has converged are one point, and here count once; the best score starts anew with new gradients; the
optimiser and the weights of the mean are FedAvg's; images are neither augmented nor rounded.  What diverges in the
reconstruction is left out.

With P parameters, and G in the encoder, a message holds 4 P bytes down and 4 P + 8 up; 4 G down until a reply shows
that the client has the encoder; 4 P down for each of `first` and `second` that the client does not hold; 4 G up for
each class, once a period, and the periods' names.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from algorithms.fedavg import FedAvg
from fedsim.core.seeds import integer
from fedsim.core.span import Span
from fedsim.core.units import Count
from fedsim.data.graph import Graph
from fedsim.learn.algorithm import Disclosed, Job, Memory, Reply, State, Tree, Work
from fedsim.learn.continual import prototypes, replay
from fedsim.learn.engine import ops, tree
from fedsim.learn.model import Parameters
from fedsim.learn.synthetic import inversion
from fedsim.learn.synthetic.pseudo_graphs import stand_in

PERTURBED, STEP = 50, 0.1  # SGD steps on a prototype, and their learning rate


@dataclass(frozen=True)
class GLFC(prototypes.Introducing, FedAvg):
    """Each part can be switched off: without any it is FedAvg with the binary cross-entropy of every output."""

    title = "GLFC (graph adaptation)"
    aggregates = any_model = True
    discloses = Disclosed(("updates", "prototypes", "labels"))
    needs = frozenset({"embed", "vectors", "no buffers"})

    compensate: bool = True  # weigh nodes within old and new classes
    relate: bool = True  # keep the relations that an old model sees, chosen by the proxy server
    keep: Count = 1  # exemplars per class and period
    uniform: float | None = None  # draw the encoder from ±this, as published: 0.5; null: as POWER's
    rebuild_steps: Count = 250  # outer L-BFGS steps, of at most 20 iterations, per prototype
    restarts: int = 5  # restarts of a reconstruction that diverged
    tunes = {"keep": Span(choices=(1, 2, 5, 10))}

    # ---- server

    def start(self) -> State:
        """Return the model, the encoder, and no best model.  Raises ScenarioError for a task without classes."""
        self.task.require_classes("'glfc' weighs nodes by class")
        state = super().start()
        if not self.relate:
            return state
        none: dict[str, object] = {"first": None, "second": None, "score": -1.0}
        return {**state, **none, "encoder": self.encoder(), "known": {}, "holds": {}, "proxies": None, "updates": 0}

    def encoder(self) -> prototypes.Gradients:
        """Return the fixed random network whose gradients are sent."""
        seed = integer(self.task.seed, "glfc", "encoder")
        gamma = prototypes.encoder(self.task.features, self.task.classes, seed, self.task.device)
        if self.uniform is None:
            return gamma
        drawn, size = torch.Generator().manual_seed(seed), self.uniform
        return {key: ((2 * torch.rand(w.shape, generator=drawn) - 1) * size).to(w.device) for key, w in gamma.items()}

    def download(self, state: State, client: int, step: str) -> Tree:
        """Send the model, what the client lacks of the encoder and of both best models, and its last known period."""
        sent = super().download(state, client, step)
        if not self.relate:
            return sent
        held, both = state["holds"].get(client, ()), [state["first"], state["second"]]
        sent = {**sent, "best": [0 if best is None else best["number"] for best in both]}
        lacking = {str(best["number"]): best["model"] for best in both if best and best["number"] not in held}
        return {**sent, "models": lacking} if lacking else sent

    def update(self, state: State, replies: Sequence[Reply], step: str) -> State:
        """Aggregate, reconstruct the prototypes received, and keep the model that does best on the latest ones."""
        new = super().update(state, replies, step)
        if not self.relate:
            return new
        new = {**new, **self.noted(state, replies)}
        if sent := prototypes.received(replies):
            proxies = self.rebuilt(new, sent)
            new = {**new, "first": new["second"] or new["first"], "second": None, "score": -1.0, "proxies": proxies}
        return self.scored(new)

    def noted(self, state: State, replies: Sequence[Reply]) -> State:
        """Return what the replies show of the clients: whose period is known, and which models each holds."""
        holds = {**state["holds"], **{reply.client: tuple(reply.download["best"]) for reply in replies}}
        known = prototypes.periods_known(state["known"], replies)
        return {"updates": state["updates"] + 1, "known": known, "holds": holds}

    def dry_update(self, state: State, replies: Sequence[Reply], step: str) -> State:
        """Note what the replies show; the first model after new prototypes stands for the best on them."""
        if not self.relate:
            return state
        new, sent = {**state, **self.noted(state, replies)}, prototypes.received(replies)
        if not sent:
            return new
        second = {"number": new["updates"], "model": state["model"]}
        return {**new, "first": state["second"] or state["first"], "second": second, "proxies": {"y": sent}}

    def rebuilt(self, state: State, sent: list[prototypes.Gradients]) -> Tree:
        """Return the prototypes that can be reconstructed: x (m, F), y (m,)."""
        drawn = ops.generator(self.task.seed, "glfc", "rebuild", state["updates"])
        built = prototypes.rebuild(state["encoder"], sent, drawn, steps=self.rebuild_steps, restarts=self.restarts)
        y = torch.tensor([prototypes.label_of(gradients) for gradients in sent], device=built.x.device)
        return {"x": built.x[built.good], "y": y[built.good]}

    @torch.no_grad()
    def scored(self, state: State) -> State:
        """Return the state with the model as `second` if none since the last prototypes scores higher on them."""
        held = state["proxies"]
        if held is None or not len(held["y"]):
            return state
        said = self.task.forward(tree.stack([state["model"]]), inversion.nodes(held["x"])).argmax(1)
        score = float((said == held["y"]).float().mean())
        if score < state["score"]:
            return state
        return {**state, "score": score, "second": {"number": state["updates"], "model": state["model"]}}

    def server_flops(self, state: State, replies: Sequence[Reply], step: str) -> float:
        """Return the averaging, the most that rebuilding may take, and a pass over the prototypes."""
        total = super().server_flops(state, replies, step)
        if not self.relate:
            return total
        sent = len(prototypes.received(replies))
        held = 0 if state["proxies"] is None else len(state["proxies"]["y"])
        rebuilding = prototypes.rebuild_flops(state["encoder"], sent, steps=self.rebuild_steps, restarts=self.restarts)
        return total + rebuilding + max(sent, held) * 2.0 * tree.count(state["model"])

    # ---- client

    def work(self, job: Job) -> Work:
        """Close the period that has ended, train, and send prototypes in the first job of a period."""
        self.close(job)
        given = {"buffer": replay.closed(job, self.select), "earlier": job.memory["earlier"]}
        if self.relate and (old := self.old(job)) is not None:
            given["old"] = old
        received = job.download["model"]
        trained = yield from self.fit(job, given)
        job.memory["last"] = {"period": job.period, "data": job.data, "received": received}
        sent = {"update": tree.sub(trained, received), "samples": self.samples(job.data)}
        return {**sent, **self.introduce(job, trained)} if self.introduces(job) else sent

    def close(self, job: Job) -> None:
        """Note the classes of a period that has ended since the client's last job."""
        if "earlier" not in job.memory:
            job.memory["earlier"] = torch.zeros(self.task.classes, dtype=torch.bool, device=job.data["y"].device)
        if replay.closes(job):
            data = job.memory["last"]["data"]
            earlier = job.memory["earlier"].clone()
            earlier[data["y"][data["train"]]] = True
            job.memory["earlier"] = earlier

    @torch.no_grad()
    def select(self, last: Memory) -> Graph:
        """Return the exemplars of a period by herding, with the model received in its last job."""
        z = replay.embedding(self.task, tree.stack([last["received"]]), last["data"])
        return replay.of_each_class(last["data"], lambda rows: herded(z[rows], self.keep))

    def old(self, job: Job) -> Parameters | None:
        """Return the old model of this job, None without any; the client keeps those that it is sent."""
        held = {**job.memory.get("models", {}), **job.download.get("models", {})}
        first, second = job.download["best"]
        job.memory["models"] = {key: model for key, model in held.items() if int(key) in (first, second)}
        wanted = second if self.introduces(job) else first
        return job.memory["models"].get(str(wanted)) if wanted else None

    def introduce(self, job: Job, trained: Parameters) -> Tree:
        """Return the gradients of the encoder at the prototype of each class, and the period."""
        self.keep_encoder(job)
        x, y = self.prototypes(job, tree.stack([trained]))
        return {"prototypes": prototypes.gradients(job.memory["encoder"], x, y), "period": str(job.period)}

    def prototypes(self, job: Job, trained: Parameters) -> tuple[Tensor, Tensor]:
        """Return the perturbed node (c, F) nearest to the mean embedding of each class of the period, and these."""
        rows = replay.class_rows(job.data)
        y = torch.tensor([int(job.data["y"][nodes[0]]) for nodes in rows], device=job.data["y"].device)
        if not rows:
            return torch.zeros(0, self.task.features, device=y.device), y.long()
        with torch.no_grad():
            z = replay.embedding(self.task, trained, job.data)
        nearest = torch.stack([nodes[herded(z[nodes], 1)[0]] for nodes in rows])
        x = replay.dense(job.data, nearest).clone().requires_grad_(True)
        target = F.one_hot(y, self.task.classes).to(x.dtype)
        for _ in range(PERTURBED):
            loss = bce(self.task.forward(trained, inversion.nodes(x)), target).sum()  # of each node, its own
            x = (x - STEP * torch.autograd.grad(loss, x)[0]).detach().requires_grad_(True)
        return x.detach(), y

    def loss(self, params: Parameters, data: Graph, given: Tree) -> Tensor:
        """Return L_GC, or its mean with L_RD, over the client's nodes and exemplars."""
        parts = [(graph, self.task.forward(params, graph)) for graph in (data, given["buffer"])]
        counts = torch.stack([ops.sum_by_client(graph["train"].float(), graph) for graph, _ in parts]).sum(0)
        totals = []
        for (graph, logits), weight in zip(parts, self.weights(parts, given["earlier"]), strict=True):
            target = F.one_hot(torch.where(graph["train"], graph["y"], 0), self.task.classes).to(logits.dtype)
            each = bce(logits, target)
            each = weight * each if self.compensate else each
            if "old" in given:
                with torch.no_grad():
                    said = torch.sigmoid(self.task.forward(given["old"], graph))
                past = torch.where(given["earlier"][graph["client"]], said, target)
                each = (each + bce(logits, past)) / 2
            totals.append(ops.sum_by_client(torch.where(graph["train"], each, 0.0), graph))
        return torch.stack(totals).sum(0) / counts.clamp(min=1)

    def weights(self, parts: Sequence[tuple[Graph, Tensor]], earlier: Tensor) -> list[Tensor]:
        """Return w (N,) of both graphs: |σ(z_y) − 1| over its mean within each client's old, or new, classes."""
        gaps, groups, sums, counts = [], [], [], []
        for graph, logits in parts:
            label = torch.where(graph["train"], graph["y"], 0)
            at_label = logits.detach().gather(1, label.unsqueeze(1)).squeeze(1)
            old = earlier[graph["client"], label]
            gaps.append((torch.sigmoid(at_label) - 1).abs())
            groups.append(old)
            inside = graph["train"].float().unsqueeze(1) * torch.stack([~old, old], 1)
            sums.append(ops.sum_by_client(inside * gaps[-1].unsqueeze(1), graph))
            counts.append(ops.sum_by_client(inside, graph))
        mean = (torch.stack(sums).sum(0) / torch.stack(counts).sum(0).clamp(min=1)).clamp(min=1e-12)
        learned, clients = earlier.any(1), [graph["client"] for graph, _ in parts]
        both = zip(clients, gaps, groups, strict=True)
        return [torch.where(learned[client], gap / mean[client, old.long()], 1.0) for client, gap, old in both]

    def dry_work(self, job: Job) -> None:
        """Keep the encoder, and note what will be replayed."""
        self.keep_encoder(job)
        replay.dry(job, self.keep)

    def effort(self, job: Job) -> float:
        """Count the replayed nodes beside the graph's own, and the old model's pass over all of them."""
        each = 1 + replay.replayed(job, self.keep)
        return each * (4 / 3 if self.relate and any(job.download["best"]) else 1.0)

    def extra_steps(self, job: Job) -> float:
        """Count the embedding of an ended period, and in a first job that of the new one, prototypes and gradients."""
        steps = 1 / 3 if replay.closes(job) else 0.0
        if not self.introduces(job):
            return steps
        classes = self.introduction(job)[1]
        perturbing = PERTURBED * self.task.flops(stand_in(classes, self.task.features, 1)) if classes else 0.0
        return steps + 1 / 3 + (perturbing + self.introduction_flops(job)) / self.task.flops(job.data)


def bce(logits: Tensor, target: Tensor) -> Tensor:
    """Return the binary cross-entropy of each row, mean over the outputs: (N,)."""
    return F.binary_cross_entropy_with_logits(logits, target, reduction="none").mean(1)


def herded(z: Tensor, keep: int) -> Tensor:
    """Return `keep` rows of z (n, H), each bringing the mean of those chosen nearest to the mean of all (iCaRL)."""
    mean, total, left, chosen = z.mean(0), torch.zeros_like(z[0]), torch.ones(len(z), dtype=torch.bool), list[int]()
    for count in range(1, min(keep, len(z)) + 1):
        apart = (mean - (total + z) / count).square().sum(1).masked_fill(~left.to(z.device), torch.inf)
        chosen.append(int(apart.argmin()))
        left[chosen[-1]] = False
        total = total + z[chosen[-1]]
    return torch.tensor(chosen, dtype=torch.long, device=z.device)
