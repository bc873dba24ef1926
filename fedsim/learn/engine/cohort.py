"""The training backend: many clients' fits in one call, as late as possible.

A submitted job is only queued.  When a value is needed, all pending jobs run at once: their generators advance
together, their fits are grouped by loss and shapes, and each group is one computation (`training.train`).  Five rules
make that invisible:

1. A job sees the download, the data and the memory of the moment it was submitted.
2. An upload's size comes from `upload_like` if declared, and is checked against the upload when the job settles.
3. A client's next job settles its last one first, since it may read the memory.
4. A cancelled job has no effect; a late one is not cancelled, as the client did the work.
5. Every job has its own seed, so that grouping changes nothing beyond float rounding.

Not modelled: time; how long work takes is up to the clock.
"""

from collections.abc import Callable, Iterator, Sequence
from types import GeneratorType
from typing import Any
from weakref import WeakKeyDictionary

from fedsim.core import wire
from fedsim.core.wire import Tree
from fedsim.learn import upload_size as declared
from fedsim.learn.algorithm import Algorithm, Job, Work
from fedsim.learn.engine import layout
from fedsim.learn.engine.training import JobFit, Trainer


class JobPromise:
    """The upload of a job that may be pending (the Promise of learner/contract.py)."""

    def __init__(self, cohort: "JobQueue", job: Job, like: Tree | None) -> None:
        """Queue nothing by itself: `JobQueue.submit` does."""
        self._cohort = cohort
        self.job = job
        self.like = like
        self.declared = None if like is None else cohort.sizes.of(like)
        self._value: Tree = None
        self._done = False

    @property
    def nbytes(self) -> int:
        """The upload's encoded size; settles where the algorithm does not declare it."""
        if self.declared is None:
            self.declared = wire.size(self.value())
        return self.declared

    def value(self) -> Tree:
        """Return the upload, after training whatever is pending.

        Raises ValueError where its size is not the declared one.
        """
        if not self._done:
            self._cohort.settle()
        return self._value

    def memory(self) -> dict[str, Any]:
        """Return the client's memory as this job leaves it."""
        self.value()
        return self.job.memory

    def done(self) -> bool:
        """Return whether the job has been trained."""
        return self._done

    def cancel(self) -> None:
        """Forget the job: training was interrupted."""
        self._cohort.drop(self)

    def fill(self, upload: Tree) -> None:
        """Take the finished upload, checking its size against the declared one."""
        if self.declared is not None and wire.size(upload) != self.declared:
            raise ValueError(declared.mismatch(self._cohort._algorithm, self.job, self.like, upload))
        self._value, self._done, self.like = upload, True, upload


class JobQueue:
    """Queues jobs and settles them; `batch` False runs the same jobs one by one."""

    def __init__(self, algorithm: Algorithm, trainer: Trainer, *, batch: bool = True) -> None:
        """Serve one algorithm with one trainer."""
        self._algorithm = algorithm
        self.trainer = trainer
        self._batch = batch
        self._pending: list[JobPromise] = []
        kind = type(algorithm)
        self._bills = kind.effort is not Algorithm.effort or kind.extra_steps is not Algorithm.extra_steps
        self.sizes = wire.Sizes()  # of what pending jobs declare, most of them the same model
        # of a step, and how many times as much a pass over the whole graph takes
        self._step_flops: WeakKeyDictionary[layout.GraphLayout, tuple[float, float]] = WeakKeyDictionary()

    def submit(self, job: Job) -> JobPromise:
        """Queue a job and return its promise."""
        promise = JobPromise(self, job, self._algorithm.upload_like(job))
        self._pending.append(promise)
        return promise

    def flops(self, job: Job) -> float:
        """Return the operations that the job takes on the client: none where its graph has no node."""
        derived = layout.of(job.data)
        known = self._step_flops.get(derived)
        if known is None:
            whole = self._algorithm.task.flops(job.data)
            once = self.trainer.step_flops(whole, self._algorithm.task, job.data)
            known = self._step_flops[derived] = once, whole / once if once else 0.0
        once, larger = known
        if once == 0:  # algorithms tell what else they do in such steps
            return 0.0
        steps: float = self.trainer.local_steps
        if self._bills:  # what they do beside training takes the whole graph
            steps = steps * self._algorithm.effort(job) + self._algorithm.extra_steps(job) * larger
        return once * steps

    def drop(self, promise: JobPromise) -> None:
        """Remove a job that has not been trained yet; one that has been keeps its value, which nobody will read."""
        if promise in self._pending:
            self._pending.remove(promise)

    @property
    def pending(self) -> list[JobPromise]:
        """The jobs that nobody has trained yet, in order."""
        return [*self._pending]

    def settled(self, job: Job, upload: Tree) -> JobPromise:
        """Return the promise of a job that a checkpoint holds as trained."""
        promise = JobPromise(self, job, None)
        promise.fill(upload)
        return promise

    def settle(self) -> None:
        """Train everything pending."""
        pending, self._pending, self.sizes = self._pending, [], wire.Sizes()
        for batch in [pending] if self._batch else [[promise] for promise in pending]:
            jobs = [promise.job for promise in batch]
            for place, upload in side_by_side(self._algorithm, jobs, self.trainer.train):
                batch[place].fill(upload)


def side_by_side(
    algorithm: Algorithm, jobs: Sequence[Job], train: Callable[[Sequence[JobFit]], Sequence[Tree]]
) -> Iterator[tuple[int, Tree]]:
    """Run the jobs' scripts, training together what they ask for at the same time.

    Yields the place of each job among these, and its upload, as it ends.
    """
    waiting: list[tuple[int, Work, Tree]] = []  # places, scripts, and what each is sent next
    for place, job in enumerate(jobs):
        script = algorithm.work(job)
        if type(script) is GeneratorType:
            waiting.append((place, script, None))
        else:
            yield place, script
    while waiting:
        asked = []
        for place, script, params in waiting:
            try:
                asked.append((place, script, script.send(params)))
            except StopIteration as stop:
                yield place, stop.value
        fits = [(jobs[place], fit) for place, _, fit in asked]
        trained = train(fits) if fits else []
        waiting = [(place, script, params) for (place, script, _), params in zip(asked, trained, strict=True)]
