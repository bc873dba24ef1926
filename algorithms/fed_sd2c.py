"""FedSD2C: each client uploads codes of a core set once, the server trains a model (Zhang, Liu and Wang, NeurIPS 2024).

A client trains a model of its own, selects from each class the `each` training nodes with the lowest loss, and
encodes them with an autoencoder that it has trained on its training nodes.  100 steps of Adam then move the codes
until the model gives the decoded nodes the predictions that it gives the real ones.

What travels, up only: the codes (M, L), the decoder, and the client's model, all as float32:

    4 (M L + D + P) bytes,   D = (L + 1) H + (H + 1) F,   M = Σ_c min(`each`, training nodes of class c)

with P numbers in the model.  The encoder, labels, the number of nodes and the features themselves do not travel; a
client without a training node sends nothing, and nothing is sent down.  The decoder is trained on the client's
features and may memorise some of them.

The server decodes, links each client's nodes with their 5 nearest by cosine (the node itself included), takes soft
labels from that client's model, and trains the global model on all of these graphs at once with the cross-entropy, each
node with the same weight (times the protocol's discount): SGD, 0.2, momentum 0.9, 100 epochs.

Core set, autoencoder and codes use training nodes alone.  The model is trained as all models here are: the other
nodes contribute their features as neighbours, and nothing else.

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

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from fedsim.core.seeds import integer
from fedsim.core.span import Span
from fedsim.core.units import Count, Fraction
from fedsim.core.wire import Spec, Tree
from fedsim.data.graph import Graph, as_dense, graph_of, take_rows
from fedsim.learn.algorithm import Disclosed, Fit, Job, Reply, State, Work
from fedsim.learn.continual import replay
from fedsim.learn.engine import joining, ops, tree
from fedsim.learn.engine.optimiser import SGD, Adam, descend, in_training
from fedsim.learn.layers import dense
from fedsim.learn.model import Parameters
from fedsim.learn.synthetic import proxy
from fedsim.learn.synthetic.generating import OneUpload
from fedsim.learn.synthetic.pseudo_graphs import knn_flops, knn_graph, pseudo_graph, stand_in

Coder = dict[str, Parameters]  # encoder and decoder


@dataclass(frozen=True)
class FedSD2C(OneUpload):
    """Clients send codes, a decoder and a model; the server trains."""

    stream = "fed_sd2c"
    any_model = True
    discloses = Disclosed(("updates", "generators", "features", "labels"))
    needs = frozenset({"vectors", "no buffers"})
    brings = "codes"

    each: Count = 10  # most nodes per class in the core set
    latent: Count = 64  # L, size of a code
    width: Count = 128  # H, width of the autoencoder's hidden layers
    latent_steps: Count = 100  # Adam steps that optimise the codes
    latent_lr: float = 0.1  # their learning rate
    neighbours: Count = 5  # k of the neighbour lists, including the node itself
    server_epochs: Count = 100  # epochs of training on the distillates
    server_lr: float = 0.2  # learning rate of the server's SGD
    server_momentum: Fraction = 0.9  # momentum of the server's SGD

    tunes = {"server_lr": Span(1e-3, 0.5, log=True), "latent_lr": Span(1e-3, 0.5, log=True)}

    @property
    def coder(self) -> "Autoencoder":
        """The autoencoder for the task's features."""
        return Autoencoder(self.task.features, self.width, self.latent)

    # ---- server

    @torch.no_grad()
    def decoded(self, upload: Tree) -> tuple[Graph, Tensor]:
        """Return a client's decoded nodes as a graph, and the soft labels (M, C) of its model."""
        x = dense.through(upload["decoder"], upload["codes"])
        graph = pseudo_graph(x, torch.zeros(len(x), dtype=torch.long, device=x.device), self.neighbours)
        return graph, torch.softmax(self.task.forward(tree.stack([upload["model"]]), graph), 1)

    def taught(self, state: State, replies: Sequence[Reply]) -> State:
        """Decode the uploads, and train on all clients' graphs for all epochs."""
        graphs, labels = zip(*[self.decoded(reply.upload) for reply in replies], strict=True)
        joined, soft = joining.union(graphs, shared=True), torch.cat(labels)
        weight = torch.cat([torch.full((len(y),), r.weight) for r, y in zip(replies, labels, strict=True)])
        weight = weight.to(soft.device) / len(weight)
        seed = integer(self.task.seed, "fed_sd2c", "teach", state["updates"])

        def loss(params: Parameters, epoch: int) -> Tensor:
            answer = F.log_softmax(self.task.forward(params, in_training(joined, seed, epoch)), 1)
            return -(weight * (soft * answer).sum(1)).sum()

        sgd = SGD(self.server_lr, 0.0, self.server_momentum)
        return {"model": descend(state["model"], loss, sgd, self.server_epochs)[0]}

    def server_flops(self, state: State, replies: Sequence[Reply], step: str) -> float:
        """Return the reading, decoding, lists and labels of each client, and the epochs."""
        total = super().server_flops(state, replies, step)
        for n in [len(reply.upload["codes"]) for reply in replies if "codes" in reply.upload]:
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
        if not self.trains_on(job.data):
            return {}
        start = job.memory.get("local") or self.task.drawn(integer(job.seed, "fed_sd2c", "local"))
        model = yield Fit(start=start, loss=self.loss)
        drawn, x = ops.generator(job.seed, "fed_sd2c", "coder"), as_dense(proxy.labelled(job.data)["x"])
        start = job.memory.get("coder") or tree.to(self.coder.init(drawn), self.task.device)
        coder = yield Fit(start=start, loss=self.coder.loss, given={"x": x}, slot="coder", each=True)
        job.memory["local"], job.memory["coder"] = model, coder
        return {"codes": self.codes(job, model, coder), "decoder": coder["decoder"], "model": model}

    def codes(self, job: Job, model: Parameters, coder: Coder) -> Tensor:
        """Return the codes (M, L) of the core set, moved towards what the model says of it.

        They take steps of Adam on KL(model of the real nodes ‖ model of the decoded nodes), whose neighbour lists are
        computed again in each step.
        """
        stacked, data = tree.stack([model]), job.data
        with torch.no_grad():
            logits = self.task.forward(stacked, data)
            losses = F.cross_entropy(logits, torch.where(data["train"], data["y"], 0), reduction="none")
            core = core_set(losses, data, self.each)
            first = dense.through(coder["encoder"], as_dense(take_rows(data["x"], core)))
        wanted = torch.softmax(logits[core], 1)
        y = wanted.argmax(1)

        def loss(params: Tree, step: int) -> Tensor:
            x = dense.through(coder["decoder"], params["codes"][0])
            answer = self.task.forward(stacked, graph_of(x, knn_graph(x, self.neighbours), y))
            return F.kl_div(F.log_softmax(answer, 1), wanted, reduction="batchmean")

        return descend({"codes": first}, loss, Adam(self.latent_lr), self.latent_steps)[0]["codes"]

    def core(self, job: Job) -> int:
        """Return M, which does not depend on the losses."""
        return int(torch.bincount(job.data["y"][job.data["train"]]).clamp(max=self.each).sum())

    def upload_like(self, job: Job) -> Tree:
        """Return a tree as large as the upload."""
        if not self.trains_on(job.data):
            return {}
        codes = Spec((self.core(job), self.latent), "float32")
        return {"codes": codes, "decoder": self.coder.like(), "model": self.task.init()}

    def effort(self, job: Job) -> float:
        """Count the model's steps and the autoencoder's, both halves in three passes."""
        n = self.trains_on(job.data)
        return 1 + 6 * self.coder.flops(n) / self.task.flops(job.data) if n else 0.0

    def extra_steps(self, job: Job) -> float:
        """Count the choice, a third of a step, and the codes' steps: decoder and model in three passes, and lists."""
        if not self.trains_on(job.data):
            return 0.0
        n = self.core(job)
        graph = stand_in(n, self.task.features, self.neighbours)
        step = 3 * self.coder.flops(n) + knn_flops(n, self.task.features) + self.task.flops(graph)
        return 1 / 3 + self.latent_steps * step / self.task.flops(job.data)


def core_set(losses: Tensor, data: Graph, each: int) -> Tensor:
    """Return the core set's nodes (M,): of each class the `each` training nodes with the lowest loss (N,)."""
    return torch.cat([rows[torch.argsort(losses[rows], stable=True)[:each]] for rows in replay.class_rows(data)])


@dataclass(frozen=True)
class Autoencoder:
    """An autoencoder of F features, two layers each way; parameters have no client axis.

    code = W₂ relu(W₁ x + b₁) + b₂,   x̂ = W₄ relu(W₃ code + b₃) + b₄
    """

    features: int
    width: int = 128  # of the hidden layer of either half
    latent: int = 64  # numbers in a code

    def widths(self, half: str) -> list[int]:
        """Return the widths between the layers of the encoder or the decoder."""
        encoder = [self.features, self.width, self.latent]
        return encoder if half == "encoder" else encoder[::-1]

    def init(self, generator: torch.Generator) -> Coder:
        """Return first parameters on the CPU, layers as `torch.nn.Linear` draws them."""
        return {half: dense.layers(self.widths(half), generator) for half in ("encoder", "decoder")}

    def like(self) -> dict[str, dict[str, Spec]]:
        """Return the shapes of the decoder, as it travels."""
        return dense.like(self.widths("decoder"))

    def loss(self, params: Coder, data: Graph, given: Tree) -> Tensor:
        """Return the mean squared error (1,) of one client's features x (n, F), all with a client axis of one."""
        coder, x = tree.at(params, 0), given["x"][0]
        return (dense.through(coder["decoder"], dense.through(coder["encoder"], x)) - x).square().mean().unsqueeze(0)

    def flops(self, n: int) -> float:
        """Return the operations of one half's forward pass of n rows."""
        return 2.0 * n * self.width * (self.features + self.latent)
