"""Rounds of an algorithm without a network: every call that a run makes of it, in the order in which a run makes it.

The clock is not modelled: all who are asked reply, at once.  A `Watch` looks on.
"""

import sys
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
import torch

from fedsim.core import seeds
from fedsim.core.wire import Tree
from fedsim.learn.algorithm import Fit, Job, Reply, State
from fedsim.learn.training import Trainer
from fedsim.trial.stage import ROUNDS, Lesson
from fedsim.trial.watch import Given, Watch

BOUND = {"task", "overview", "context"}  # what a run gives an algorithm, and looks after
CHANGEABLE = (dict, list, set, int, float, np.ndarray, torch.Tensor)  # variables of a module that may hold results
T = TypeVar("T")


@dataclass
class Work:
    """A job, what it has declared and billed before it ran, what it has trained and sent."""

    job: Job
    number: int  # of its round, from 0
    declared: Tree | None
    steps: float  # the training steps that it is billed for
    fits: list[Fit] = field(default_factory=list)
    trained: list[Tree] = field(default_factory=list)
    upload: Tree = None


@dataclass
class Fold:
    """An update: what it was made of, and what became of the state."""

    step: str
    number: int  # of its round
    replies: Sequence[Reply]
    flops: float
    state: State


@dataclass
class Play:
    """All that has happened."""

    lesson: Lesson
    first: State = field(default_factory=dict)
    works: list[Work] = field(default_factory=list)
    folds: list[Fold] = field(default_factory=list)
    trainings: list[list[tuple[Job, Fit]]] = field(default_factory=list)  # what was trained together


Spy = Callable[[Work, Fit], Fit]


def play(
    lesson: Lesson,
    trainer: Trainer,
    watch: Watch | None = None,
    *,
    batch: bool = True,
    spy: Spy | None = None,
    rounds: Sequence[Sequence[int]] = ROUNDS,
) -> Play:
    """Play these rounds, each with these clients; `spy` may replace each fit before it is trained."""
    player = _Player(lesson, trainer, watch or Watch(), batch, spy)
    player.begin()
    for number, clients in enumerate(rounds):
        player.round(number, clients, number * len(lesson.periods[0]) // len(rounds))
    return player.made


@dataclass
class _Player:
    lesson: Lesson
    trainer: Trainer
    watch: Watch
    batch: bool
    spy: Spy | None
    memories: dict[int, dict[str, Any]] = field(default_factory=dict)
    jobs: int = 0

    def __post_init__(self) -> None:
        self.algorithm, self.made = self.lesson.algorithm, Play(self.lesson)

    def begin(self) -> None:
        self.state = self.made.first = self._call({}, self.algorithm.start)

    def round(self, number: int, clients: Sequence[int], period: int) -> None:
        own = self.algorithm
        waiting = list(self._call(self._given(), own.steps, self.state))
        while waiting:
            step = waiting.pop(0)
            self._exchange(number, clients, period, step)
            waiting = [*self._call(self._given(), own.more, self.state, step), *waiting]
        self._call(self._given(), own.common, self.state)
        for client in clients:
            memory = self.memories.get(client, {})
            given = {**self._given(), ("memory", f" of client {client}"): memory}
            for method in (own.predictor, own.personal):
                self._call(given, method, self.state, client, memory)

    def _exchange(self, number: int, clients: Sequence[int], period: int, step: str) -> None:
        own = self.algorithm
        works = [self._ask(number, client, period, step) for client in clients]
        for group in [works] if self.batch else [[work] for work in works]:
            given = {key: value for work in group for key, value in _seen(work.job).items()}
            self._call(given, self._work, group, name="work")
        for work in works:
            self.memories[work.job.client] = work.job.memory
        self.made.works += works
        replies = [Reply(work.job.client, number, work.job.download, work.upload) for work in works]
        sent = {("reply.upload", f" of client {reply.client}"): reply.upload for reply in replies}
        given = {**self._given(), **sent}
        flops = self._call(given, own.server_flops, self.state, replies, step)
        self.state = self._call(given, own.update, self.state, replies, step)
        self.made.folds.append(Fold(step, number, replies, flops, self.state))

    def _ask(self, number: int, client: int, period: int, step: str) -> Work:
        own = self.algorithm
        download = self._call(self._given(), own.download, self.state, client, step)
        data = self.lesson.periods[client][min(period, len(self.lesson.periods[client]) - 1)].graph
        seed, self.jobs = seeds.integer(0, "job", client, self.jobs), self.jobs + 1
        job = Job(client, step, period, download, data, dict(self.memories.get(client, {})), seed)
        seen = _seen(job)
        declared = self._call(seen, own.upload_like, job)
        steps = 0.0
        if self.lesson.task.flops(data):  # as in a run: a graph without a vertex takes no step
            steps = self.trainer.local_steps * self._call(seen, own.effort, job) + self._call(
                seen, own.extra_steps, job
            )
        return Work(job, number, declared, steps)

    def _work(self, works: Sequence[Work]) -> None:
        """Run the jobs' scripts side by side, and train together what they ask for at the same time."""
        active: list[tuple[Work, Generator[Fit, Tree, Tree]]] = []
        for work in works:
            script = self.algorithm.work(work.job)
            if isinstance(script, Generator):
                active += self._advance(work, script, None)
            else:
                work.upload = script
        while active:
            wanted = [(work.job, self.spy(work, work.fits[-1]) if self.spy else work.fits[-1]) for work, _ in active]
            self.made.trainings.append([(work.job, work.fits[-1]) for work, _ in active])
            trained = self._call({}, self.trainer.train, wanted)
            waiting, active = active, []
            for (work, script), params in zip(waiting, trained, strict=True):
                work.trained.append(params)
                active += self._advance(work, script, params)

    def _advance(
        self, work: Work, script: Generator[Fit, Tree, Tree], params: Tree
    ) -> list[tuple[Work, Generator[Fit, Tree, Tree]]]:
        try:
            work.fits.append(script.send(params))
        except StopIteration as stop:
            work.upload = stop.value
            return []
        return [(work, script)]

    def _given(self) -> Given:
        return {("state", ""): self.state}

    def _call(self, given: Given, method: Callable[..., T], *arguments: Any, name: str = "") -> T:
        with self.watch.call(name or method.__name__, {**given, **_kept(self.algorithm)}):
            return method(*arguments)


def _seen(job: Job) -> Given:
    whose = f" of client {job.client}"
    # The memory's entries, in a dict of their own: the job may give itself new ones.
    parts: Mapping[str, Any] = {"job.memory": dict(job.memory), "job.download": job.download, "job.data": job.data}
    return {(name, whose): value for name, value in parts.items()}


def _kept(algorithm: Any) -> Given:
    """Return what an algorithm and its module hold beside the state, as it is whenever it is looked at."""
    module = sys.modules[type(algorithm).__module__]

    def own() -> dict[str, Any]:
        return {key: value for key, value in vars(algorithm).items() if key not in BOUND}

    def shared() -> dict[str, Any]:
        return {key: value for key, value in vars(module).items() if key[0] != "_" and isinstance(value, CHANGEABLE)}

    return {("self", ""): own, ("module", ""): shared}
