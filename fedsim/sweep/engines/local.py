"""Simulate runs on this machine: in this process, or in a few workers that import torch once.

Every worker has a pipe of its own: when it dies, exactly one run is lost, and no other worker notices or
shares a lock with it.  Workers ignore Ctrl-C, which this process handles.  They end when this process ends
or the engine is closed; until then they wait for further runs, with torch imported.  GPUs are not assigned:
workers on one GPU compete for its memory.

A worker imports Python's own modules from Python alone, and everything else from where this process does:
Python would have it search the working folder first, which may hold untrusted files.
"""

import importlib
import os
import signal
import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from multiprocessing import connection, get_context, parent_process
from typing import Any

from fedsim.core.progress import BEGUN, Progress
from fedsim.scenario.schema import Point
from fedsim.sweep.engines.queue import Died, PointJob, Queue

PATIENCE = 0.1  # seconds after which a wait for the workers lets Ctrl-C through
SAFE = "PYTHONSAFEPATH"  # by which Python searches neither the working folder nor that of a script


@dataclass
class Local(AbstractContextManager["Local"]):
    """Simulate runs in `jobs` processes, with one job in this one.  A context manager: leaving it ends the workers."""

    jobs: int
    prepare: str = "fedsim.point.build.learning"  # the module that each worker imports when it starts
    _workers: "list[WorkerProcess]" = field(default_factory=list, init=False, repr=False)

    def __exit__(self, *_: object) -> None:
        """End the workers."""
        self.close()

    def start(self) -> None:
        """Start all workers, which import torch while this process does something else."""
        if self.jobs > 1:
            self._workers += [WorkerProcess(self.prepare) for _ in range(self.jobs - len(self._workers))]

    def close(self) -> None:
        """End the workers at once; further runs start new ones."""
        self._end(self._workers)

    def work(
        self, points: Sequence[Point], job: PointJob, report: Callable[[Point, Progress], None]
    ) -> Generator[tuple[Point, Any], None, None]:
        """Yield each run with what the job returned, or `Died`, as they end.

        Leaving the loop early ends the busy workers; the idle ones wait for the next call.
        """
        if self.jobs > 1:
            yield from self._in_workers(points, job, report)
            return
        for point in points:
            report(point, BEGUN)
            yield point, job(point, partial(report, point))

    def _in_workers(
        self, points: Sequence[Point], job: PointJob, report: Callable[[Point, Progress], None]
    ) -> Generator[tuple[Point, Any], None, None]:
        queue, workers = Queue(points, report), self._workers
        try:
            while queue or any(worker.point for worker in workers):
                self._end([worker for worker in workers if not (worker.point or worker.process.is_alive())])
                idle = [worker for worker in workers if not worker.point]
                while queue.ready and (idle or len(workers) < self.jobs):
                    if not idle:
                        idle = [WorkerProcess(self.prepare)]
                        workers += idle
                    point = queue.next()
                    idle.pop(0).begin(point, job)
                    report(point, BEGUN)
                connection.wait([worker.pipe for worker in workers if worker.point], PATIENCE)
                for worker in workers:
                    for point, message in worker.received():
                        if isinstance(message, Progress):
                            report(point, message)
                        else:
                            yield from queue.ended(point, message)
        finally:
            self._end([worker for worker in workers if worker.point])

    def _end(self, workers: "Sequence[WorkerProcess]") -> None:
        for worker in [*workers]:
            worker.kill()
            self._workers.remove(worker)


class WorkerProcess:
    """A process for one run at a time."""

    def __init__(self, prepare: str) -> None:
        """Start the process, which imports a module."""
        context = get_context("spawn")
        self.point: Point | None = None
        self.pipe, other = context.Pipe()
        self.process = context.Process(target=_serve, args=(prepare, other))
        with _ignoring_interrupts(), _working_folder_left_out():  # the worker inherits both
            self.process.start()
        other.close()  # only the worker holds it now, so its death is an end of file

    def begin(self, point: Point, job: PointJob) -> None:
        """Hand the run to the process."""
        self.point = point
        with suppress(OSError):  # it has just died, which `received` will notice
            self.pipe.send((job, point))

    def received(self) -> Iterator[tuple[Point, Any]]:
        """Yield the run's progress since the last call, and its result once it has ended: `Died` if its process has."""
        while point := self.point:
            try:
                if not self.pipe.poll():
                    return
                message = self.pipe.recv()
            except (EOFError, OSError):
                message = Died(self._why_it_died())
                self.process.kill()
            if not isinstance(message, Progress):
                self.point = None
            yield point, message

    def kill(self) -> None:
        """End the process at once."""
        self.process.kill()
        self.process.join()
        self.pipe.close()
        self.point = None

    def _why_it_died(self) -> str:
        self.process.join(5)
        if not (code := self.process.exitcode):
            return "its worker process ended"
        if code > 0:
            return f"its worker process ended with exit code {code}"
        name = signal.Signals(-code).name  # compared by name, since Windows has no SIGKILL
        memory = ", as the system does when memory runs out; try fewer --jobs" if name == "SIGKILL" else ""
        return f"its worker process was ended by signal {name}{memory}"


def _serve(module: str, pipe: "connection.Connection[Any, Any]") -> None:
    """Simulate the runs that come through the pipe, and send back their progress and results."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    importlib.import_module(module)
    with suppress(EOFError):  # at the end of the parent
        while True:
            job, point = pipe.recv()
            pipe.send(job(point, pipe.send))


def _end_with_parent() -> None:
    parent = parent_process()
    if parent is not None:
        connection.wait([parent.sentinel])
        os._exit(1)


@contextmanager
def _ignoring_interrupts() -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def _working_folder_left_out() -> Iterator[None]:
    """Have the Python processes that start meanwhile, multiprocessing's own among them, not search the working folder.

    They do so before they get the path of this process, which then replaces theirs.
    """
    before = {name: value for name, value in os.environ.items() if name == SAFE}
    os.environ[SAFE] = "1"
    try:
        yield
    finally:
        del os.environ[SAFE]
        os.environ.update(before)
