"""Play rounds of an algorithm without a network: every call that a run makes of it, in the order of a run.

Time is not modelled: all who are asked reply, at once.  An observer surrounds each call, as `Recording.call`
does.
"""

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
import torch

from fedsim.core import seeds
from fedsim.core.wire import Tree
from fedsim.learn.algorithm import Fit, Job, Reply, State
from fedsim.learn.engine.cohort import side_by_side
from fedsim.learn.engine.training import JobFit, Trainer
from fedsim.point.build.learning import LearningSetup
from fedsim.trial import trees
from fedsim.trial.stage import ROUNDS

T = TypeVar("T")
CallArguments = Mapping[tuple[str, str], Any]  # arguments by name and owner (" of client 2", or "")
CallContext = Callable[[str, CallArguments], AbstractContextManager[None]]  # surrounds the call of a method


@dataclass
class PlayedJob:
    """A job, the upload that it declares, and what it trains and sends."""

    job: Job
    number: int  # of its round, from 0
    declared: Tree | None
    fits: list[Fit] = field(default_factory=list)
    trained: list[Tree] = field(default_factory=list)
    upload: Tree = None


@dataclass
class Fold:
    """An update: the works whose uploads it aggregates, and the state that it returns."""

    step: str
    number: int  # of its round
    works: Sequence[PlayedJob]
    state: State


@dataclass
class Play:
    """All that has happened."""

    first: State
    works: list[PlayedJob] = field(default_factory=list)
    folds: list[Fold] = field(default_factory=list)

    def results(self) -> Iterator[tuple[str, str, Tree]]:
        """Yield each state, download and upload: in words, with {} for a path in it, its method, and its value."""
        yield "the first state{}", "start", self.first
        for fold in self.folds:
            when = f"step {fold.step!r} of round {fold.number + 1}"
            for work in fold.works:
                yield f"the download{{}} of client {work.job.client} in {when}", "download", work.job.download
                yield f"the upload{{}} of client {work.job.client} in {when}", "work", work.upload
            yield f"the state{{}} after {when}", "update", fold.state


def play(
    setup: LearningSetup,
    trainer: Trainer,
    observe: CallContext | None = None,
    *,
    batch: bool = True,
    rounds: Sequence[Sequence[int]] = ROUNDS,
) -> Play:
    """Play these rounds, each with these clients, trained together or, without `batch`, one by one."""
    player = _Player(setup, trainer, observe or (lambda method, given: nullcontext()), batch)
    for number, clients in enumerate(rounds):
        player.round(number, clients, number * len(setup.data.periods[0]) // len(rounds))
    return player.result


@dataclass
class _Player:
    setup: LearningSetup
    trainer: Trainer
    observe: CallContext
    batch: bool
    memories: dict[int, dict[str, Any]] = field(default_factory=dict)
    jobs: int = 0

    def __post_init__(self) -> None:
        self.algorithm = self.setup.algorithm
        self.state = self._call({}, self.algorithm.start)
        self.result = Play(self.state)

    def round(self, number: int, clients: Sequence[int], period: int) -> None:
        algorithm = self.algorithm
        waiting = list(self._call(self._given(), algorithm.steps, self.state))
        while waiting:
            step = waiting.pop(0)
            self._exchange(number, clients, period, step)
            waiting = [*self._call(self._given(), algorithm.more, self.state, step), *waiting]
        self._call(self._given(), algorithm.common, self.state)
        for client in clients:
            memory = self.memories.get(client, {})
            given = {**self._given(), ("memory", f" of client {client}"): memory}
            for method in (algorithm.predictor, algorithm.personal):
                self._call(given, method, self.state, client, memory)

    def _exchange(self, number: int, clients: Sequence[int], period: int, step: str) -> None:
        works = [self._ask(number, client, period, step) for client in clients]
        for group in [works] if self.batch else [[work] for work in works]:
            given = {key: value for work in group for key, value in _parts(work.job).items()}
            self._call(given, self.work, group)
        for work in works:
            self.memories[work.job.client] = work.job.memory
        self.result.works += works
        replies = [Reply(work.job.client, number, work.job.download, work.upload) for work in works]
        uploads = {("reply.upload", f" of client {reply.client}"): reply.upload for reply in replies}
        given = {**self._given(), **uploads}
        self._call(given, self.algorithm.server_flops, self.state, replies, step)
        self.state = self._call(given, self.algorithm.update, self.state, replies, step)
        self.result.folds.append(Fold(step, number, works, self.state))

    def _ask(self, number: int, client: int, period: int, step: str) -> PlayedJob:
        algorithm = self.algorithm
        download = self._call(self._given(), algorithm.download, self.state, client, step)
        data = self.setup.data.periods[client][min(period, len(self.setup.data.periods[client]) - 1)].graph
        seed, self.jobs = seeds.integer(0, "job", client, self.jobs), self.jobs + 1
        job = Job(client, step, period, download, data, dict(self.memories.get(client, {})), seed)
        declared = self._call(_parts(job), algorithm.upload_like, job)
        if self.setup.task.flops(data):  # as in a run: a graph without a node takes no step
            self._call(_parts(job), algorithm.effort, job)
            self._call(_parts(job), algorithm.extra_steps, job)
        return PlayedJob(job, number, declared)

    def work(self, works: Sequence[PlayedJob]) -> None:
        """Do the jobs as a run does, and note what each has trained."""
        of_job = {id(work.job): work for work in works}

        def train(fits: Sequence[JobFit]) -> Sequence[Tree]:
            trained = self._call({}, self.trainer.train, fits)
            for (job, fit), params in zip(fits, trained, strict=True):
                of_job[id(job)].fits.append(fit)
                of_job[id(job)].trained.append(params)
            return trained

        for place, upload in side_by_side(self.algorithm, [work.job for work in works], train):
            works[place].upload = upload

    def _given(self) -> CallArguments:
        return {("state", ""): self.state}

    def _call(self, given: CallArguments, method: Callable[..., T], *arguments: Any) -> T:
        with self.observe(method.__name__, given):
            return method(*arguments)


def _parts(job: Job) -> CallArguments:
    # The memory's entries, in a dict of their own: the job may give itself new ones.
    parts: Mapping[str, Any] = {"job.memory": dict(job.memory), "job.download": job.download, "job.data": job.data}
    return {(name, f" of client {job.client}"): value for name, value in parts.items()}


@dataclass(frozen=True)
class Event:
    """A side effect of a call: `what` has changed, at the path inside it."""

    method: str
    what: str
    whose: str = ""
    path: str = ""


@dataclass
class Recording:
    """Record the calls that change their arguments, and those that draw global random numbers."""

    changes: list[Event] = field(default_factory=list)
    draws: list[Event] = field(default_factory=list)

    @contextmanager
    def call(self, method: str, given: CallArguments) -> Iterator[None]:
        """Surround a call of a method of the algorithm."""
        before = {key: trees.digests(value) for key, value in given.items()}
        states = {library: state() for library, state in RANDOM.items()}
        yield
        self.draws += [Event(method, library) for library, state in RANDOM.items() if state() != states[library]]
        for (what, whose), value in given.items():
            paths = trees.changed(before[what, whose], trees.digests(value))
            self.changes += [Event(method, what, whose, path) for path in paths[:1]]


def _numpy() -> bytes:
    _, keys, *rest = np.random.get_state(legacy=True)
    return np.asarray(keys).tobytes() + repr(rest).encode()


RANDOM: Mapping[str, Callable[[], Any]] = {
    "torch": lambda: torch.get_rng_state().numpy().tobytes(),
    "numpy.random": _numpy,
    "random": random.getstate,
}
