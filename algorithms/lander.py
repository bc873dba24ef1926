"""LANDER as a graph adaptation: embeddings anchored at a vector of each class (Tran et al., CVPR 2024).

LANDER is a method for images.  POWER (KDD 2025) compares with an adaptation to graphs that its authors have not
published; this is ours, and shares with `target` all that is not said here.  A linear layer A maps hidden embeddings
to d numbers, att, and each class has a fixed anchor e there.  A client of the first period trains on

    L = CE + 5 L_b,   L_b = mean of relu(MSE(att, e_y) − r)

and from its second period on, with c classes known and n known or its own, a = log₂(n / 2 + 1) and s = √(c / n), on

    L = 0.2 (1 + 1/a) / s · (CE + 5 L_b) + 0.4 a s · (KD + MSE(att of student, att of teacher))

where CE is over its own classes and KD over the known ones, on synthetic nodes.  These are decoded from anchors,
through a layer of noise drawn anew in each round and for each ten nodes (one of each known class, if these are
fewer), and pulled within r of their anchor.

The published anchors embed the classes' names by a language model, 512-d.  None is assumed here: the anchors are random
vectors of the same geometry, at any d (norm 0.427 √d, mean cosine 0.78, a mean squared difference of 0.08 between two
of them), whose *meaning is lost*.  Anchors of unit norm would leave L_b without effect: at att = 0 it is 1/d against
r = 0.015.  The published code's rectifier acts on the mean of a batch, so that many good nodes excuse bad ones:
`bound: batch`; here it acts on each node.

Other differences: 15 rounds of 10 steps instead of 50 of 40, 5 of them warm-up; the generator's output has no trained
mean and deviation of its own; the round of least loss is not searched for.  Messages are those of `target`, with A in
every model, and the anchors once, 4 C d bytes, until a reply shows that they have arrived.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from algorithms.fedavg import FedAvg
from fedsim.core.errors import ScenarioError
from fedsim.core.seeds import integer
from fedsim.core.span import Span
from fedsim.core.units import Count
from fedsim.data.graph import Graph
from fedsim.learn.algorithm import Disclosed, Job, Reply, State, Tree
from fedsim.learn.continual.past_classes import PastClasses
from fedsim.learn.engine import ops, tree
from fedsim.learn.engine.optimiser import SGD
from fedsim.learn.layers import dense
from fedsim.learn.model import Parameters
from fedsim.learn.synthetic import inversion
from fedsim.learn.synthetic.pseudo_graphs import stand_in

NORM, COSINE = 0.427, 0.78  # rms coordinate of the published anchors, and the mean cosine of two of them
WIDE, GROUP = 256, 10  # width of a layer of noise, and how many nodes share one, all of other labels
HIDDEN = 128  # width of the decoder


@dataclass(frozen=True)
class Lander(PastClasses, FedAvg):
    """With `bounding: 0` and `kd: 0` this is FedAvg with the loss of a client's own classes."""

    title = "LANDER (graph adaptation)"
    aggregates = any_model = True
    discloses = Disclosed(("updates", "labels"))
    needs = frozenset({"embed", "vectors", "no buffers"})
    tunes = {"kd": Span(0.1, 10.0, log=True)}

    kd: float = 1.0  # weight of what is retained; 0: nothing is synthesised
    bounding: float = 5.0  # weight of L_b, and of its like in the synthesis
    radius: float = 0.015  # r
    bound: Literal["node", "batch"] = "node"  # what the rectifier of L_b acts on; published: the mean of a batch
    anchor_size: Count = 64  # d; published: 512
    rounds: Count = 15  # rounds of the synthesis, the warm-up's included, whose batches are not kept; published: 50
    inner_steps: Count = 10  # generator steps in a round; published: 40

    def __post_init__(self) -> None:
        """Raise ValueError for a synthesis that keeps nothing, and for a generator that is sent without its noise."""
        if self.rounds <= self.warm_up:
            raise ValueError(f"rounds: must be above warm_up ({self.warm_up}), whose batches are not kept")
        if self.send == "generator":
            raise ValueError("send: samples come through layers of noise that are drawn anew; leave it out")

    @property
    def synthesis(self) -> inversion.Synthesis:
        """The schedule of the synthesis."""
        return replace(super().synthesis, student=SGD(0.1), first_kept=self.warm_up, oppose_after=2)

    @property
    def widths(self) -> tuple[int, ...]:
        """The decoder's widths, from a layer of noise to the features."""
        return (WIDE, HIDDEN, self.task.features)

    def start(self) -> State:
        """Return the first model with A, the anchors, and nothing finished.  Raises ScenarioError for one layer."""
        state = super().start()
        if not self.task.model.embedding_width:
            raise ScenarioError.at("model.layers", "'lander' anchors a hidden layer's output: 2 or more")
        layer = self.projection(ops.generator(self.task.seed, "lander", "projection"))
        model = {**state["model"], "anchor": layer}
        return {**state, "model": model, "anchors": self.anchors(), "reached": frozenset()}

    def projection(self, drawn: torch.Generator) -> dict[str, Tensor]:
        """Return A's first weight and bias, as `torch.nn.Linear` draws them."""
        return tree.to(dense.layer(self.task.model.embedding_width, self.anchor_size, drawn), self.task.device)

    def anchors(self) -> Tensor:
        """Return the anchors (C, d): one common direction, and one of each class at right angles to it."""
        drawn = [self.random("anchor", name) for name in ("common", *range(self.task.classes))]
        first, *directions = [F.normalize(torch.randn(self.anchor_size, generator=g), dim=0) for g in drawn]
        apart = F.normalize(torch.stack([v - (v @ first) * first for v in directions]), dim=1)
        both = COSINE**0.5 * first + (1 - COSINE) ** 0.5 * apart
        return (NORM * self.anchor_size**0.5 * both).to(self.task.device)

    def download(self, state: State, client: int, step: str) -> Tree:
        """Send what `target` does, and the anchors until a reply shows that they have arrived."""
        sent = super().download(state, client, step)
        return sent if client in state["reached"] else {**sent, "anchors": state["anchors"]}

    def update(self, state: State, replies: Sequence[Reply], step: str) -> State:
        """Aggregate and synthesise; note who has the anchors."""
        new = super().update(state, replies, step)
        return {**new, "reached": state["reached"] | {reply.client for reply in replies}}

    def dry_update(self, state: State, replies: Sequence[Reply], step: str) -> State:
        """Note who has the anchors."""
        new = super().dry_update(state, replies, step)
        return {**new, "reached": state["reached"] | {reply.client for reply in replies}}

    # ---- synthesis

    def invert(self, teacher: Parameters, known: Tensor, binary: bool, number: int) -> Tree:
        """Return nodes x (n, F), the labels y (n,) that they were drawn for, and the decoder."""
        how, drawn, device, anchors = self.synthesis, self.random("draw", number), self.task.device, self.anchors()
        source = tree.to(inversion.generator(self.widths, drawn), device)
        first = self.task.drawn(integer(self.task.seed, "inversion", number))
        student = {**first, "anchor": self.projection(drawn)}
        models = tree.stack([teacher])

        def pulled(x: Tensor, y: Tensor) -> Tensor:
            graph = inversion.nodes(x)
            return self.bounding * self.outside(self.attended(models, graph), anchors[y]).mean()

        def taught(params: Parameters, graph: Graph) -> Tensor:
            with torch.no_grad():
                theirs = self.attended(models, graph)
            return self.bounding * F.mse_loss(self.attended(params, graph), theirs)

        inverted = inversion.Inversion(self.task, how, models, student, pulled, taught)
        leaves = [leaf.requires_grad_(True) for leaf in tree.leaves(source)]
        for turn in range(how.rounds):
            y = inversion.balanced(known, how.batch).to(device)
            group = torch.arange(how.batch, device=device) // min(GROUP, int(known.sum()))  # no label twice in one
            shape = int(group[-1]) + 1, self.anchor_size + 1, WIDE
            noise = torch.randn(shape, generator=drawn).to(device).requires_grad_(True)
            sources: list[dict[str, Any]] = [{"params": leaves, "lr": how.lr}, {"params": [noise], "lr": how.lr}]
            inverted.train(partial(self.decoded, source, noise, anchors[y], group, binary), y, sources, turn)
        return inverted.synthetic(source)

    def decoded(self, source: Parameters, noise: Tensor, anchors: Tensor, group: Tensor, binary: bool) -> Tensor:
        """Return features (n, F) for anchors (n, d), through the layer of noise (d + 1, WIDE) of each one's group."""
        inputs = torch.cat([inversion.normalised(anchors), torch.ones_like(anchors[:, :1])], 1)
        h = torch.bmm(inputs.unsqueeze(1), noise[group]).squeeze(1)
        return inversion.features(source, F.leaky_relu(inversion.normalised(h), inversion.SLOPE), binary)

    # ---- client

    def given(self, job: Job, held: Tree | None) -> Tree:
        """Return the anchors, and the weights of what is new and of what is retained."""
        if "anchors" in job.download:
            job.memory["anchors"] = job.download["anchors"]
        ours = {"anchors": job.memory["anchors"]}
        if held is None:
            return ours
        fresh, retained = balance(int(held["known"].sum()), int((held["known"] | self.current(job.data)).sum()))
        return {**ours, "fresh": fresh, "kept": self.kd * retained}

    @torch.no_grad()
    def said(self, teacher: Parameters, graph: Graph, known: Tensor) -> Tree:
        """Return the teacher's softened distribution over the known classes (n, C), and its att (n, d)."""
        return {**super().said(teacher, graph, known), "attended": self.attended(teacher, graph)}

    def attended(self, params: Parameters, graph: Graph) -> Tensor:
        """Return att (N, d) of parameters with a client axis on a union of as many graphs."""
        layer = params["anchor"]
        return ops.linear(self.task.embed(params, graph), layer["weight"], graph, layer["bias"])

    def outside(self, attended: Tensor, anchors: Tensor) -> Tensor:
        """Return by how much the mean squared distance of each node to its anchor exceeds r: (N,)."""
        return ((attended - anchors).square().mean(1) - self.radius).relu()

    def bounded(self, params: Parameters, data: Graph, anchors: Tensor) -> Tensor:
        """Return L_b of each client (K,), whose anchors are (K, C, d)."""
        attended = self.attended(params, data)
        near = anchors[data["client"], torch.where(data["train"], data["y"], 0)]
        if self.bound == "node":
            return ops.mean_by_client(self.outside(attended, near), data, data["train"])
        return (ops.mean_by_client((attended - near).square().mean(1), data, data["train"]) - self.radius).relu()

    def loss(self, params: Parameters, data: Graph, given: Tree) -> Tensor:
        """Return the losses of the client's own classes, and of what is retained."""
        new = self.fresh(self.task.forward(params, data), data, given)
        if self.bounding:
            new = new + self.bounding * self.bounded(params, data, given["anchors"])
        if not self.kd or "synthetic" not in given:
            return new
        graph, theirs = given["synthetic"], given["attended"]
        apart = (self.attended(params, graph).view_as(theirs) - theirs).square().mean((1, 2))
        old = self.retained(self.task.forward(params, graph), given) + apart
        return given["fresh"] * new + given["kept"] * old

    def effort(self, job: Job) -> float:
        """Count what `target` does, twice: att takes a pass of its own."""
        return 2 * super().effort(job)

    def server_flops(self, state: State, replies: Sequence[Reply], step: str) -> float:
        """Return what `target` takes, the teacher's second pass in each step and the layers of noise included."""
        total = super().server_flops(state, replies, step)
        if not self.kd or not self.ends(state, replies):
            return total
        how = self.synthesis
        once = self.task.flops(stand_in(how.batch, self.task.features, 1))
        return total + how.rounds * how.steps * (once + 6.0 * how.batch * self.anchor_size * WIDE)


def balance(known: int, total: int) -> tuple[float, float]:
    """Return the weights of the loss on new and on known classes, of which there are `known` among `total`."""
    a, s = math.log2(total / 2 + 1), (known / total) ** 0.5
    return 0.2 * (1 + 1 / a) / s, 0.4 * a * s
