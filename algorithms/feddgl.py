"""FedDGL: federated learning on graphs that change, with distillation, global prototypes and own models
(Xie, Li, Chen, Yu and Huang, ACML 2024).

A client trains on  CE + w_kd L_KD + w_p L_P:

- L_KD = mean over sensitive vertices (`learn/sensitive.py`) of CE + γ ‖z − z_g‖, z embeddings of length 1, z_g that of
  the global model at the end of the snapshot before, in that snapshot; from the second snapshot on (Eqs. 4-11);
- L_P = mean over the client's classes of 1 − cos(P_kc, P̄_c), P_kc the mean embedding of its training vertices that have
  an edge, P̄ the global prototypes; once there are some (Eqs. 12, 15).

The server trains P̄ = φ(E) on pairs (P_kc, c): −log softmax_c'(cos(P_kc, P̄_c') / τ)[c] (Eqs. 13, 14), and gives each
client a model of its own: w_k ← λ_k w_k + (1 − λ_k) w̄ with λ_k = cos_k / Σ_j cos_j, cos_k between the client's
prototypes and the global ones of the same classes (Eqs. 18, 19).  w̄ and λ_k travel; the client mixes.

As printed, Eqs. 14 and 15 push prototypes away from those of their own class: minimising −log of e^(−cos) asks for a
small cosine with one's own class, and Eq. 15 adds the cosine to what is minimised.  Both are right with the cosine
distance in place of the cosine (`sign: corrected`, the default); `literal` is there to be looked at.

λ_k is 1/K on average, so that personalisation is weak by construction.  Cosines are held above 1e-6.  Sums of Eq. 11
are means here.  In a static stream there are no sensitive vertices.
"""

from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F

from algorithms.fedavg import FedAvg
from fedsim.algorithm import Fit
from fedsim.data.graph import with_keys
from fedsim.learn import class_means, layout, ops, replay, sensitive, tree
from fedsim.seeds import integer
from fedsim.units import Count, Fraction

LEAST = 1e-6  # that a cosine counts


@dataclass(frozen=True)
class FedDGL(FedAvg):
    """See the module's docstring."""

    use_kd: bool = True  # distil at sensitive vertices
    use_gp: bool = True  # pull prototypes to the global ones
    use_pa: bool = True  # mix own models; otherwise all clients continue with the mean
    sign: Literal["corrected", "literal"] = "corrected"  # of the cosines in Eqs. 14 and 15
    w_kd: float = 1.0  # weight of L_KD
    w_p: float = 1.0  # weight of L_P
    gamma: float = 0.1  # γ, of the distance of embeddings
    q: float = 1.0  # a vertex is well learned below so many times the mean loss
    topk: Fraction = 0.1  # share of the candidates that are sensitive, rounded up
    tau: float = 1.0  # τ
    epochs: Count = 100  # of the server's training of prototypes, each over all pairs
    rate: float = 0.05  # its learning rate

    def start(self):
        """Return the first model, and prototypes that are not trained yet."""
        generator = torch.Generator().manual_seed(integer(self.task.seed, "feddgl"))
        h, classes = self.width(), self.task.classes
        bound = h**-0.5
        draw = lambda *shape: ((torch.rand(*shape, generator=generator) * 2 - 1) * bound).to(self.task.device)  # noqa: E731
        table = torch.randn(classes, h, generator=generator).to(self.task.device)
        net = {"table": table, "w1": draw(h, h), "b1": draw(h), "w2": draw(h, h), "b2": draw(h)}
        return {"model": self.task.init(), "net": net, "prototypes": None, "cosines": {}, "personal": {}}

    def width(self):
        """Return the width of an embedding."""
        return self.task.model.hidden

    # ---- server

    def download(self, state, client, step):
        """Send the mean model, this client's share of its own, and the global prototypes once there are some."""
        cosines = state["cosines"]
        share = cosines[client] / sum(cosines.values()) if self.use_pa and client in cosines else 0.0
        known = {} if state["prototypes"] is None else {"prototypes": state["prototypes"]}
        return {"model": state["model"], "share": float(share), **known}

    def predictor(self, state, client, memory):
        """Return the client's own model."""
        return state["personal"].get(client, state["model"]) if self.use_pa else state["model"]

    def update(self, state, replies, step):
        """Train the prototypes, weigh the clients by theirs, average all models alike (Eq. 19)."""
        tables = {reply.client: class_means.spread(reply.upload, self.task.classes) for reply in replies}
        net = self.fitted(state["net"], tables.values())
        prototypes = generated(net)
        cosines = {client: self.agreement(*table, prototypes) for client, table in tables.items()}
        updates = [reply.upload["update"] for reply in replies]
        mean = tree.mean(updates, [1.0] * len(replies), [reply.weight for reply in replies])
        model = tree.add(state["model"], mean)
        cosines = {**state["cosines"], **cosines}
        total = sum(cosines.values())
        own = {reply.client: tree.add(reply.download["model"], reply.upload["update"]) for reply in replies}
        personal = {client: mixed(weights, model, cosines[client] / total) for client, weights in own.items()}
        state = {**state, "model": model, "net": net, "prototypes": prototypes, "cosines": cosines}
        return {**state, "personal": {**state["personal"], **personal}}

    def fitted(self, net, tables):
        """Return the network of the prototypes after training on what clients have sent (Eqs. 13, 14)."""
        rows = torch.cat([rows[counts > 0] for rows, counts in tables])
        labels = torch.cat([(counts > 0).nonzero().squeeze(1) for _, counts in tables])
        if not len(rows):
            return net
        params = {name: leaf.clone().requires_grad_(True) for name, leaf in net.items()}
        direction = 1.0 if self.sign == "corrected" else -1.0
        for _ in range(self.epochs):
            cosine = F.cosine_similarity(rows.unsqueeze(1), generated(params).unsqueeze(0), dim=2)
            loss = F.cross_entropy(direction * cosine / self.tau, labels)
            grads = torch.autograd.grad(loss, list(params.values()))
            with torch.no_grad():
                for leaf, grad in zip(params.values(), grads, strict=True):
                    leaf -= self.rate * grad
        return {name: leaf.detach() for name, leaf in params.items()}

    def agreement(self, rows, counts, prototypes):
        """Return the cosine of a client's prototypes with the global ones of its classes, LEAST at least."""
        own = counts > 0
        return max(LEAST, float(F.cosine_similarity(rows[own].flatten(), prototypes[own].flatten(), dim=0)))

    def mass(self, reply):
        """Weigh all clients alike."""
        return 1.0

    def server_flops(self, state, replies, step):
        """Return the averaging, and the training of the prototypes: three times a forward pass an epoch."""
        h, classes = self.width(), self.task.classes
        pairs = sum(len(reply.upload["classes"]) for reply in replies)
        epoch = 3 * (4.0 * classes * h * h + 2.0 * pairs * classes * h)
        return super().server_flops(state, replies, step) + self.epochs * epoch

    # ---- client

    def work(self, job):
        """Mix one's own model, train it, and send it with its prototypes."""
        received, memory = job.download["model"], job.memory
        own = memory.get("local")
        self.enter(job)
        start = received if own is None or not self.use_pa else mixed(own, received, job.download["share"])
        trained = start
        if bool(job.data["train"].any()):
            trained = yield Fit(start=start, loss=self.loss, given=self.given(job))
        memory["local"] = trained
        sent = class_means.of(self.task, trained, job.data, active(job.data))
        return {**sent, "update": tree.sub(trained, received)}

    def enter(self, job):
        """Choose the sensitive vertices of a new period, by the model and the graph of the one before."""
        memory, graph = job.memory, job.data
        if memory.get("period") == job.period:
            return
        buffer = self.buffer(graph, torch.zeros(0, dtype=torch.long, device=graph["y"].device), None)
        if self.use_kd and "vertex" in graph and memory.get("local") is not None:
            before = memory["graph"]
            among = sensitive.candidates(graph, memory["learned"], memory["ever"], self.task.model.layers)
            rows = sensitive.choose(
                self.task, memory["local"], before, graph, among, q=self.q, share=self.topk
            )  # fmt: skip
            buffer = self.buffer(graph, rows, (job.download["model"], before))
        memory.update(period=job.period, graph=graph, buffer=buffer)
        if "vertex" in graph:
            self.note(memory, graph)

    def note(self, memory, graph):
        """Remember which vertices are learned now, and which edges there have been."""
        learned, edges = graph["vertex"][active(graph)], graph["vertex"][graph["edges"]]
        if "learned" in memory:
            learned = torch.unique(torch.cat([memory["learned"], learned]))
            edges = torch.unique(torch.cat([memory["ever"], edges], dim=1), dim=1)
        memory.update(learned=learned, ever=edges)

    @torch.no_grad()
    def buffer(self, graph, rows, teacher):
        """Return these vertices alone, which is what they are now, with what the teacher made of them as `target`."""
        found = replay.isolated(graph, rows)
        target = torch.zeros(len(rows), self.width(), device=graph["y"].device)
        if teacher is not None and len(rows):
            model, before = teacher
            place = sensitive.places(before["vertex"], graph["vertex"][rows])[0]
            target = F.normalize(self.task.embed(tree.stack([model]), before)[place], dim=1)
        return with_keys(found, {"target": target})

    def given(self, job):
        """Return the constants of the loss."""
        known = job.download.get("prototypes")
        table = torch.zeros(self.task.classes, self.width(), device=job.data["y"].device) if known is None else known
        use = self.use_gp and known is not None
        return {"buffer": job.memory["buffer"], "prototypes": table, "pull": float(use) * self.w_p}

    def loss(self, params, data, given):
        """Return CE + w_kd L_KD + w_p L_P."""
        total = self.task.loss(params, data)
        if self.use_gp:
            means, counts = ops.by_class(self.task.embed(params, data), data, self.task.classes, active(data))
            cosine = F.cosine_similarity(means, given["prototypes"], dim=2)
            apart = 1 - cosine if self.sign == "corrected" else cosine
            own = (counts > 0).to(apart.dtype)
            total = total + given["pull"] * (apart * own).sum(1) / own.sum(1).clamp(min=1)
        if self.use_kd and len(given["buffer"]["y"]):
            kept = given["buffer"]
            z = F.normalize(self.task.embed(params, kept), dim=1)
            far = ((z - kept["target"]).square().sum(1) + 1e-12).sqrt()
            drawn = ops.mean_by_client(far, kept, kept["train"])
            total = total + self.w_kd * (self.task.loss(params, kept) + self.gamma * drawn)
        return total

    def upload_like(self, job):
        """Return a tree as large as the upload."""
        return {**class_means.like(job.data, active(job.data), self.width()), "update": job.download["model"]}


def active(graph):
    """Return the training vertices (N,) that have an edge in the snapshot; in a static graph all that train."""
    return graph["train"] & (layout.of(graph).degree > 1) if "vertex" in graph else graph["train"]


def mixed(own, mean, share):
    """Return share · own + (1 − share) · mean."""
    return tree.add(tree.scale(own, share), tree.scale(mean, 1 - share))


def generated(net):
    """Return the global prototypes φ(E) (C, H)."""
    return torch.relu(net["table"] @ net["w1"] + net["b1"]) @ net["w2"] + net["b2"]
