"""What tests of methods that distil past classes share: two tasks of two Gaussian classes, one after the other."""

from dataclasses import dataclass

import torch
from contexts import within

from fedsim.data.graph import graph_of
from fedsim.learn.engine import tree
from fedsim.learn.engine.optimiser import Adam, descend
from fedsim.learn.models.mlp import MLP
from fedsim.learn.synthetic import inversion
from fedsim.learn.task import bind as bind_task
from fedsim.learn.tasks.node_classification import NodeClassification

FEATURES, CLASSES = 16, 4


@dataclass(frozen=True)
class Tanh(MLP):
    """One hidden layer of tanh units."""

    def embed(self, params, graph):
        return torch.tanh(self.layer(params["layer1"], graph["x"], graph))


def made(of, seed=0, width=4, **options):
    """The algorithm with a narrow model, on whose width forgetting depends."""
    task = bind_task(NodeClassification(), Tanh(hidden=width, dropout=0.0), FEATURES, CLASSES, seed, "cpu")
    return within(of(**options), task)


def gaussians(classes, seed, each=60):
    """Isolated nodes of these classes: unit noise about means that depend on the seed."""
    means = 0.75 * torch.randn(CLASSES, FEATURES, generator=torch.Generator().manual_seed(seed))
    drawn = torch.Generator().manual_seed(1000 + seed + 10 * sum(classes))
    y = torch.tensor(classes).repeat_interleave(each)
    x = means[y] + torch.randn(len(y), FEATURES, generator=drawn)
    return graph_of(x, torch.zeros(2, 0), y, torch.ones(len(y), dtype=torch.bool))


def marks(*classes):
    found = torch.zeros(1, CLASSES, dtype=torch.bool)
    found[0, list(classes)] = True
    return found


def learned(own, start, graph, given, steps=500):
    return descend(start, lambda params, step: own.loss(params, graph, given), Adam(0.05), steps)[0]


def retained(own, seed, extra=lambda own, graph: {}, further=lambda given: given):
    """The accuracy on the first two classes, among these, after learning the others with true old features."""
    old, new = gaussians([0, 1], seed), gaussians([2, 3], seed)
    common = extra(own, old)
    teacher = learned(own, own.start()["model"], old, {"current": marks(0, 1), **common})
    graph = inversion.nodes(old["x"])
    said = {key: value.unsqueeze(0) for key, value in own.said(tree.stack([teacher]), graph, marks(0, 1)[0]).items()}
    given = {"current": marks(2, 3), "known": marks(0, 1), "synthetic": graph, **said, **common}
    model = learned(own, teacher, new, further(given))
    logits = own.task.forward(tree.stack([model]), old)
    return float((logits[:, :2].argmax(1) == old["y"]).float().mean())
