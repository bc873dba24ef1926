"""FedCVAE: each client uploads a decoder once, and the server trains a model from them (Heinbaugh et al., ICLR 2023).

A client trains a conditional variational autoencoder on its training vertices (cvae.py), for as many steps of the
scenario's optimiser as `training` says, and sends its decoder, its number of training vertices of each class, and its
number of vertices.  It trains no classifier and needs no model from the server.  For each client the server draws as
many samples as the client has vertices (times `size`): z from N(0, 1) truncated to [−1, 1], labels by the client's
class shares, features by its decoder.  All samples together form one pseudo graph, whose edges join each vertex with
its k nearest, and the global model is trained on it with the cross-entropy (`ensemble`).  `distil` first trains a
decoder of the server's to return what the clients' decoders return, and then draws as many samples again from that one.

With D numbers in the decoder a message holds nothing down, and 4 D + 4 C + 4 bytes up.  A client without a training
vertex sends zeros for the classes and no decoder, and nothing is drawn for it.

The paper is on images.  The reconstruction for graphs follows what the authors of GHOST (ICML 2025) say of their
comparison: edges to the nearest vertices.  Chosen here: one graph of all samples, since the paper trains on all samples
together; 64 latent numbers and a hidden layer of 256; squared errors, since features are not pixels in [0, 1].  Where
features are small, as in rows that sum to one, β = 1 outweighs them and the decoder returns little but the mean of a
class.  Labels travel as counts of training vertices, so the server learns how a client's classes are distributed.

A further round continues from the clients' autoencoders, the server's decoder and the model.  The clock bills the
autoencoder to the client, and decoding, neighbour search and training to the server, by the numbers of vertices alone.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from algorithms.fed_cvae.cvae import CVAE, truncated_normal
from fedsim.core.errors import Problem, ScenarioError
from fedsim.core.seeds import integer
from fedsim.core.units import Count
from fedsim.core.wire import Spec, Tree
from fedsim.data.graph import Graph
from fedsim.learn import alignment, tree
from fedsim.learn.algorithm import Algorithm, Fit, Job, Reply, State, Work
from fedsim.learn.model import Parameters
from fedsim.learn.optimiser import Adam
from fedsim.learn.pseudo_graphs import knn_flops, pseudo_graph, stand_in
from fedsim.learn.server_training import descend, in_training
from fedsim.learn.tasks.node_classification import classes_only


@dataclass(frozen=True)
class FedCVAE(Algorithm):
    """The global model is trained on samples of all decoders, or of one distilled from them."""

    variant: Literal["ensemble", "distil"] = "ensemble"  # use all decoders, or one distilled from them
    latent: Count = 64  # size of the latent vector z
    hidden: Count = 256  # width of encoder and decoder
    beta: float = 1.0  # weight of the divergence from N(0, I)
    neighbours: Count = 5  # k of the pseudo graph, including the vertex itself
    size: float = 1.0  # samples per vertex of a client
    server_steps: Count = 100  # training steps of the global model
    server_lr: float = 1e-2  # learning rate of the global model
    server_decay: float = 4e-4  # weight decay of the global model
    distil_steps: Count = 100  # training steps of the server's decoder
    distil_lr: float = 1e-3  # learning rate of the distillation

    @property
    def cvae(self) -> CVAE:
        """The autoencoder's sizes."""
        return CVAE(self.task.features, self.task.classes, self.latent, self.hidden, self.beta)

    # ---- server

    def start(self) -> State:
        """Return the first model and decoder.  Raises ScenarioError for a task without classes, or without samples."""
        classes_only(self.task, "'fed_cvae' generates vertices of classes: take task: node_classification")
        if self.size <= 0:
            raise ScenarioError([Problem("algorithm.size", f"{self.size} leaves no sample; it must be above 0")])
        state = {"model": self.task.init(), "updates": 0}
        if self.variant == "ensemble":
            return state
        first = self.cvae.decoder.init(self.random("decoder"))
        return {**state, "decoder": tree.to(first, self.task.device)}

    def random(self, *name: object) -> torch.Generator:
        """Return the server's random stream of that name."""
        return torch.Generator().manual_seed(integer(self.task.seed, "fed_cvae", *name))

    def download(self, state: State, client: int, step: str) -> Tree:
        """Send nothing: a client begins with an autoencoder of its own."""
        return {}

    def update(self, state: State, replies: Sequence[Reply], step: str) -> State:
        """Train on samples of the decoders received."""
        able = sorted((reply for reply in replies if "decoder" in reply.upload), key=lambda reply: reply.client)
        new = {**state, "updates": state["updates"] + 1}
        if not able:
            return new
        noises, labels = self.inputs(state, able, "first")
        with torch.no_grad():
            parts = zip(able, noises, labels, strict=True)
            x = torch.cat([self.cvae.decoder.forward(reply.upload["decoder"], z, y) for reply, z, y in parts])
        z, y = torch.cat(noises), torch.cat(labels)
        if self.variant == "distil":
            new["decoder"] = self.distilled(state["decoder"], z, y, x)
            z, y = (torch.cat(parts) for parts in self.inputs(state, able, "second"))
            with torch.no_grad():
                x = self.cvae.decoder.forward(new["decoder"], z, y)
        return {**new, "model": self.taught(state, pseudo_graph(x, y, self.neighbours))}

    def inputs(self, state: State, able: Sequence[Reply], name: str) -> tuple[list[Tensor], list[Tensor]]:
        """Return noise z (n, latent) and labels y (n,) for each client."""
        noises, labels = [], []
        for reply in able:
            drawn = self.random(name, state["updates"], reply.client)
            n = self.samples(reply.upload)
            noises.append(truncated_normal(n, self.latent, drawn).to(self.task.device))
            weights = reply.upload["labels"].cpu().double()
            labels.append(torch.multinomial(weights, n, replacement=True, generator=drawn).to(self.task.device))
        return noises, labels

    def samples(self, upload: Tree) -> int:
        """Return the number of samples drawn for this client."""
        return max(1, round(self.size * int(upload["vertices"])))

    def distilled(self, decoder: Parameters, z: Tensor, y: Tensor, x: Tensor) -> Parameters:
        """Return the server's decoder after training on the output of the clients'."""
        net = self.cvae.decoder

        def loss(params: Parameters, step: int) -> Tensor:
            return 0.5 * (net.forward(tree.at(params, 0), z, y) - x).square().sum(1).mean()

        return descend(decoder, loss, Adam(self.distil_lr), self.distil_steps)[0]

    def taught(self, state: State, graph: Graph) -> Parameters:
        """Return the global model after training on the pseudo graph."""
        seed = integer(self.task.seed, "fed_cvae", "drop", state["updates"])

        def loss(params: Parameters, step: int) -> Tensor:
            return self.task.loss(params, in_training(graph, seed, step))

        return descend(state["model"], loss, Adam(self.server_lr, self.server_decay), self.server_steps)[0]

    def server_flops(self, state: State, replies: Sequence[Reply], step: str) -> float:
        """Return the reading, the decoding, the graph, and the training on it."""
        n = sum(self.samples(reply.upload) for reply in replies if "decoder" in reply.upload)
        if not n:
            return super().server_flops(state, replies, step)
        decoding = self.cvae.decoder.flops(n)
        if self.variant == "distil":
            decoding *= 2 + 3 * self.distil_steps
        graph = stand_in(n, self.task.features, self.neighbours)
        training = knn_flops(n, self.task.features) + self.server_steps * self.task.flops(graph)
        return super().server_flops(state, replies, step) + decoding + training

    def mass(self, reply: Reply) -> float:
        """Return the client's vertices."""
        return float(reply.upload["vertices"])

    # ---- client

    def work(self, job: Job) -> Work:
        """Train the autoencoder on the training vertices; send its decoder, their classes, and the vertices."""
        y, train = job.data["y"], job.data["train"]
        counts = torch.bincount(y[train], minlength=self.task.classes).int()
        sent = {"labels": counts, "vertices": torch.tensor([len(y)], dtype=torch.int32)}
        if not self.trains_on(job.data):
            return sent
        start = job.memory.get("cvae")
        if start is None:
            drawn = self.cvae.init(torch.Generator().manual_seed(integer(job.seed, "cvae")))
            start = tree.to(drawn, self.task.device)
        own = alignment.labelled(job.data)
        trained = yield Fit(start=start, loss=self.cvae.loss, data=own, slot="cvae", each=True)
        job.memory["cvae"] = trained
        return {**sent, "decoder": trained["decoder"]}

    def trains_on(self, data: Graph) -> int:
        """Return the number of vertices that the client trains on."""
        return self.task.examples(data, "train")

    def upload_like(self, job: Job) -> Tree:
        """Return a tree as large as the upload."""
        like = {"labels": Spec((self.task.classes,), "int32"), "vertices": Spec((1,), "int32")}
        return {**like, "decoder": self.cvae.decoder.like()} if self.trains_on(job.data) else like

    def effort(self, job: Job) -> float:
        """Count the autoencoder's steps against the model's."""
        n = self.trains_on(job.data)
        return self.cvae.flops(n) / self.task.flops(job.data) if n else 0.0
