"""Snapshots in which a class loses all its edges, and federated periods over them, for the tests of FedDGL."""

import torch
from contexts import within

from fedsim.core import wire
from fedsim.data.graph import graph_of, with_keys
from fedsim.learn.algorithm import Job, Reply
from fedsim.learn.engine import tree
from fedsim.learn.engine.cohort import JobQueue
from fedsim.learn.engine.optimiser import Adam
from fedsim.learn.engine.training import Trainer
from fedsim.learn.models.gcn import GCN
from fedsim.learn.task import bind as bind_model
from fedsim.learn.tasks.node_classification import NodeClassification

CLASSES, FEATURES, HIDDEN, EACH = 3, 8, 12, 20


def bound(algorithm, model=None, seed=0, classes=CLASSES):
    model = model or GCN(hidden=HIDDEN, dropout=0.0)
    return within(algorithm, bind_model(NodeClassification(), model, FEATURES, classes, seed, "cpu"))


def stream(client, seed, lost=2, periods=2):
    """One client's snapshots: in the first every node has an edge to one of its class, later none of class `lost`."""
    g = torch.Generator().manual_seed(100 * seed + client)
    n = CLASSES * EACH
    y = torch.arange(n) % CLASSES
    x = 0.8 * torch.randn(n, FEATURES, generator=g)
    x[torch.arange(n), y] += 1.5
    source = torch.arange(n)
    target = (source + CLASSES * torch.randint(1, 4, (n,), generator=g)) % n
    edges = torch.cat([torch.stack([source, target]), torch.stack([target, source])], dim=1)
    train = torch.rand(n, generator=g) < 0.6
    number, found = {"node": 1000 * client + torch.arange(n)}, []
    for period in range(periods):
        kept = edges if period == 0 else edges[:, y[edges[0]] != lost]
        found.append(with_keys(graph_of(x, torch.unique(kept, dim=1), y, train, ~train, ~train), number))
    return found


def through(algorithm, streams, *, rounds=6, steps=5, lr=0.02, seed=0, optimiser=None, batch=True):
    """Run that many rounds of all clients on each period: the state, the memories, and every round's replies."""
    cohort = JobQueue(algorithm, Trainer(optimiser or Adam(lr), steps), batch=batch)
    memories, state, history = {}, algorithm.start(), []
    for period in range(len(streams[0])):
        for number in range(rounds):
            jobs = [
                Job(c, "train", period, algorithm.download(state, c, "train"), own[period], dict(memories.get(c, {})),
                    10**6 * seed + 1000 * period + 10 * number + c)
                for c, own in enumerate(streams)
            ]  # fmt: skip
            promises = [cohort.submit(job) for job in jobs]
            assert all(wire.size(promise.value()) == promise.nbytes for promise in promises)
            replies = [Reply(j.client, 0, j.download, p.value()) for j, p in zip(jobs, promises, strict=True)]
            memories |= {job.client: promise.memory() for job, promise in zip(jobs, promises, strict=True)}
            state = algorithm.update(state, replies, "train")
            history.append(replies)
    return state, memories, history


def recall(algorithm, state, memories, streams, label=2):
    """The mean over clients of how many of the last snapshot's test nodes of that class their models recall."""
    found = []
    for client, own in enumerate(streams):
        params = tree.stack([algorithm.predictor(state, client, memories[client])])
        asked = own[-1]["test"] & (own[-1]["y"] == label)
        found.append(float((algorithm.task.forward(params, own[-1])[asked].argmax(1) == label).float().mean()))
    return sum(found) / len(found)
