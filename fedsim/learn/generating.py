"""Clients that upload a generator of their vertices' features once, as GHOST's and OASIS's do.

The client's half: the generator is trained on the labelled training vertices alone (proxy.py), from noise about a
centre of the client's own, and sent with the number of vertices and the centre.  The server's half is drawing graphs
from it; what a model is taught by them is the algorithm's own.
"""

from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor

from fedsim.core.errors import Problem, ScenarioError
from fedsim.core.seeds import integer
from fedsim.core.units import Count, Fraction
from fedsim.core.wire import Spec, Tree
from fedsim.data.graph import Graph
from fedsim.learn import alignment, tree
from fedsim.learn.algorithm import Algorithm, Fit, Job, Reply, State, Work
from fedsim.learn.generators import FeatureGenerator
from fedsim.learn.proxy import Proxy
from fedsim.learn.pseudo_graphs import pseudo_graph, uniform_labels


@dataclass(frozen=True)
class Generating(Algorithm):
    """An algorithm whose clients send generators."""

    stream: ClassVar[str]  # the first name of the server's random streams
    coding: ClassVar[Literal["table", "one_hot"]] = "table"  # how a generator is given a label

    noise: Count = 64  # size of the noise vector z
    neighbours: Count = 5  # k of the pseudo graphs, including the vertex itself
    generator_dropout: Fraction = 0.2  # dropout in the generator
    use_div: bool = True  # include L_div (Eq. 4)
    use_disp: bool = True  # include L_disp (Eq. 5)
    use_fgw: bool = True  # include L_fgw (Eq. 6)
    lambda_d: float = 0.05  # weight of the divergence
    lambda_f: float = 0.1  # weight of L_fgw
    scale: float = 1.0  # rescales L_fgw; OASIS has 1e-5 for Amazon Photo and 1e-7 for ogbn-arxiv
    a: Fraction = 0.5  # share of the structure in L_fgw
    fgw_adj: Literal["ours", "code"] = "ours"  # compare A with the pseudo graph, or with the identity as the code does
    sample: Count = 512  # most training vertices in L_fgw
    shift: float = 0.0  # ς, centre of the clients' noise; 30, 60 and 90 were studied
    shift_range: float = 0.0  # each client shifts its centre randomly by up to this
    labels: Literal["uniform", "held"] = "uniform"  # labels of a graph: uniform over all classes, or those trained on
    size: Fraction = 1.0  # vertices of a pseudo graph per vertex of the client; OASIS has 0.1 for ogbn-arxiv

    @property
    def proxy(self) -> Proxy:
        """The generator, and what it is trained by."""
        features, classes = self.task.features, self.task.classes
        return Proxy(
            FeatureGenerator(features, classes, noise=self.noise, dropout=self.generator_dropout, labels=self.coding),
            divergence=self.lambda_d if self.use_div else None,
            dispersion=1.0 if self.use_disp else None,
            fgw=self.lambda_f * self.scale if self.use_fgw else None,
            a=self.a,
            neighbours=self.neighbours,
            against=self.fgw_adj,
            sample=self.sample,
        )

    def check_losses(self) -> None:
        """Raise ScenarioError if a generator has nothing to be trained by."""
        if not (self.use_div or self.use_disp or self.use_fgw):
            raise ScenarioError([Problem("algorithm.use_div", "one of use_div, use_disp and use_fgw must be true")])

    # ---- server

    def download(self, state: State, client: int, step: str) -> Tree:
        """Send nothing: a client begins with a generator of its own."""
        return {}

    def random(self, *name: object) -> torch.Generator:
        """Return the server's random stream of that name."""
        return torch.Generator().manual_seed(integer(self.task.seed, self.stream, *name))

    @torch.no_grad()
    def drawn(self, state: State, reply: Reply, m: int) -> Graph:
        """Return the m-th pseudo graph of a client in this update."""
        device, upload, drawn = self.task.device, reply.upload, self.random("graph", state["updates"], reply.client, m)
        n = self.vertices(upload)
        y = self.drawn_labels(upload, n, drawn).to(device)
        centre = self.read_centre(upload, drawn)
        z = self.proxy.generator.draw(n, drawn, centre).to(device)
        return pseudo_graph(self.proxy.generator.forward(upload["generator"], z, y), y, self.neighbours)

    def read_centre(self, upload: Tree, drawn: torch.Generator) -> float:
        """Return the centre from which the server draws."""
        return float(upload["centre"])

    def drawn_labels(self, upload: Tree, n: int, generator: torch.Generator) -> Tensor:
        """Return the labels (n,) of a client's pseudo graph, on the CPU."""
        if self.labels == "uniform":
            return uniform_labels(n, self.task.classes, generator)
        held = upload["held"].cpu().nonzero().squeeze(1)
        labels: Tensor = held[uniform_labels(n, len(held), generator)]
        return labels

    def vertices(self, upload: Tree) -> int:
        """Return the number of vertices of this client's pseudo graphs."""
        return max(1, round(self.size * int(upload["vertices"])))

    def mass(self, reply: Reply) -> float:
        """Return the client's vertices."""
        return float(reply.upload["vertices"])

    # ---- client

    def work(self, job: Job) -> Work:
        """Train the generator on the labelled vertices; send it, the number of vertices, and the centre."""
        sent = {"vertices": torch.tensor([len(job.data["y"])], dtype=torch.int32), "centre": self.centre(job)}
        if not self.trains_on(job.data):
            return sent
        own = alignment.labelled(job.data)
        start = job.memory.get("generator")
        if start is None:
            drawn = torch.Generator().manual_seed(integer(job.seed, "generator"))
            start = tree.to(self.proxy.generator.init(drawn), self.task.device)
        given = self.proxy.given(own, sent["centre"])
        trained = yield Fit(start=start, loss=self.proxy.loss, given=given, data=own, slot="generator", each=True)
        job.memory["generator"] = trained
        if self.labels == "held":
            sent["held"] = torch.bincount(own["y"], minlength=self.task.classes) > 0
        return {**sent, "generator": trained}

    def trains_on(self, data: Graph) -> int:
        """Return the number of vertices that the client trains on."""
        return self.task.examples(data, "train")

    def centre(self, job: Job) -> Tensor:
        """Return ς (1,), the same in all of a client's jobs."""
        if "centre" not in job.memory:
            drawn = torch.Generator().manual_seed(integer(job.seed, "centre"))
            moved = self.shift_range * (2 * torch.rand(1, generator=drawn) - 1)
            job.memory["centre"] = self.shift + moved
        centre: Tensor = job.memory["centre"]
        return centre

    def upload_like(self, job: Job) -> Tree:
        """Return a tree as large as the upload."""
        like = {"vertices": Spec((1,), "int32"), "centre": Spec((1,), "float32")}
        if not self.trains_on(job.data):
            return like
        if self.labels == "held":
            like["held"] = Spec((self.task.classes,), "bool")
        return {**like, "generator": self.proxy.generator.like()}

    def effort(self, job: Job) -> float:
        """Count the generator's steps against the model's."""
        n = self.trains_on(job.data)
        return self.proxy.flops(n) / self.task.flops(job.data) if n else 0.0
