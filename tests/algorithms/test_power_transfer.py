"""What POWER's server step is for: a class that only one client has met, and that averaging drowns."""

import pytest
import torch
from contexts import within
from learnlab import drawn_task

from algorithms.fedavg import FedAvg
from algorithms.power import Power
from fedsim.data.graph import graph_of
from fedsim.learn.algorithm import Job, Reply
from fedsim.learn.engine import tree
from fedsim.learn.engine.cohort import JobQueue
from fedsim.learn.engine.optimiser import Adam
from fedsim.learn.engine.training import Trainer
from fedsim.learn.models.gcn import GCN

CLIENTS, FEATURES, RARE = 8, 16, 2
CENTRES = torch.randn(3, FEATURES, generator=torch.Generator().manual_seed(7))


def clusters(classes, seed, n=40):
    """Nodes of these classes around the centres of all clients, in two circles of like ones."""
    g = torch.Generator().manual_seed(seed)
    y = torch.tensor(classes)[torch.arange(n) % len(classes)]
    x = CENTRES[y] + torch.randn(n, FEATURES, generator=g)
    near = torch.arange(n)
    near = torch.stack([near, (near + len(classes)) % n])
    train = torch.arange(n) < n // 2
    return graph_of(x, torch.cat([near, near.flip(0)], 1), y, train, ~train, ~train)


def recalled(algorithm, seed, rounds=4):
    """Train federated, the first client alone having the rare class; return the global model's accuracy on it."""
    task = drawn_task(GCN(hidden=16), FEATURES, 3, seed)
    algorithm = within(algorithm, task)
    graphs = {c: clusters([0, RARE] if c == 0 else [0, 1], 100 * seed + c) for c in range(CLIENTS)}
    memories, state = {c: {} for c in graphs}, algorithm.start()
    for number in range(rounds):
        replies = []
        for client, data in graphs.items():
            download = algorithm.download(state, client, "train")
            job = Job(client, "train", 0, download, data, dict(memories[client]), 1000 * seed + 10 * number + client)
            promise = JobQueue(algorithm, Trainer(Adam(0.01, 5e-4), 3)).submit(job)
            replies.append(Reply(client, number, download, promise.value()))
            memories[client] = promise.memory()
        state = algorithm.update(state, replies, "train")
    unseen = clusters([0, 1, RARE], 100 * seed + 99, 300)
    guess = task.forward(tree.stack([state["model"]]), unseen).argmax(1)
    right = guess == unseen["y"]
    return float(right[unseen["y"] == RARE].float().mean()), float(right[unseen["y"] != RARE].float().mean())


@pytest.mark.long
@pytest.mark.parametrize("preset", ["paper", "official"])
def test_the_server_step_recovers_a_class_that_only_one_client_knows(preset):
    """Over four seeds averaging knows it in under half of its nodes, the taught model in nine of ten."""
    averaged = [recalled(FedAvg(), seed) for seed in range(4)]
    taught = [recalled(Power(preset=preset, replay=False, server_epochs=10), seed) for seed in range(4)]
    assert sum(rare for rare, _ in averaged) / 4 < 0.5
    assert sum(rare for rare, _ in taught) / 4 > 0.9
    assert all(rare > 0.75 for rare, _ in taught)
    assert min(common for _, common in taught) > 0.9
