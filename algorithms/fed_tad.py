"""FedTAD: averaging, then distillation weighted by each client's knowledge of each class (Zhu et al., IJCAI 2024).

Beside FedAvg's update a client sends its reliability on each class, φₖ, in 4 C bytes:

    rᵢ = [(P)ᵢᵢ, (P²)ᵢᵢ, …],   P = D⁻¹ (A + I): the chances that a random walk is back after so many steps
    φ_c = Σ_{i ∈ train, yᵢ = c} (1 + Σ_{j ∈ N(i)} cos([xᵢ ‖ rᵢ], [xⱼ ‖ rⱼ])) / (|N(i)| + 1)

Many training nodes of a class that resemble their neighbours make it reliable.  After averaging, the server distils
the clients' models on pseudo graphs Ĝ, which a generator draws with labels uniform over the classes and edges to the k
nearest; φ is divided by its sum over the clients that replied:

    L_gen = λ₁ Σₖ Σ_c φₖ_c CE_c(fₖ(Ĝ)) − Σₖ Σ_c φₖ_c |f(Ĝ) − fₖ(Ĝ)|_c + λ₂ K exp(−mean d(z, z') d(x̂, x̂'))
    L     = Σₖ Σ_c φₖ_c |f(Ĝ) − fₖ(Ĝ)|_c

CE_c and |·|_c are means over the nodes of class c, the latter over logits too; d are mean squared differences of
noise and mean absolute differences of features.  The generator takes its steps on L_gen with all models frozen, in
evaluation mode, then the global model takes its own on L, on the same noise and in training mode.  The gradient of
L_gen's second term through fₖ is left out, as in the published code.  Both Adam optimisers keep their state between
rounds, and the generator its parameters.  In a one-shot run all this happens once.

With P numbers in the model a message holds 4 P bytes down and 4 P + 8 + 4 C up.  It contains no held-out label; the
features of held-out nodes have an influence, as in all training on whole graphs.

What differs from the code: it takes for r the numbers of the nodes on drawn walks, which depend on the numbering of
nodes and outweigh any feature; here r is what random walks are likely to do.  λ₂ counts once per client, as there; but
the share of a class that nobody trains on is 0, where the code would divide by zero, and a negative φ counts as 0.  Not
modelled: the variant that distils hidden layers.  More distillation need not help, since the teachers are queried on
features that no client has: for two synthetic clients with two classes each, over five seeds, FedAvg's mean accuracy
was 0.785, that of the defaults 0.783, and that of twenty alternations at a `model_lr` of 1e-2 0.51.

The clock bills φ to the client once per period, and the distillation to the server, from sizes alone.
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
from fedsim.core.wire import Spec, Tree
from fedsim.data.graph import Graph, as_dense, with_keys
from fedsim.learn.algorithm import Disclosed, Job, Reply, State, Work
from fedsim.learn.engine import joining, layout, ops, tree
from fedsim.learn.engine.optimiser import Adam, StepLoss, descend, in_training
from fedsim.learn.model import Parameters
from fedsim.learn.personalised.personal_models import model_of
from fedsim.learn.synthetic.generators import FeatureGenerator
from fedsim.learn.synthetic.pseudo_graphs import knn_flops, pseudo_graph, stand_in, uniform_labels

COLUMNS = 2048  # nodes whose walks are followed together


@dataclass(frozen=True)
class FedTAD(FedAvg):
    """Without server iterations this is FedAvg, except for the messages."""

    aggregates = any_model = True
    discloses = Disclosed(("updates", "labels"))
    needs = frozenset({"vectors", "no buffers"})

    walk: Count = 5  # steps of the random walks in φ
    noise: Count = 32  # size of the noise vector z
    nodes: Count = 100  # nodes of a pseudo graph
    neighbours: Count = 5  # k of the pseudo graphs, including the node itself
    iterations: int = 5  # alternations of generator and global model after each aggregation
    generator_steps: Count = 1  # generator steps per alternation
    generator_lr: float = 1e-3  # learning rate of the generator's Adam
    model_steps: Count = 5  # steps of the global model per alternation
    model_lr: float = 1e-3  # learning rate of the global model's Adam
    server_decay: float = 5e-4  # weight decay of both
    lambda1: float = 1.0  # weight of the cross-entropy
    lambda2: float = 1.0  # weight of the diversity
    tunes = {"iterations": Span(choices=(1, 2, 5, 10)), "model_lr": Span(1e-4, 1e-2, log=True)}

    @property
    def generator(self) -> FeatureGenerator:
        """The generator's sizes."""
        return FeatureGenerator(self.task.features, self.task.classes, noise=self.noise, dropout=0.0)

    # ---- server

    def start(self) -> State:
        """Return the first model and generator.  Raises ScenarioError for a task without classes."""
        self.task.require_classes("'fed_tad' generates nodes of classes")
        first = tree.to(self.generator.init(self.random("first")), self.task.device)
        return {**super().start(), "generator": first, "adam": {"generator": None, "model": None}, "updates": 0}

    def random(self, *name: object) -> torch.Generator:
        """Return the server's random stream of that name."""
        return ops.generator(self.task.seed, "fed_tad", *name)

    def update(self, state: State, replies: Sequence[Reply], step: str) -> State:
        """Average, then distil the clients' knowledge into the average."""
        new = {**super().update(state, replies, step), "updates": state["updates"] + 1}
        replies = sorted(replies, key=lambda reply: reply.client)
        shares = shared([reply.upload["reliability"] for reply in replies])
        if not bool(shares.any()):
            return new
        return self.distil(new, tree.stack([model_of(reply) for reply in replies]), shares)

    def distil(self, state: State, locals_: Parameters, shares: Tensor) -> State:
        """Return the state after all turns; `locals_` are the clients' models, stacked, and shares their φ (K, C)."""
        drawn, device = self.random("noise", state["updates"]), self.task.device
        y = uniform_labels(self.nodes, self.task.classes, drawn).to(device)
        weight = shares[:, y] / torch.bincount(y, minlength=self.task.classes)[y]
        adams = Adam(self.generator_lr, self.server_decay), Adam(self.model_lr, self.server_decay)
        model, generator, moments = state["model"], state["generator"], dict(state["adam"])
        for turn in range(self.iterations):
            z = self.generator.draw(self.nodes, drawn).to(device)
            loss = self.generation(model, locals_, weight, z, y)
            before = moments["generator"]
            generator, moments["generator"] = descend(generator, loss, adams[0], self.generator_steps, before)
            with torch.no_grad():
                graph = pseudo_graph(self.generator.forward(generator, z, y), y, self.neighbours)
            seed = integer(self.task.seed, "fed_tad", "drop", state["updates"], turn)
            loss = self.distillation(locals_, weight, graph, seed)
            model, moments["model"] = descend(model, loss, adams[1], self.model_steps, moments["model"])
        return {**state, "model": model, "generator": generator, "adam": moments}

    def generation(self, model: Parameters, locals_: Parameters, weight: Tensor, z: Tensor, y: Tensor) -> StepLoss:
        """Return the generator's loss L_gen, given the global model and the clients'."""
        own = tree.stack([model])

        def loss(params: Parameters, step: int) -> Tensor:
            x = self.generator.forward(tree.at(params, 0), z, y)
            graph = with_keys(pseudo_graph(x, y, self.neighbours), {"x": x})
            theirs = self.opinions(locals_, graph, len(weight))
            known = F.cross_entropy(theirs.flatten(0, 1), y.repeat(len(weight)), reduction="none").view_as(weight)
            apart = (self.task.forward(own, graph) - theirs.detach()).abs().mean(2)
            return (weight * (self.lambda1 * known - apart)).sum() + self.lambda2 * len(weight) * sameness(z, x)

        return loss

    def distillation(self, locals_: Parameters, weight: Tensor, graph: Graph, seed: int) -> StepLoss:
        """Return the global model's loss on one pseudo graph."""
        with torch.no_grad():
            theirs = self.opinions(locals_, graph, len(weight))

        def loss(params: Parameters, step: int) -> Tensor:
            own = self.task.forward(params, in_training(graph, seed, step))
            return (weight * (own - theirs).abs().mean(2)).sum()

        return loss

    def opinions(self, locals_: Parameters, graph: Graph, clients: int) -> Tensor:
        """Return the logits of all clients' models on the same graph (K, N, C)."""
        output = self.task.forward(locals_, joining.union([graph] * clients))
        return output.view(clients, -1, output.shape[1])

    def server_flops(self, state: State, replies: Sequence[Reply], step: str) -> float:
        """Return the averaging, and in each turn the generator's and the model's steps and the clients' opinions."""
        n, features, clients = self.nodes, self.task.features, len(replies)
        once, edges = self.task.flops(stand_in(n, features, self.neighbours)), knn_flops(n, features)
        pairs = 9.0 * n * n * (features + self.noise)
        generating = 3 * self.generator.flops(n) + edges + (clients + 1) * once + pairs
        drawing = self.generator.flops(n) + edges + clients * once / 3
        turn = self.generator_steps * generating + drawing + self.model_steps * once
        return super().server_flops(state, replies, step) + self.iterations * turn

    # ---- client

    def work(self, job: Job) -> Work:
        """Train as FedAvg does; also send how reliable the client is on each class."""
        sent = yield from super().work(job)
        if self.unknown(job):
            values = reliability(job.data, self.task.classes, self.walk)
            job.memory["reliability"] = {"period": job.period, "values": values}
        return {**sent, "reliability": job.memory["reliability"]["values"]}

    def unknown(self, job: Job) -> bool:
        """Return whether the client has yet to compute φ of this period's graph."""
        return job.memory.get("reliability", {}).get("period") != job.period

    def extra_steps(self, job: Job) -> float:
        """Count φ in the job that computes it."""
        return reliability_flops(job.data, self.walk) / self.task.flops(job.data) if self.unknown(job) else 0.0

    def upload_like(self, job: Job) -> Tree:
        """Return a tree as large as the upload."""
        return {**super().upload_like(job), "reliability": Spec((self.task.classes,), "float32")}


def shared(sent: Sequence[Tensor]) -> Tensor:
    """Return each client's share of a class's reliability (K, C); zero if no client is reliable on it.

    A negative one counts as zero: if a client is unlike its neighbours, the others should not learn its opposite.
    """
    stacked = torch.stack(list(sent)).clamp(min=0)
    total = stacked.sum(0)
    return torch.where(total > 0, stacked / torch.where(total > 0, total, 1.0), 0.0)


def sameness(z: Tensor, x: Tensor) -> Tensor:
    """Return exp(−mean d(z, z') d(x, x')) over all pairs of rows: 1 where all features are the same."""
    noises = (z.unsqueeze(0) - z.unsqueeze(1)).square().mean(2)
    return torch.exp(-(noises * torch.cdist(x, x, p=1) / x.shape[1]).mean())


def returns(graph: Graph, length: int) -> Tensor:
    """Return the chances of being back after 1 … length steps, one graph's: (N, length)."""
    n, device = len(graph["y"]), graph["y"].device
    degree = layout.of(graph).degree.unsqueeze(1)
    chances = torch.zeros(n, length, device=device)
    for first in range(0, n, COLUMNS):
        own = torch.arange(first, min(first + COLUMNS, n), device=device)
        column = torch.arange(len(own), device=device)
        reached = torch.zeros(n, len(own), device=device)
        reached[own, column] = 1.0
        for step in range(length):
            reached = ops.propagate(reached, graph, "closed") / degree
            chances[own, step] = reached[own, column]
    return chances


@torch.no_grad()
def reliability(graph: Graph, classes: int, length: int) -> Tensor:
    """Return φ (C,) of one client's graph; 0 where a class has no training node."""
    unit = F.normalize(torch.cat([as_dense(graph["x"]), returns(graph, length)], 1), dim=1)
    # no row is zero, so that the node itself adds the 1 to the sum over its neighbours
    agreement = (unit * ops.propagate(unit, graph, "closed")).sum(1) / layout.of(graph).degree
    return ops.training_labels(graph, classes).to(agreement.dtype).T @ agreement


def reliability_flops(graph: Graph, length: int) -> float:
    """Return the operations of `reliability`: walks of all nodes, and a product for each edge."""
    n, edges = len(graph["y"]), graph["edges"].shape[1] + len(graph["y"])
    return 2.0 * length * edges * n + 2.0 * edges * (graph["x"].shape[1] + length)
