"""What tests of methods of one exchange share: clients of few classes each, and an exchange by hand."""

import torch
from contexts import within

from fedsim.core import wire
from fedsim.data.graph import graph_of, with_masks
from fedsim.learn.algorithm import Job, Reply
from fedsim.learn.engine import tree
from fedsim.learn.engine.cohort import JobQueue
from fedsim.learn.engine.optimiser import Adam
from fedsim.learn.engine.training import Trainer
from fedsim.learn.models.gcn import GCN
from fedsim.learn.task import bind as bind_task
from fedsim.learn.tasks.node_classification import NodeClassification

FEATURES, CLASSES = 12, 4
NUMBERS = FEATURES * 8 + 8 + 8 * CLASSES + CLASSES  # of GCN(hidden=8)


def made(algorithm, seed=0, task=None, model=None):
    own = algorithm.backbone(model or GCN(hidden=8, dropout=0.0))
    return within(
        algorithm, bind_task(task or NodeClassification(), own, FEATURES, CLASSES, seed, "cpu"), local_steps=30
    )


def of_classes(labels, seed, n=40, noise=1.0, train=0.5, apart=(3, 2)):
    """Nodes of these classes in turn, joined within their class; each has features of its own that stand out."""
    g = torch.Generator().manual_seed(seed)
    y = torch.tensor(labels)[torch.arange(n) % len(labels)]
    x = noise * torch.randn(n, FEATURES, generator=g)
    x[torch.arange(n), apart[0] * y] += apart[1]
    target = (torch.arange(n) + len(labels) * torch.randint(1, 4, (n,), generator=g)) % n
    ends = torch.stack([torch.cat([torch.arange(n), target]), torch.cat([target, torch.arange(n)])])
    part = torch.rand(n, generator=g)
    return graph_of(x, ends, y, part < train, (part >= train) & (part < 0.75), part >= 0.75)


def skewed(seed):
    """Clients of two classes each, and a graph of all classes to be tested on."""
    pairs = ([0, 1], [1, 2], [2, 3], [3, 0])
    graphs = {c: of_classes(labels, 100 * seed + c) for c, labels in enumerate(pairs)}
    return graphs, of_classes([0, 1, 2, 3], 100 * seed + 50, n=400)


def relabelled(data):
    """The same graph with other labels wherever it is not trained."""
    y = torch.where(data["train"], data["y"], (data["y"] + 1) % CLASSES)
    return with_masks(graph_of(data["x"], data["edges"], y), data["train"], data["val"], data["test"])


def without_training(data):
    """The same graph without a training node."""
    return with_masks(data, torch.zeros_like(data["train"]), data["val"], data["test"])


def easy(seed, n=45, train=0.5, classes=(0, 1, 2)):
    """Nodes of classes that lie far apart, joined within."""
    return of_classes(classes, seed, n, 0.4, train, apart=(4, 3))


def asked(algorithm, graphs, memories=None, steps=3, seed=0, lr=0.005, decay=4e-4):
    """What the clients of these graphs reply with, and their memories."""
    memories = dict(memories or {})
    cohort = JobQueue(algorithm, Trainer(Adam(lr, decay), steps))
    return replied(algorithm, algorithm.start(), dict(enumerate(graphs)), memories, "train", cohort, seed), memories


def exchanged(algorithm, state, graphs, memories, step, steps=20, lr=0.02, seed=0, period=0):
    """Go through one exchange with these clients: the new state, and the replies; `memories` are filled."""
    cohort = JobQueue(algorithm, Trainer(Adam(lr), steps))
    replies = replied(algorithm, state, graphs, memories, step, cohort, seed, period)
    return algorithm.update(state, replies, step), replies


def replied(algorithm, state, graphs, memories, step, cohort, seed, period=0):
    """What these clients reply with; `memories` are filled."""
    jobs = [
        Job(c, step, period, algorithm.download(state, c, step), data, dict(memories.get(c, {})), 1000 * seed + c)
        for c, data in graphs.items()
    ]
    promises = [cohort.submit(job) for job in jobs]
    assert all(wire.size(promise.value()) == promise.nbytes for promise in promises)
    memories |= {job.client: promise.memory() for job, promise in zip(jobs, promises, strict=True)}
    return [Reply(j.client, 0, j.download, p.value()) for j, p in zip(jobs, promises, strict=True)]


def one_round(algorithm, graphs, memories=None, state=None, **options):
    """Go through all exchanges of a round: the state, and the replies of each exchange."""
    state, memories, history = state or algorithm.start(), {} if memories is None else memories, []
    for number, step in enumerate(algorithm.steps(state)):
        own = {**options, "seed": options.get("seed", 0) * 100 + number}
        state, replies = exchanged(algorithm, state, graphs, memories, step, **own)
        history.append((step, replies))
    return state, history


def accuracy(algorithm, model, data):
    """What one model reaches on all nodes of a graph."""
    output = algorithm.task.forward(tree.stack([model]), data)
    return float((output.argmax(1) == data["y"]).float().mean())
