"""Data-free synthesis: feature vectors that a trained model takes for nodes of given classes.

A generator of features, an MLP with batch normalisation, is trained by what the frozen model, the teacher, says of its
output:

    L = λ CE(teacher(x), y) − λ_adv · mean of KL(teacher ‖ student) where both name the same class + extra(x, y)

so that x looks like class y to the teacher and unlike anything that the student has learned yet.  Each round trains for
some steps and keeps the batch of the least loss; once the warm-up is over the student is distilled on all batches kept.
Used by TARGET (first-order meta-learning: a copy of the generator is trained in each round, and the generator takes one
step along the sum of the copy's gradients; Fang et al., AAAI 2022) and LANDER (a new noisy layer in each round; Tran et
al., CVPR 2024).

Nodes are isolated: no edges are generated.  Not modelled: the statistics of batch normalisation in the teacher,
which graph models here lack, and augmentation, both of which the methods for images use.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import torch
import torch.nn.functional as F
from torch import Generator, Tensor

from fedsim.core.wire import Tree
from fedsim.data.graph import Graph, graph_of
from fedsim.learn.engine import ops, tree
from fedsim.learn.engine.optimiser import SGD, OptimiserState, descend
from fedsim.learn.layers import dense
from fedsim.learn.model import Parameters
from fedsim.learn.synthetic.pseudo_graphs import stand_in
from fedsim.learn.task import Task

BETAS = (0.5, 0.999)  # of every Adam here
SLOPE = 0.2  # of the leaky rectifier
STUDENT = SGD(0.2, weight_decay=1e-4, momentum=0.9)  # as published for TARGET
TEMPERATURE = 20.0  # of the student's distillation
Extra = Callable[[Tensor, Tensor], Tensor]  # a further loss of features (n, F) and labels (n,)


@dataclass(frozen=True)
class Synthesis:
    """How much is generated, and by how many steps; the defaults are our reduction of the published settings."""

    rounds: int = 10
    steps: int = 10  # of the generator in a round
    batch: int = 256  # nodes of a round
    warm_up: int = 5  # rounds before the student is trained and opposed
    student_steps: int = 50  # in each round after that
    student: SGD = STUDENT  # whose moments are kept from round to round
    lr: float = 2e-3  # of the generator
    noise_lr: float = 1e-2  # of its input, where that is trained
    agree: float = 0.5  # λ, weight of the cross-entropy
    oppose: float = 1.0  # λ_adv
    first_kept: int = 0  # the first round whose batch is kept
    oppose_after: int = 0  # rounds between the end of the warm-up and the first opposition

    @property
    def size(self) -> int:
        """The nodes that are kept."""
        return self.batch * (self.rounds - self.first_kept)

    def flops(self, task: Task, widths: Sequence[int]) -> float:
        """Return the operations of a whole synthesis: a bound that depends on no value."""
        once = task.flops(stand_in(self.batch, task.features, 1))
        drawing = 6.0 * self.batch * sum(a * b for a, b in pairwise(widths))
        taught = max(0, self.rounds - self.warm_up)
        opposed = max(0, taught - self.oppose_after)
        distilling = taught * self.student_steps * once * 4 / 3
        return self.rounds * self.steps * (once + drawing) + opposed * self.steps * once + distilling


def nodes(x: Tensor) -> Graph:
    """Return isolated nodes with these features (n, F), through which gradients pass, all of label 0."""
    y = torch.zeros(len(x), dtype=torch.long, device=x.device)
    none = torch.zeros(2, 0, dtype=torch.long, device=x.device)
    return graph_of(x, none, y, torch.ones_like(y, dtype=torch.bool))


def generator(widths: Sequence[int], drawn: Generator) -> Parameters:
    """Return first parameters on the CPU: layers between these widths, and a scale and shift of all hidden ones."""
    params = dense.layers(widths, drawn)
    for i, width in enumerate(widths[1:-1], 1):
        params[f"layer{i}"] |= {"scale": torch.ones(width), "shift": torch.zeros(width)}
    return params


def features(params: Parameters, h: Tensor, binary: bool) -> Tensor:
    """Return features (n, F) for inputs h (n, ·), normalised over the n rows; between 0 and 1 for binary ones."""
    for i in range(1, len(params)):
        layer = params[f"layer{i}"]
        h = F.leaky_relu(hidden(layer, torch.addmm(layer["bias"], h, layer["weight"])), SLOPE)
    last = params[f"layer{len(params)}"]
    x = torch.addmm(last["bias"], h, last["weight"])
    return torch.sigmoid(x) if binary else x


def hidden(layer: Mapping[str, Tensor], h: Tensor) -> Tensor:
    """Return h (n, H) normalised, times the layer's scale, plus its shift."""
    return normalised(h) * layer["scale"] + layer["shift"]


def normalised(h: Tensor) -> Tensor:
    """Return h (n, H) with mean 0 and variance 1 in every column; a single row becomes zero."""
    return (h - h.mean(0)) / ops.root(h.var(0, unbiased=False) + 1e-5)


@dataclass
class Inversion:
    """One synthesis: a teacher, a student, the batches kept."""

    task: Task
    how: Synthesis
    teacher: Parameters  # with a client axis of one
    student: Parameters
    extra: Extra | None = None  # beside the loss of above
    taught: Callable[[Parameters, Graph], Tensor] | None = None  # a further loss of the student
    batches: list[Tensor] = field(default_factory=list)
    labels: list[Tensor] = field(default_factory=list)  # that each batch was drawn for
    moments: OptimiserState | None = None  # of the student's optimiser

    def loss(self, x: Tensor, y: Tensor, number: int) -> Tensor:
        """Return the generator's loss in round `number`."""
        said = self.task.forward(self.teacher, nodes(x))
        total = self.how.agree * F.cross_entropy(said, y)
        if number >= self.how.warm_up + self.how.oppose_after and self.how.oppose:
            student = self.task.forward(tree.stack([self.student]), nodes(x))
            same = (student.argmax(1) == said.argmax(1)).to(x.dtype)
            apart = F.kl_div(F.log_softmax(student, 1), F.softmax(said, 1), reduction="none").sum(1)
            total = total - self.how.oppose * (apart * same).mean()
        return total if self.extra is None else total + self.extra(x, y)

    def train(
        self, draw: Callable[[], Tensor], y: Tensor, groups: list[dict[str, Any]], number: int
    ) -> list[list[Tensor]]:
        """Train the leaves of `groups` (each with its rate), keep the best batch, and return each step's gradients."""
        leaves = [leaf for group in groups for leaf in group["params"]]
        optimiser = torch.optim.Adam(groups, betas=BETAS, fused=True)  # its roots are alike everywhere
        best, least, slopes = None, torch.inf, []
        for _ in range(self.how.steps):
            x = draw()
            loss = self.loss(x, y, number)
            if best is None or float(loss.detach()) < least:
                best, least = x.detach(), float(loss.detach())
            grads = torch.autograd.grad(loss, leaves, materialize_grads=True)
            for leaf, grad in zip(leaves, grads, strict=True):
                leaf.grad = grad
            optimiser.step()
            slopes.append(list(grads))
        if best is not None and number >= self.how.first_kept:
            self.batches.append(best)
            self.labels.append(y)
        if number >= self.how.warm_up and self.batches:
            self._distil()
        return slopes

    def synthetic(self, source: Parameters) -> Tree:
        """Return the nodes x (n, F) that are kept, the labels y (n,) that they were drawn for, and the generator."""
        generator = tree.transform(torch.detach, source)
        return {"x": torch.cat(self.batches), "y": torch.cat(self.labels), "generator": generator}

    def _distil(self) -> None:
        """Train the student on all batches kept, by SGD on the divergence at a high temperature."""
        graph = nodes(torch.cat(self.batches))
        with torch.no_grad():
            said = F.softmax(self.task.forward(self.teacher, graph) / TEMPERATURE, 1)

        def loss(params: Parameters, step: int) -> Tensor:
            student = F.log_softmax(self.task.forward(params, graph) / TEMPERATURE, 1)
            apart = F.kl_div(student, said, reduction="batchmean") * TEMPERATURE**2
            return apart if self.taught is None else apart + self.taught(params, graph)

        how = self.how
        self.student, self.moments = descend(self.student, loss, how.student, how.student_steps, self.moments)


def labels(classes: Tensor, count: int, drawn: Generator) -> Tensor:
    """Return `count` labels of these classes (C,), marked, each drawn uniformly (n,), on the CPU."""
    held = classes.nonzero().squeeze(1).cpu()
    return held[torch.randint(len(held), (count,), generator=drawn)]


def balanced(classes: Tensor, count: int) -> Tensor:
    """Return `count` labels of these classes (C,), marked, in turn (n,), on the CPU."""
    held = classes.nonzero().squeeze(1).cpu()
    return held[torch.arange(count) % len(held)]
