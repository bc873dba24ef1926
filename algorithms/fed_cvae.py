"""FedCVAE: each client uploads a decoder once, and the server trains a model from them (Heinbaugh et al., ICLR 2023).

A client trains a conditional variational autoencoder on its training nodes, for as many steps of the
scenario's optimiser as `training` says, and sends its decoder, its number of training nodes of each class, and its
number of nodes.  It trains no classifier and needs no model from the server.  For each client the server draws as
many samples as the client has nodes (times `size`): z from N(0, 1) truncated to [−1, 1], labels by the client's
class shares, features by its decoder.  All samples together form one pseudo graph, whose edges join each node with
its k nearest, and the global model is trained on it with the cross-entropy (`ensemble`).  `distil` first trains a
decoder of the server's to return what the clients' decoders return, and then draws as many samples again from that one.

With D numbers in the decoder a message holds nothing down, and 4 D + 4 C + 4 bytes up.  A client without a training
node sends zeros for the classes and no decoder, and nothing is drawn for it.

The paper is on images.  The reconstruction for graphs follows what the authors of GHOST (ICML 2025) say of their
comparison: edges to the nearest nodes.  Chosen here: one graph of all samples, since the paper trains on all samples
together; 64 latent numbers and a hidden layer of 256; squared errors, since features are not pixels in [0, 1].  Where
features are small, as in rows that sum to one, β = 1 outweighs them and the decoder returns little but the mean of a
class.  Labels travel as counts of training nodes, so the server learns how a client's classes are distributed.

A further round continues from the clients' autoencoders, the server's decoder and the model.  The clock bills the
autoencoder to the client, and decoding, neighbour search and training to the server, by the numbers of nodes alone.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from fedsim.core.seeds import integer
from fedsim.core.span import Span
from fedsim.core.units import Count, Positive
from fedsim.data.graph import Graph, as_dense
from fedsim.learn.algorithm import Algorithm, Disclosed, Fit, Job, Reply, State, Work
from fedsim.learn.engine import ops, tree
from fedsim.learn.engine.optimiser import Adam, descend, in_training
from fedsim.learn.layers import dense
from fedsim.learn.model import Parameters
from fedsim.learn.synthetic import proxy
from fedsim.learn.synthetic.generating import OneUpload
from fedsim.learn.synthetic.generators import FeatureGenerator
from fedsim.learn.synthetic.pseudo_graphs import knn_flops, pseudo_graph, stand_in


@dataclass(frozen=True)
class FedCVAE(OneUpload):
    """The global model is trained on samples of all decoders, or of one distilled from them."""

    stream = "fed_cvae"
    any_model = True
    discloses = Disclosed(("generators", "labels"))
    needs = frozenset({"vectors", "no buffers"})
    brings = "decoder"
    upload_like = Algorithm.untrained_upload

    variant: Literal["ensemble", "distil"] = "ensemble"  # use all decoders, or one distilled from them
    latent: Count = 64  # size of the latent vector z
    hidden: Count = 256  # width of encoder and decoder
    beta: float = 1.0  # weight of the divergence from N(0, I)
    neighbours: Count = 5  # k of the pseudo graph, including the node itself
    size: Positive = 1.0  # samples per node of a client
    server_steps: Count = 100  # training steps of the global model
    server_lr: float = 1e-2  # learning rate of the global model
    server_decay: float = 4e-4  # weight decay of the global model
    distil_steps: Count = 100  # training steps of the server's decoder
    distil_lr: float = 1e-3  # learning rate of the distillation
    tunes = {"beta": Span(1e-4, 1.0, log=True), "server_lr": Span(1e-3, 0.1, log=True)}

    @property
    def cvae(self) -> "CVAE":
        """The autoencoder's sizes."""
        return CVAE(self.task.features, self.task.classes, self.latent, self.hidden, self.beta)

    # ---- server

    def start(self) -> State:
        """Return the first model and decoder.  Raises ScenarioError for a task without classes."""
        state = super().start()
        if self.variant == "ensemble":
            return state
        return {**state, "decoder": tree.to(self.cvae.decoder.init(self.random("decoder")), self.task.device)}

    def taught(self, state: State, replies: Sequence[Reply]) -> State:
        """Train on samples of the decoders received, or of the server's, once it has learned what they return."""
        noises, labels = self.inputs(state, replies, "first")
        with torch.no_grad():
            parts = zip(replies, noises, labels, strict=True)
            x = torch.cat([self.cvae.decoder.forward(reply.upload["decoder"], z, y) for reply, z, y in parts])
        z, y = torch.cat(noises), torch.cat(labels)
        if self.variant == "ensemble":
            return {"model": self.trained(state, x, y)}
        decoder = self.distilled(state["decoder"], z, y, x)
        z, y = (torch.cat(parts) for parts in self.inputs(state, replies, "second"))
        with torch.no_grad():
            x = self.cvae.decoder.forward(decoder, z, y)
        return {"decoder": decoder, "model": self.trained(state, x, y)}

    def inputs(self, state: State, replies: Sequence[Reply], name: str) -> tuple[list[Tensor], list[Tensor]]:
        """Return noise z (n, latent) and labels y (n,) for each client."""
        noises, labels = [], []
        for reply in replies:
            drawn = self.random(name, state["updates"], reply.client)
            n = self.nodes(reply.upload)
            noises.append(truncated_normal(n, self.latent, drawn).to(self.task.device))
            weights = reply.upload["labels"].cpu().double()
            labels.append(torch.multinomial(weights, n, replacement=True, generator=drawn).to(self.task.device))
        return noises, labels

    def distilled(self, decoder: Parameters, z: Tensor, y: Tensor, x: Tensor) -> Parameters:
        """Return the server's decoder after training on the output of the clients'."""
        net = self.cvae.decoder

        def loss(params: Parameters, step: int) -> Tensor:
            return 0.5 * (net.forward(tree.at(params, 0), z, y) - x).square().sum(1).mean()

        return descend(decoder, loss, Adam(self.distil_lr), self.distil_steps)[0]

    def trained(self, state: State, x: Tensor, y: Tensor) -> Parameters:
        """Return the global model after training on the pseudo graph of these samples."""
        graph, seed = pseudo_graph(x, y, self.neighbours), integer(self.task.seed, "fed_cvae", "drop", state["updates"])

        def loss(params: Parameters, step: int) -> Tensor:
            return self.task.loss(params, in_training(graph, seed, step))

        return descend(state["model"], loss, Adam(self.server_lr, self.server_decay), self.server_steps)[0]

    def server_flops(self, state: State, replies: Sequence[Reply], step: str) -> float:
        """Return the reading, the decoding, the graph, and the training on it."""
        total = super().server_flops(state, replies, step)
        n = sum(self.nodes(reply.upload) for reply in replies if "decoder" in reply.upload)
        if not n:
            return total
        decoding = self.cvae.decoder.flops(n)
        if self.variant == "distil":
            decoding *= 2 + 3 * self.distil_steps
        graph = stand_in(n, self.task.features, self.neighbours)
        training = knn_flops(n, self.task.features) + self.server_steps * self.task.flops(graph)
        return total + decoding + training

    # ---- client

    def work(self, job: Job) -> Work:
        """Train the autoencoder on the training nodes; send its decoder, their classes, and the nodes."""
        y, train = job.data["y"], job.data["train"]
        counts = torch.bincount(y[train], minlength=self.task.classes).int()
        sent = {"labels": counts, "examples": torch.tensor([len(y)], dtype=torch.int32)}
        if not self.trains_on(job.data):
            return sent
        start = job.memory.get("cvae") or tree.to(self.cvae.init(ops.generator(job.seed, "cvae")), self.task.device)
        labelled = proxy.labelled(job.data)
        trained = yield Fit(start=start, loss=self.cvae.loss, data=labelled, slot="cvae", each=True)
        job.memory["cvae"] = trained
        return {**sent, "decoder": trained["decoder"]}

    def effort(self, job: Job) -> float:
        """Count the autoencoder's steps against the model's."""
        n = self.trains_on(job.data)
        return self.cvae.flops(n) / self.task.flops(job.data) if n else 0.0


@dataclass(frozen=True)
class CVAE:
    """A conditional variational autoencoder of F features, given labels of C classes (Sohn, Lee and Yan, NeurIPS 2015).

    h = relu([x ‖ y] W₁ + b₁),   [μ ‖ log σ²] = h W₂ + b₂,   z = μ + σ ε,   x̂ = decoder(z, y)
    L = (1/n) Σᵢ ½ ‖xᵢ − x̂ᵢ‖² + β (1/n) Σᵢ ½ Σ (μᵢ² + σᵢ² − log σᵢ² − 1)

    y is one-hot; the decoder is a `FeatureGenerator` with one hidden layer.  The first term is, up to a constant, the
    negative likelihood of features with normal noise of variance 1.  It sees no edges.
    """

    features: int
    classes: int
    latent: int = 64
    hidden: int = 256
    beta: float = 1.0

    @property
    def decoder(self) -> FeatureGenerator:
        """The part that travels."""
        return FeatureGenerator(self.features, self.classes, self.latent, (self.hidden,), 0.0, "one_hot")

    def init(self, generator: torch.Generator) -> dict[str, Parameters]:
        """Return first parameters on the CPU, as `torch.nn.Linear` draws them: encoder and decoder."""
        widths = (self.features + self.classes, self.hidden, 2 * self.latent)
        return {"encoder": dense.layers(widths, generator), "decoder": self.decoder.init(generator)}

    def encode(self, params: Parameters, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        """Return μ and log σ² (n, latent) of features x (n, F) with labels y (n,)."""
        both = torch.cat([x, F.one_hot(y, self.classes).to(x.dtype)], 1)
        mean, spread = dense.through(params, both).chunk(2, dim=1)
        return mean, spread

    def loss(self, params: Any, data: Graph, given: Any) -> Tensor:
        """Return L (1,) of one client's autoencoder on all nodes of a graph, all with a client axis of one.

        Noise is drawn from the graph's `seed`.
        """
        cvae, x, y = tree.at(params, 0), as_dense(data["x"]), data["y"]
        mean, spread = self.encode(cvae["encoder"], x, y)
        drawn = ops.generator(int(data["seed"]), "cvae")
        z = mean + torch.exp(0.5 * spread) * torch.randn(mean.shape, generator=drawn).to(x.device)
        missed = (self.decoder.forward(cvae["decoder"], z, y) - x).square().sum(1)
        apart = (mean.square() + spread.exp() - spread - 1).sum(1)
        return (0.5 * (missed + self.beta * apart)).mean().unsqueeze(0)

    def flops(self, n: int) -> float:
        """Return the operations of one training step on n nodes: three passes."""
        encoder = (self.features + self.classes) * self.hidden + self.hidden * 2 * self.latent
        return 3 * (2.0 * n * encoder + self.decoder.flops(n))


def truncated_normal(rows: int, columns: int, generator: torch.Generator, limit: float = 1.0) -> Tensor:
    """Return N(0, 1) cut to [−limit, limit], (rows, columns) on the CPU, by the inverse of its distribution."""
    inside = math.erf(limit / math.sqrt(2))
    drawn = torch.rand(rows, columns, generator=generator, dtype=torch.double)
    return (math.sqrt(2) * torch.erfinv((2 * drawn - 1) * inside)).clamp(-limit, limit).float()
