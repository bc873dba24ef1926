"""Rounds of an algorithm without a network: every call that a run makes of it, in the order in which a run makes it.

The clock is not modelled: all who are asked reply, at once.  A `Watch` looks on.
"""

import sys
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
import torch

from fedsim import seeds
from fedsim.algorithm import Fit, Job, Reply, State
from fedsim.learn.training import Trainer
from fedsim.net.wire import Tree
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
        self.state = self.made.first = self._call("start", self.algorithm.start, {})

    def round(self, number: int, clients: Sequence[int], period: int) -> None:
        own, given = self.algorithm, {("state", ""): self.state}
        waiting = list(self._call("steps", lambda: own.steps(self.state), given))
        while waiting:
            step = waiting.pop(0)
            self._exchange(number, clients, period, step)
            given = {("state", ""): self.state}
            waiting = [*self._call("more", lambda step=step: own.more(self.state, step), given), *waiting]
        given = {("state", ""): self.state}
        self._call("common", lambda: own.common(self.state), given)
        for client in clients:
            memory = self.memories.get(client, {})
            seen = {**given, ("memory", f" of client {client}"): memory}
            for name in ("predictor", "personal"):
                method = getattr(own, name)
                self._call(name, lambda method=method, c=client, m=memory: method(self.state, c, m), seen)

    def _exchange(self, number: int, clients: Sequence[int], period: int, step: str) -> None:
        own, state = self.algorithm, self.state
        works = [self._ask(number, client, period, step) for client in clients]
        for group in [works] if self.batch else [[work] for work in works]:
            given = {key: value for work in group for key, value in _seen(work.job).items()}
            self._call("work", lambda group=group: self._work(group), given, group)
        for work in works:
            self.memories[work.job.client] = work.job.memory
        self.made.works += works
        replies = [Reply(w.job.client, number, w.job.download, w.upload) for w in works]
        given = {("state", ""): state}
        for reply in replies:
            given |= {("reply.upload", f" of client {reply.client}"): reply.upload}
        flops = self._call("server_flops", lambda: own.server_flops(state, replies, step), given)
        self.state = self._call("update", lambda: own.update(state, replies, step), given, step)
        self.made.folds.append(Fold(step, number, replies, flops, self.state))

    def _ask(self, number: int, client: int, period: int, step: str) -> Work:
        own, given = self.algorithm, {("state", ""): self.state}
        download = self._call("download", lambda: own.download(self.state, client, step), given)
        data = self.lesson.periods[client][min(period, len(self.lesson.periods[client]) - 1)].graph
        seed, self.jobs = seeds.integer(0, "job", client, self.jobs), self.jobs + 1
        job = Job(client, step, period, download, data, dict(self.memories.get(client, {})), seed)
        seen = _seen(job)
        declared = self._call("upload_like", lambda: own.upload_like(job), seen)
        effort = self._call("effort", lambda: own.effort(job), seen)
        extra = self._call("extra_steps", lambda: own.extra_steps(job), seen)
        return Work(job, number, declared, self.trainer.local_steps * effort + extra)

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
            trained = self._call("train", lambda wanted=wanted: self.trainer.train(wanted), {})
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

    def _call(self, name: str, function: Callable[[], T], given: Given, about: Any = None) -> T:
        with self.watch.call(name, {**given, **_kept(self.algorithm)}, about):
            return function()


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
