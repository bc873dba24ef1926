"""FedSD2C: each client uploads codes of a core set once, the server trains a model (Zhang, Liu and Wang, NeurIPS 2024).

A client trains a model of its own, selects from each class the `each` training vertices with the lowest loss, and
encodes them with an autoencoder that it has trained on its training vertices.  100 steps of Adam then move the codes
until the model gives the decoded vertices the predictions that it gives the real ones (distillates.py).

What travels, up only: the codes (M, L), the decoder, and the client's model, all as float32:

    4 (M L + D + P) bytes,   D = (L + 1) H + (H + 1) F,   M = Σ_c min(`each`, training vertices of class c)

with P numbers in the model.  The encoder, labels, the number of vertices and the features themselves do not travel; a
client without a training vertex sends nothing, and nothing is sent down.  The decoder is trained on the client's
features and may memorise some of them.

The server decodes, links each client's vertices with their 5 nearest by cosine (the vertex itself included), takes soft
labels from that client's model, and trains the global model on all of these graphs at once with the cross-entropy, each
vertex with the same weight (times the protocol's discount): SGD, 0.2, momentum 0.9, 100 epochs.

Core set, autoencoder and codes use training vertices alone.  The model is trained as all models here are: the other
vertices contribute their features as neighbours, and nothing else.

Reconstructed, since the method is for images and the text was not available:

- The published autoencoder is a large one, pretrained on other images, and the server has it too.  A decoder that the
  client trains has to be sent.  Its sizes, and the mean squared error, are chosen here.
- Codes approach the model's class probabilities by KL; the published code compares its features.
- The perturbation of features before encoding, against leaks, is left out.
- `each` is chosen here; the neighbour lists are GHOST's.

In a further round clients continue to train their models and autoencoders, and the server its model, on the codes of
that round alone.  The clock bills both trainings, each of as many steps as `training` says, and that of the codes to
the client; decoding, neighbour lists, labels and epochs to the server, as if no two neighbours were mutual.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from algorithms.fed_sd2c import distillates
from algorithms.fed_sd2c.distillates import Autoencoder, Coder
from fedsim.core.seeds import integer
from fedsim.core.span import Span
from fedsim.core.units import Count, Fraction
from fedsim.core.wire import Spec, Tree
from fedsim.data.graph import Graph, as_dense, take_rows
from fedsim.learn import alignment, dense, joining, tree
from fedsim.learn.algorithm import Algorithm, Fit, Job, Reply, State, Work
from fedsim.learn.model import Parameters
from fedsim.learn.optimiser import SGD
from fedsim.learn.pseudo_graphs import knn_flops, pseudo_graph, stand_in
from fedsim.learn.server_training import descend, in_training
from fedsim.learn.tasks.node_classification import classes_only


@dataclass(frozen=True)
class FedSD2C(Algorithm):
    """Clients send codes, a decoder and a model; the server trains."""

    each: Count = 10  # most vertices per class in the core set
    latent: Count = 64  # L, size of a code
    width: Count = 128  # H, width of the autoencoder's hidden layers
    latent_steps: Count = 100  # Adam steps that optimise the codes
    latent_lr: float = 0.1  # their learning rate
    neighbours: Count = 5  # k of the neighbour lists, including the vertex itself
    server_epochs: Count = 100  # epochs of training on the distillates
    server_lr: float = 0.2  # learning rate of the server's SGD
    server_momentum: Fraction = 0.9  # momentum of the server's SGD

    tunes: ClassVar[Mapping[str, Span]] = {
        "server_lr": Span(1e-3, 0.5, log=True),
        "latent_lr": Span(1e-3, 0.5, log=True),
    }

    @property
    def coder(self) -> Autoencoder:
        """The autoencoder for the task's features."""
        return Autoencoder(self.task.features, self.width, self.latent)

    # ---- server

    def start(self) -> State:
        """Return the first model.  Raises ScenarioError for a task without classes."""
        classes_only(self.task, "'fed_sd2c' chooses vertices by class: take task: node_classification")
        return {"model": self.task.init(), "updates": 0}

    def download(self, state: State, client: int, step: str) -> Tree:
        """Send nothing: a client begins with a model of its own."""
        return {}

    def update(self, state: State, replies: Sequence[Reply], step: str) -> State:
        """Decode the uploads, and train on them."""
        able = sorted((reply for reply in replies if "codes" in reply.upload), key=lambda reply: reply.client)
        new = {**state, "updates": state["updates"] + 1}
        return {**new, "model": self.taught(state, able)} if able else new

    @torch.no_grad()
    def decoded(self, upload: Tree) -> tuple[Graph, Tensor]:
        """Return a client's decoded vertices as a graph, and the soft labels (M, C) of its model."""
        x = dense.through(upload["decoder"], upload["codes"])
        graph = pseudo_graph(x, torch.zeros(len(x), dtype=torch.long, device=x.device), self.neighbours)
        return graph, torch.softmax(self.task.forward(tree.stack([upload["model"]]), graph), 1)

    def taught(self, state: State, replies: Sequence[Reply]) -> Parameters:
        """Return the model after all epochs on all clients' graphs."""
        made = [self.decoded(reply.upload) for reply in replies]
        joined, soft = (
            joining.union([graph for graph, _ in made], shared=True),
            torch.cat([labels for _, labels in made]),
        )
        weight = torch.cat([torch.full((len(y),), r.weight) for r, (_, y) in zip(replies, made, strict=True)])
        weight = weight.to(soft.device) / len(weight)
        seed = integer(self.task.seed, "fed_sd2c", "teach", state["updates"])

        def loss(params: Parameters, epoch: int) -> Tensor:
            answer = F.log_softmax(self.task.forward(params, in_training(joined, seed, epoch)), 1)
            return -(weight * (soft * answer).sum(1)).sum()

        return descend(state["model"], loss, SGD(self.server_lr, 0.0, self.server_momentum), self.server_epochs)[0]

    def server_flops(self, state: State, replies: Sequence[Reply], step: str) -> float:
        """Return the reading, decoding, lists and labels of each client, and the epochs."""
        total = super().server_flops(state, replies, step)
        for reply in replies:
            if "codes" in reply.upload:
                n = len(reply.upload["codes"])
                once = self.task.flops(stand_in(n, self.task.features, self.neighbours))
                lists = knn_flops(n, self.task.features)
                total += self.coder.flops(n) + lists + (1 / 3 + self.server_epochs) * once
        return total

    def mass(self, reply: Reply) -> float:
        """Return the size of the client's core set."""
        return float(len(reply.upload["codes"])) if "codes" in reply.upload else 0.0

    # ---- client

    def work(self, job: Job) -> Work:
        """Train model and autoencoder, choose, code, and move the codes."""
        if not self.task.examples(job.data, "train"):
            return {}
        model = yield Fit(start=self.own(job, "local"), loss=self.loss)
        x = as_dense(alignment.labelled(job.data)["x"])
        coder = yield Fit(
            start=self.own(job, "coder"), loss=self.coding, given={"x": x}, slot="coder", each=True
        )  # fmt: skip
        job.memory["local"], job.memory["coder"] = model, coder
        return {"codes": self.codes(job, model, coder), "decoder": coder["decoder"], "model": model}

    def own(self, job: Job, name: str) -> Tree:
        """Return what the client's last job left of this, or first parameters of the client's own."""
        if name in job.memory:
            return job.memory[name]
        seed = integer(job.seed, "fed_sd2c", name)
        if name == "local":
            return self.task.drawn(seed)
        drawn = self.coder.init(torch.Generator().manual_seed(seed))
        return tree.to(drawn, self.task.device)

    def loss(self, params: Parameters, data: Graph, given: Tree) -> Tensor:
        """Return the task's loss."""
        return self.task.loss(params, data)

    def coding(self, params: Coder, data: Graph, given: Tree) -> Tensor:
        """Return the autoencoder's error on one client's training vertices (1,)."""
        return self.coder.error(tree.at(params, 0), given["x"][0]).unsqueeze(0)

    def codes(self, job: Job, model: Parameters, coder: Coder) -> Tensor:
        """Return the codes (M, L) of the core set, moved towards what the model says of it."""
        stacked, data = tree.stack([model]), job.data
        with torch.no_grad():
            logits = self.task.forward(stacked, data)
            losses = F.cross_entropy(logits, torch.where(data["train"], data["y"], 0), reduction="none")
            rows = data["train"].nonzero().squeeze(1)
            core = distillates.core_set(losses, data["y"], rows, self.task.classes, self.each)
            first = dense.through(coder["encoder"], as_dense(take_rows(data["x"], core)))
        return distillates.distilled(
            first, coder["decoder"], lambda graph: self.task.forward(stacked, graph), torch.softmax(logits[core], 1),
            self.neighbours, steps=self.latent_steps, lr=self.latent_lr,
        )  # fmt: skip

    def core(self, job: Job) -> int:
        """Return M."""
        return distillates.core_size(job.data["y"], job.data["train"], self.task.classes, self.each)

    def upload_like(self, job: Job) -> Tree:
        """Return a tree as large as the upload."""
        if not self.task.examples(job.data, "train"):
            return {}
        codes = Spec((self.core(job), self.latent), "float32")
        return {"codes": codes, "decoder": self.coder.like(), "model": self.task.init()}

    def effort(self, job: Job) -> float:
        """Count the model's steps and the autoencoder's, both halves in three passes."""
        n = self.task.examples(job.data, "train")
        return 1 + 6 * self.coder.flops(n) / self.task.flops(job.data) if n else 0.0

    def extra_steps(self, job: Job) -> float:
        """Count the choice, a third of a step, and the codes' steps: decoder and model in three passes, and lists."""
        if not self.task.examples(job.data, "train"):
            return 0.0
        n = self.core(job)
        graph = stand_in(n, self.task.features, self.neighbours)
        step = 3 * self.coder.flops(n) + knn_flops(n, self.task.features) + self.task.flops(graph)
        return 1 / 3 + self.latent_steps * step / self.task.flops(job.data)
