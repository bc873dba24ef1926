"""A warning where an algorithm computes more than it bills: simulated time would be too short.

A client's job is billed `local_steps` times `effort` plus `extra_steps` training steps, an update `server_flops`.
Both are held against the operations of torch that they run (`operations.py`); a training step against one that is
counted in the same way.  Estimates may be rough, so only what is far off is reported.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from fedsim.data.graph import Graph
from fedsim.learn.algorithm import Fit, Job
from fedsim.learn.training import Trainer
from fedsim.trial import places
from fedsim.trial.finding import Finding, warning
from fedsim.trial.operations import Operations
from fedsim.trial.play import Play, Work, play
from fedsim.trial.trial import Trial
from fedsim.trial.watch import Given, Watch

FACTOR, STEPS = 2.5, 1.0  # a job may take so many times what it bills, and so many steps more
SERVER_FACTOR = 10.0


@dataclass
class Counting(Watch):
    """Counts the operations of every job's work, without and with its training, and of every update."""

    author: places.Author
    works: list[Operations] = field(default_factory=list)
    trainings: list[list[Operations]] = field(default_factory=list)
    updates: list[Operations] = field(default_factory=list)

    @contextmanager
    def call(self, name: str, given: Given) -> Iterator[None]:
        """See `Watch.call`."""
        if name not in ("work", "train", "update"):
            yield
            return
        counted = Operations(self.author)
        if name == "work":
            self.works.append(counted)
            self.trainings.append([])
        elif name == "train":
            self.trainings[-1].append(counted)
        else:
            self.updates.append(counted)
        with counted:
            yield


def check(trial: Trial) -> list[Finding]:
    """Warn of the job, of each step, and of the update that exceed their bills by most."""
    counting = Counting(trial.author)
    played = play(trial.stage.lesson(), trial.stage.trainer(), counting, batch=False)
    return [*_clients(trial, played, counting), *_server(trial, played, counting)]


def _clients(trial: Trial, played: Play, counting: Counting) -> list[Finding]:
    worst: dict[str, tuple[float, Work, Operations, Sequence[Operations]]] = {}
    unit = _Unit(trial, played)
    for work, counted, trainings in zip(played.works, counting.works, counting.trainings, strict=True):
        one = unit.of(work.job)
        total = counted.total / one if one else 0.0  # in which its training is counted too
        if total > FACTOR * work.steps + STEPS and total > worst.get(work.job.step, (0.0,))[0]:
            worst[work.job.step] = total, work, counted, trainings
    return [_job(trial, *found) for found in worst.values()]


def _job(trial: Trial, total: float, work: Work, counted: Operations, trainings: Sequence[Operations]) -> Finding:
    training = sum((inner.lines for inner in trainings), Counter[tuple[str, int]]())
    outside = counted.total > 2 * sum(inner.total for inner in trainings)
    lines = counted.lines - training if outside else training
    where = _heaviest(lines) or trial.method("work")
    return warning(
        f"work computes as much as {total:.1f} training steps (client {work.job.client}, step {work.job.step!r}), and "
        f"bills {work.steps:.1f}; most of it is {'beside' if outside else 'in'} its training",
        where,
        "bill what the job computes beside its training in extra_steps, in training steps of self.task.flops(job.data) "
        "operations, and from effort how many times longer it trains",
    )


def _server(trial: Trial, played: Play, counting: Counting) -> list[Finding]:
    over = [
        (counted.total / max(fold.flops, 1.0), fold, counted)
        for fold, counted in zip(played.folds, counting.updates, strict=True)
        if counted.total > SERVER_FACTOR * fold.flops
    ]
    if not over:
        return []
    _, fold, counted = max(over, key=lambda one: one[0])
    return [
        warning(
            f"update computes about {counted.total:.2g} operations in step {fold.step!r}, and server_flops bills "
            f"{fold.flops:.2g}",
            _heaviest(counted.lines) or trial.method("update"),
            f"override server_flops ({trial.method('server_flops')}) so that it counts what update computes",
        )
    ]


def _heaviest(lines: Counter[tuple[str, int]]) -> str:
    return places.line(*lines.most_common(1)[0][0]) if lines else ""


class _Unit:
    """What a training step of the task takes on a graph, counted once for each."""

    def __init__(self, trial: Trial, played: Play) -> None:
        self._trial, self._task = trial, played.lesson.task
        self._known: dict[int, float] = {}

    def of(self, job: Job) -> float:
        """Return the operations of one step, 0 where the client has nothing to train on."""
        if id(job.data) not in self._known:
            fit = Fit(start=self._task.init(), loss=self._loss, slot=None)
            trainer = Trainer(self._trial.stage.trainer().optimiser, 1)
            trainer.train([(job, fit)])  # the first time matrices are derived from the graph
            with Operations(self._trial.author) as counted:
                trainer.train([(job, fit)])
            self._known[id(job.data)] = counted.total if self._task.flops(job.data) else 0.0
        return self._known[id(job.data)]

    def _loss(self, params: Any, data: Graph, given: Any) -> Any:
        return self._task.loss(params, data)
