"""What tests of servers with a model for each client share: rounds by hand, and clients that name things their way."""

import pytest
import torch

from fedsim.core import wire
from fedsim.data.graph import graph_of
from fedsim.learn.algorithm import Job, Reply
from fedsim.learn.engine import tree
from fedsim.learn.engine.cohort import JobQueue
from fedsim.learn.engine.optimiser import Adam
from fedsim.learn.engine.training import Trainer


def rounds(algorithm, graphs, asked, seed=0, lr=0.02):
    """Run one round for each list of clients asked: the final state, the memories, and the replies of each round."""
    cohort, memories, state, history = JobQueue(algorithm, Trainer(Adam(lr), 3)), {}, algorithm.start(), []
    for number, clients in enumerate(asked):
        jobs = [
            Job(c, "train", 0, algorithm.download(state, c, "train"), graphs[c], dict(memories.get(c, {})),
                1000 * seed + 100 * number + c)
            for c in clients
        ]  # fmt: skip
        promises = [cohort.submit(job) for job in jobs]
        assert all(wire.size(promise.value()) == promise.nbytes for promise in promises)
        replies = [Reply(j.client, number, j.download, p.value()) for j, p in zip(jobs, promises, strict=True)]
        memories |= {job.client: promise.memory() for job, promise in zip(jobs, promises, strict=True)}
        state = algorithm.update(state, replies, "train")
        history.append(replies)
    return state, memories, history


def gap(one, other):
    """The largest difference between two models."""
    return max(float((a - b).abs().max()) for a, b in zip(tree.leaves(one), tree.leaves(other), strict=True))


def community(labels, seed, n=24, train=0.5):
    """Noisy clusters of nodes, joined within, that the client names by its own labels."""
    g = torch.Generator().manual_seed(seed)
    cluster = torch.arange(n) % len(labels)
    x = 1.5 * torch.randn(n, 20, generator=g)
    x[torch.arange(n), cluster] += 2
    source = torch.arange(n)
    target = (source + len(labels) * torch.randint(1, 4, (n,), generator=g)) % n
    mask = torch.rand(n, generator=g) < train
    ends = torch.stack([torch.cat([source, target]), torch.cat([target, source])])
    return graph_of(x, ends, torch.tensor(labels)[cluster], mask, ~mask, ~mask)


def accuracy(algorithm, state, memories, graphs):
    """The mean over clients of what the server would have them predict with."""
    right = []
    for client, data in graphs.items():
        params = tree.stack([algorithm.predictor(state, client, memories.get(client, {}))])
        output = algorithm.task.forward(params, data)
        right.append(float((output.argmax(1) == data["y"])[data["test"]].float().mean()))
    return sum(right) / len(right)


def moved(algorithm, client, number, samples, weight, **upload):
    """A reply whose model is the first one plus `number` everywhere."""
    start = algorithm.start()["model"]
    update = tree.transform(lambda leaf: torch.full_like(leaf, number), start)
    return Reply(client, 0, {"model": start}, {"update": update, "samples": samples, **upload}, weight)


def added(algorithm, model):
    """By how much each number of a model is above the first model's, which must be the same everywhere."""
    over = torch.cat([leaf.flatten() for leaf in tree.leaves(tree.sub(model, algorithm.start()["model"]))])
    torch.testing.assert_close(over, over[:1].expand_as(over), rtol=0, atol=1e-5)
    return float(over[0])


def check_mixing(algorithm, replies):
    """Mix with a share that is one above, at three times the weight: all that is personal moves along by 0.75.

    The replies are two clients', one above the first model and three above it.  Returns the other's share.
    """
    state = algorithm.update(algorithm.start(), replies, "train")
    other = {"model": tree.add(state["model"], tree.transform(torch.ones_like, state["model"]))}
    mixed = algorithm.mix(state, [algorithm.share(state), other], [1.0, 3.0])
    assert added(algorithm, mixed["model"]) == pytest.approx(2.75, abs=1e-5)
    assert [added(algorithm, mixed["personal"][c]) for c in range(2)] == pytest.approx([1.75, 3.75], abs=1e-5)
    assert [added(algorithm, mixed["last"][c]["model"]) for c in range(2)] == pytest.approx([1.75, 3.75], abs=1e-5)
    return other
