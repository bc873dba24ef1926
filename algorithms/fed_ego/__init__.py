"""FedEgo: the server trains on averaged ego-graphs, and each client mixes in its model by how much their labels differ.

Source: Zhang, Xie, Li, Zheng and Chen, "FedEgo: Privacy-preserving Personalized Federated Graph Learning with
Ego-graphs", ACM Transactions on Sensor Networks 2024.

The model (ego_sage.py) is a reduction layer, averaged as in FedAvg, followed by the personal layers: GraphSAGE with a
classifier.  After its training a client divides its training nodes into batches of `batch` and averages ("mashes")
each batch's ego-graphs (egos.py) into one, of reduced features and one-hot labels, with noise N(0, σ²) on the features.
The server trains the personal layers on all it has received, for `server_epochs` steps of Adam, each on a random share
of the centres:  L = - mean Σ_c ȳ_c log p_c.  A client's next job begins with the server's reduction layer and

    θ_k ← λ_k θ_server + (1 - λ_k) θ_k,   λ_k = (EMD_k / 2)^½,   EMD_k = ‖p_k - p‖₁

where p_k are the label shares of its training nodes, and p those of all centres in the clients' latest uploads.  A
client without a model of its own takes the server's.

Bytes of arrays, with S = 43 slots at fan-out 6 and 6, B = ⌈training nodes / batch⌉, hidden width h, C classes:

    up    4 |reduction| + B · 4 S (h + C)            down  4 |model| + 4 C (without C before the first upload)

What the sources leave open, or what differs:

- Local steps are the scenario's, on the whole graph; sampling applies where ego-graphs are made, once per job.
- Slots of nodes that are not for training have labels of zeros, since these must not leak.  Only the labels of
  centres are used.
- Batches are of equal size, give or take one, so that the last is not smaller than the others.
- The server learns at the clients' rate, as in the published settings, where both are 3e-4 (`server_lr`).
- The server's Adam starts afresh in every update, and ego-graphs are used once; the protocol's staleness discount
  applies to the reduction layer alone.
- Peers, edges and cloud mix whole models; each client then takes its part of the result by its own p.

The clock bills the server for the epochs on all ego-graphs, the client for the reduction and the means.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor

from algorithms.fed_ego import egos
from algorithms.fed_ego.ego_sage import EgoSAGE
from algorithms.fedavg import FedAvg
from fedsim.core.seeds import integer
from fedsim.core.span import Span
from fedsim.core.units import Count, Fraction
from fedsim.core.wire import Spec, Tree
from fedsim.data.graph import Graph
from fedsim.learn.algorithm import Disclosed, Fit, Job, Memory, Reply, State, Work
from fedsim.learn.engine import ops, tree
from fedsim.learn.engine.optimiser import Adam, descend, in_training
from fedsim.learn.model import Model, Parameters


@dataclass(frozen=True)
class FedEgo(FedAvg):
    """See the module's docstring."""

    aggregates = True
    discloses = Disclosed(("updates", "prototypes", "labels"))

    batch: Count = 32  # most centres averaged into one ego-graph
    first: Count = 6  # neighbours of a centre
    second: Count = 6  # neighbours of each neighbour
    sigma: float = 0.0  # standard deviation of the noise on averaged features
    server_epochs: Count = 5  # Adam steps of the server per update
    server_lr: float | None = None  # their learning rate; if not given, the clients'
    centres: Fraction = 0.2  # share of the centres used in a step, at least one
    tunes = {"server_epochs": Span(choices=(1, 5, 20)), "server_lr": Span(1e-3, 0.1, log=True)}

    def backbone(self, model: Model) -> Model:
        """Return the reduction and two layers of GraphSAGE, of the scenario's width and dropout."""
        return EgoSAGE(hidden=model.hidden, layers=2, dropout=model.dropout)

    @property
    def net(self) -> EgoSAGE:
        """The model that `backbone` has made."""
        return cast(EgoSAGE, self.task.model)

    @property
    def fanout(self) -> tuple[int, int]:
        """Neighbours drawn at the first and at the second hop."""
        return self.first, self.second

    # ---- server

    def start(self) -> State:
        """Return the first model; no labels are known yet.  Raises ScenarioError unless nodes are classified."""
        self.task.require_classes("'fed_ego' mixes node labels")
        return {**super().start(), "labels": {}, "updates": 0}

    def download(self, state: State, client: int, step: str) -> Tree:
        """Send the model, and the label shares (C,), or (0,) before the first upload."""
        return {**super().download(state, client, step), "labels": overall(state)}

    def update(self, state: State, replies: Sequence[Reply], step: str) -> State:
        """Average the reduction layers, note labels, and train the personal layers on the ego-graphs received."""
        mean = self.aggregate(replies)
        model = {**state["model"], "reduction": tree.add(state["model"]["reduction"], mean)}
        sent = {r.client: r.upload["y"][:, 0].sum(0) for r in replies if len(r.upload["y"])}
        new = {**state, "model": model, "labels": {**state["labels"], **sent}, "updates": state["updates"] + 1}
        if not sent:
            return new
        x, y = (torch.cat([reply.upload[name] for reply in replies]) for name in ("x", "y"))
        return {**new, "model": {**model, **self.taught(personal(model), x, y[:, 0], state["updates"])}}

    def taught(self, params: Parameters, x: Tensor, labels: Tensor, number: int) -> Parameters:
        """Return the personal layers trained on ego-graphs (B, S, h) with centres' labels (B, C)."""
        graph, seed = egos.joined(x, self.fanout), integer(self.task.seed, "fed_ego", "server", number)
        generator = torch.Generator().manual_seed(seed)

        def loss(params: Parameters, epoch: int) -> Tensor:
            drawn = torch.randperm(len(x), generator=generator)[: max(1, ceil(self.centres * len(x) - 1e-9))]
            drawn, seeded = drawn.to(x.device), in_training(graph, seed, epoch)
            logits = self.net.after(params, seeded["x"], seeded)[:: x.shape[1]]
            return -(labels[drawn] * F.log_softmax(logits[drawn], 1)).sum(1).mean()

        adam = Adam(self.learning_rate if self.server_lr is None else self.server_lr)
        return descend(params, loss, adam, self.server_epochs)[0]

    def server_flops(self, state: State, replies: Sequence[Reply], step: str) -> float:
        """Return the reading, and a forward pass and a backward one of twice its work for each epoch."""
        slots = egos.slots(self.fanout)
        count = sum(len(reply.upload["x"]) for reply in replies)
        once = self.net.after_flops(count * slots, count * (slots - 1), self.task.outputs)
        return super().server_flops(state, replies, step) + 3 * self.server_epochs * once

    def predictor(self, state: State, client: int, memory: Memory) -> Tree:
        """Return the model that the client's next job would start from."""
        return mixed(state["model"], memory.get("local"), memory.get("labels"), overall(state))

    # ---- client

    def work(self, job: Job) -> Work:
        """Mix in the server's model, train, and send the reduction's difference and the mashed ego-graphs."""
        received, shares = job.download["model"], shares_of(job.data, self.task.classes)
        model = mixed(received, job.memory.get("local"), shares, job.download["labels"])
        if self.task.examples(job.data, "train"):
            model = yield Fit(start=model, loss=self.loss)
        job.memory.update(local=model, labels=shares)
        update = tree.sub(model["reduction"], received["reduction"])
        return {"update": update, "samples": self.samples(job.data), **self.mashed(job, model)}

    @torch.no_grad()
    def mashed(self, job: Job, model: Parameters) -> dict[str, Tensor]:
        """Return the mashed ego-graphs, x (B, S, h) and y (B, S, C)."""
        data, generator = job.data, ops.generator(job.seed, "fed_ego", "egos")
        centres = data["train"].nonzero().squeeze(1)
        order = torch.randperm(len(centres), generator=generator).to(centres.device)
        chosen = egos.sampled(data, centres[order], self.fanout, generator)
        x = egos.mashed(self.net.reduced(tree.stack([model["reduction"]]), data), chosen, self.batch)
        if self.sigma:
            x = x + self.sigma * torch.randn(x.shape, generator=generator).to(x.device)
        y = egos.mashed(ops.training_labels(data, self.task.classes).to(x.dtype), chosen, self.batch)
        return {"x": x, "y": y}

    def upload_like(self, job: Job) -> Tree:
        """Return a tree as large as the upload."""
        count, slots = egos.batches(self.task.examples(job.data, "train"), self.batch), egos.slots(self.fanout)
        widths = {"x": self.task.model.hidden, "y": self.task.classes}
        like = {name: Spec((count, slots, width), "float32") for name, width in widths.items()}
        return {"update": job.download["model"]["reduction"], "samples": 0, **like}

    def extra_steps(self, job: Job) -> float:
        """Count the reduction of all nodes, and an addition a number mashed."""
        numbers = self.task.examples(job.data, "train") * egos.slots(self.fanout)
        added = 1.0 * numbers * (self.task.model.hidden + self.task.classes)
        once = self.task.flops(job.data)
        return (self.net.reduction_flops(job.data) + added) / once if once else 0.0


def personal(model: Parameters) -> Parameters:
    """Return all layers but the reduction."""
    return {name: layer for name, layer in model.items() if name != "reduction"}


def shares_of(data: Graph, classes: int) -> Tensor:
    """Return the shares (C,) of the labels of the training nodes, zeros where there are none."""
    counts = torch.bincount(data["y"][data["train"]], minlength=classes).float()
    return counts / counts.sum().clamp(min=1)


def overall(state: State) -> Tensor:
    """Return the shares (C,) of the centres' labels in the clients' last uploads, or (0,) before the first."""
    if not state["labels"]:
        return torch.zeros(0)
    counts = torch.stack([state["labels"][client] for client in sorted(state["labels"])]).sum(0)
    return counts / counts.sum().clamp(min=1e-12)


def mixing(own: Tensor, everybody: Tensor) -> float:
    """Return λ of shares of labels (C,); 1 where either is unknown."""
    known = len(everybody) and bool(own.any())
    return min(1.0, (egos.distance(own, everybody) / 2) ** 0.5) if known else 1.0


def mixed(received: Parameters, own: Parameters | None, shares: Tensor | None, everybody: Tensor) -> Parameters:
    """Return the received model, its personal layers mixed with those of the client's own model if it has one."""
    if own is None or shares is None:
        return received
    share = mixing(shares, everybody)
    return {**received, **tree.mean([personal(received), personal(own)], [share, 1 - share])}
