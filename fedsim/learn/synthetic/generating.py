"""Methods of one upload: clients send what the server trains a model on, such as generators of features.

`OneUpload` is what they share; `Generating` is GHOST's and OASIS's, whose clients send a generator of features.

The client's half: the generator is trained on the labelled training nodes alone (proxy.py), from noise about a
centre of the client's own, and sent with the number of nodes and the centre.  The server's half is drawing graphs
from it; what a model is taught by them is the algorithm's own.
"""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor

from fedsim.core.errors import ScenarioError
from fedsim.core.units import Count, Fraction
from fedsim.data.graph import Graph
from fedsim.learn.algorithm import Algorithm, Fit, Job, Reply, State, Tree, Work
from fedsim.learn.engine import ops, tree
from fedsim.learn.synthetic.generators import FeatureGenerator
from fedsim.learn.synthetic.proxy import Proxy, labelled
from fedsim.learn.synthetic.pseudo_graphs import pseudo_graph, uniform_labels


class OneUpload(Algorithm):
    """Clients begin with models of their own, so that nothing is sent down; the server trains on what they send."""

    stream: ClassVar[str]  # the first name of the server's random streams
    size: float  # pseudo nodes per node of the client, where some are drawn
    brings: ClassVar[str]  # the entry of an upload that only a client with training nodes sends

    def start(self) -> State:
        """Return the first model.  Raises ScenarioError for a task without classes."""
        self.task.require_classes(f"{self.stream!r} generates nodes of classes")
        return {"model": self.task.init(), "updates": 0}

    def download(self, state: State, client: int, step: str) -> Tree:
        """Send nothing."""
        return {}

    def update(self, state: State, replies: Sequence[Reply], step: str) -> State:
        """Train on the uploads of clients with training nodes, in order of the client."""
        usable = sorted((reply for reply in replies if self.brings in reply.upload), key=lambda reply: reply.client)
        new = {**state, "updates": state["updates"] + 1}
        return {**new, **self.taught(state, usable)} if usable else new

    @abstractmethod
    def taught(self, state: State, replies: Sequence[Reply]) -> State:
        """Return what the training on these uploads changes of the state."""

    def random(self, *name: object) -> torch.Generator:
        """Return the server's random stream of that name."""
        return ops.generator(self.task.seed, self.stream, *name)

    def nodes(self, upload: Tree) -> int:
        """Return the number of pseudo nodes that the server draws for this client."""
        return max(1, round(self.size * int(upload["examples"])))

    def mass(self, reply: Reply) -> float:
        """Return the client's nodes."""
        return float(reply.upload["examples"])

    def trains_on(self, data: Graph) -> int:
        """Return the number of nodes that the client trains on."""
        return self.task.examples(data, "train")


@dataclass(frozen=True)
class Generating(OneUpload):
    """An algorithm whose clients send generators."""

    brings = "generator"
    upload_like = Algorithm.untrained_upload
    coding: ClassVar[Literal["table", "one_hot"]] = "table"  # how a generator is given a label

    noise: Count = 64  # size of the noise vector z
    neighbours: Count = 5  # k of the pseudo graphs, including the node itself
    generator_dropout: Fraction = 0.2  # dropout in the generator
    use_div: bool = True  # include L_div (Eq. 4)
    use_disp: bool = True  # include L_disp (Eq. 5)
    use_fgw: bool = True  # include L_fgw (Eq. 6)
    lambda_d: float = 0.05  # weight of the divergence
    lambda_f: float = 0.1  # weight of L_fgw
    scale: float = 1.0  # rescales L_fgw; OASIS has 1e-5 for Amazon Photo and 1e-7 for ogbn-arxiv
    a: Fraction = 0.5  # share of the structure in L_fgw
    fgw_adj: Literal["ours", "code"] = "ours"  # compare A with the pseudo graph, or with the identity as the code does
    sample: Count = 512  # most training nodes in L_fgw
    shift: float = 0.0  # ς, centre of the clients' noise; 30, 60 and 90 were studied
    shift_range: float = 0.0  # each client shifts its centre randomly by up to this
    labels: Literal["uniform", "held"] = "uniform"  # labels of a graph: uniform over all classes, or those trained on
    size: Fraction = 1.0  # nodes of a pseudo graph per node of the client; OASIS has 0.1 for ogbn-arxiv

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

    def start(self) -> State:
        """Return the first model.  Raises ScenarioError also if a generator has nothing to be trained by."""
        if not (self.use_div or self.use_disp or self.use_fgw):
            raise ScenarioError.at("algorithm.use_div", "one of use_div, use_disp and use_fgw must be true")
        return super().start()

    # ---- server

    @torch.no_grad()
    def drawn(self, state: State, reply: Reply, m: int) -> Graph:
        """Return the m-th pseudo graph of a client in this update."""
        device, upload, drawn = self.task.device, reply.upload, self.random("graph", state["updates"], reply.client, m)
        n = self.nodes(upload)
        classes = torch.arange(self.task.classes)
        if self.labels == "held":
            classes = upload["held"].cpu().nonzero().squeeze(1)
        y = classes[uniform_labels(n, len(classes), drawn)].to(device)
        z = self.proxy.generator.draw(n, drawn, self.read_centre(upload, drawn)).to(device)
        return pseudo_graph(self.proxy.generator.forward(upload["generator"], z, y), y, self.neighbours)

    def read_centre(self, upload: Tree, drawn: torch.Generator) -> float:
        """Return the centre from which the server draws."""
        return float(upload["centre"])

    # ---- client

    def work(self, job: Job) -> Work:
        """Train the generator on the labelled nodes; send it, the number of nodes, and the centre."""
        sent = {"examples": torch.tensor([len(job.data["y"])], dtype=torch.int32), "centre": self.centre(job)}
        if not self.trains_on(job.data):
            return sent
        graph, proxy = labelled(job.data), self.proxy
        first = ops.generator(job.seed, "generator")
        start = job.memory.get("generator") or tree.to(proxy.generator.init(first), self.task.device)
        given = proxy.given(graph, sent["centre"])
        trained = yield Fit(start, proxy.loss, given, graph, slot="generator", each=True)
        job.memory["generator"] = trained
        if self.labels == "held":
            sent["held"] = torch.bincount(graph["y"], minlength=self.task.classes) > 0
        return {**sent, "generator": trained}

    def centre(self, job: Job) -> Tensor:
        """Return ς (1,), the same in all of a client's jobs."""
        if "centre" not in job.memory:
            drawn = ops.generator(job.seed, "centre")
            moved = self.shift_range * (2 * torch.rand(1, generator=drawn) - 1)
            job.memory["centre"] = self.shift + moved
        centre: Tensor = job.memory["centre"]
        return centre

    def effort(self, job: Job) -> float:
        """Count the generator's steps against the model's."""
        n = self.trains_on(job.data)
        return self.proxy.flops(n) / self.task.flops(job.data) if n else 0.0
