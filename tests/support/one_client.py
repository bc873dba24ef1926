"""What tests of replay share: periods that each bring new classes, and one client that goes through them."""

import torch

from fedsim.core import wire
from fedsim.data.graph import graph_of
from fedsim.learn.algorithm import Job, Reply
from fedsim.learn.engine.cohort import JobQueue
from fedsim.learn.engine.optimiser import Adam
from fedsim.learn.engine.training import Trainer


def of_period(classes, seed, n=24):
    """Nodes of these classes in turn, with five random features, joined at random."""
    generator = torch.Generator().manual_seed(seed)
    y = torch.tensor(classes)[torch.arange(n) % len(classes)]
    train = torch.rand(n, generator=generator) < 0.5
    x = torch.randn(n, 5, generator=generator)
    return graph_of(x, torch.randint(n, (2, 50), generator=generator), y, train, ~train, ~train)


PERIODS = [of_period([0, 1], 1), of_period([2, 3], 2), of_period([1, 4], 3)]


def lived(algorithm, periods=PERIODS, rounds=2, trainer=None):
    """Some rounds a period: states, memories after each round, uploads, and what each job is billed for."""
    cohort = JobQueue(algorithm, trainer or Trainer(Adam(0.02), 2))
    states, memories, uploads, bills = [algorithm.start()], [{}], [], []
    for number in range(rounds * len(periods)):
        period = number // rounds
        download = algorithm.download(states[-1], 0, "train")
        job = Job(0, "train", period, download, periods[period], dict(memories[-1]), number)
        bills.append((algorithm.effort(job), algorithm.extra_steps(job)))  # before the work, as hosts ask for it
        promise = cohort.submit(job)
        uploads.append(promise.value())
        assert wire.size(uploads[-1]) == promise.nbytes
        memories.append(promise.memory())
        states.append(algorithm.update(states[-1], [Reply(0, number, download, uploads[-1])], "train"))
    return states, memories, uploads, bills
