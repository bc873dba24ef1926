"""Run points on this machine: in this process, or in a few workers that import torch once.

Every worker is a pool of one with its own pipe: when it dies, exactly one point is lost, and no other worker notices or
shares a lock with it.  Workers ignore Ctrl-C, which this process handles.  They end when this process ends or the
engine is closed; until then they wait for further points, with torch imported.  GPUs are not assigned: workers on one
GPU compete for its memory.

A worker imports Python's own modules from Python alone, and everything else from where this process does: Python would
have it search the working folder first, which may be a stranger's.
"""

import importlib
import os
import signal
import threading
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing import connection, get_context, parent_process
from multiprocessing.process import BaseProcess
from typing import Any, Self

from fedsim.core.progress import Progress
from fedsim.scenario.schema import Point
from fedsim.sweep.engines.queue import Died, Queue

Report = Callable[[Progress], None]
Job = Callable[[Point, Report], Any]  # module-level, or a partial of such: it travels to the workers
PATIENCE = 0.1  # seconds between two polls of the workers
REPORT_EVERY = 0.2  # seconds between two reports of a worker
SAFE = "PYTHONSAFEPATH"  # by which Python searches neither the working folder nor that of a script


@dataclass
class Local:
    """Run points in `jobs` processes, with one job in this one.  A context manager: leaving it ends the workers."""

    jobs: int
    prepare: str = "fedsim.point.run"  # the module that each worker imports before its first point
    _slots: "list[Slot]" = field(default_factory=list, init=False, repr=False)

    def __enter__(self) -> Self:
        """Start nothing yet; workers start when points need them."""
        return self

    def __exit__(self, *_: object) -> None:
        """End the workers."""
        self.close()

    def close(self) -> None:
        """End the workers at once; further points start new ones."""
        for slot in self._slots:
            slot.kill()
        self._slots.clear()

    def work(
        self, points: Sequence[Point], job: Job, report: Callable[[Point, Progress], None]
    ) -> Generator[tuple[Point, Any], None, None]:
        """Yield each point with what the job returned, or `Died`, as they end.

        Leaving the loop early ends the busy workers; the idle ones wait for the next call.
        """
        return self._here(points, job, report) if self.jobs == 1 else self._pool(points, job, report)

    def _here(
        self, points: Sequence[Point], job: Job, report: Callable[[Point, Progress], None]
    ) -> Generator[tuple[Point, Any], None, None]:
        for point in points:
            report(point, Progress(0.0, 0.0, None, 0))
            yield point, job(point, lambda progress, point=point: report(point, progress))  # type: ignore[misc]

    def _pool(
        self, points: Sequence[Point], job: Job, report: Callable[[Point, Progress], None]
    ) -> Generator[tuple[Point, Any], None, None]:
        queue, slots = Queue(points), self._slots
        slots += [Slot(self.prepare) for _ in range(min(self.jobs, len(points)) - len(slots))]
        try:
            while queue or any(slot.point for slot in slots):
                for slot in slots:
                    if slot.point is None and queue.ready:
                        report(slot.begin(queue.next(), job), Progress(0.0, 0.0, None, 0))
                wait([slot.future for slot in slots if slot.future], timeout=PATIENCE, return_when=FIRST_COMPLETED)
                for slot in slots:
                    for progress in slot.received():
                        if slot.point:
                            report(slot.point, progress)
                    if slot.future and slot.future.done():
                        point, result = slot.end()
                        over = queue.ended(point, result)
                        if not over:
                            report(point, result.again())
                        yield from over
        finally:
            for slot in slots:
                if slot.point:
                    slot.kill()


@dataclass
class Slot:
    """One worker, replaced by another if it dies."""

    prepare: str
    point: Point | None = None
    future: "Future[Any] | None" = None
    _pool: ProcessPoolExecutor | None = None
    _receiver: "connection.Connection[Any, Any] | None" = None
    _workers: list[BaseProcess] = field(default_factory=list)

    def begin(self, point: Point, job: Job) -> Point:
        """Hand the point to the worker, starting one if needed, and return the point."""
        try:
            self._submit(point, job)
        except BrokenProcessPool:  # the worker died while idle
            self.kill()
            self._submit(point, job)
        self.point = point
        return point

    def _submit(self, point: Point, job: Job) -> None:
        sender = None
        with _ignoring_interrupts(), _working_folder_left_out():  # the worker inherits both
            if self._pool is None:
                context = get_context("spawn")
                self._receiver, sender = context.Pipe(duplex=False)
                self._pool = ProcessPoolExecutor(1, context, _settle_in, (self.prepare, sender))
            self.future = self._pool.submit(_run, job, point)
        self._workers = list((self._pool._processes or {}).values())
        if sender is not None:
            sender.close()  # only the worker holds it now, so its death is an end of file

    def received(self) -> Iterator[Progress]:
        """Yield what the worker has reported since the last call."""
        try:
            while self._receiver and self._receiver.poll():
                yield self._receiver.recv()
        except (EOFError, OSError):
            return  # the worker has died, which its future shows too

    def end(self) -> tuple[Point, Any]:
        """Return the point that has ended and its result, and free the slot."""
        point, future = self.point, self.future
        for _ in self.received():
            pass  # or it would count for the next point
        assert point is not None
        assert future is not None
        self.point = self.future = None
        try:
            return point, future.result()
        except BrokenProcessPool:
            reason = self._why_it_died()
            self.kill()
            return point, Died(reason)

    def kill(self) -> None:
        """End the worker at once."""
        self.point = self.future = None
        if self._pool is None:
            return
        for worker in self._workers:
            if worker.is_alive():
                worker.kill()
        self._pool.shutdown(wait=True, cancel_futures=True)
        if self._receiver:
            self._receiver.close()
        self._pool, self._receiver, self._workers = None, None, []

    def _why_it_died(self) -> str:
        # The pool's own thread reaps the worker too, and the second to ask gets "no such child" until the first has
        # stored the exit code: ask until it is there.
        code, until = None, time.monotonic() + 5
        while code is None and time.monotonic() < until:
            code = next((worker.exitcode for worker in self._workers if worker.exitcode), None)
            if code is None:
                time.sleep(PATIENCE / 10)
        if code is None:
            return "its worker process ended"
        if code > 0:
            return f"its worker process ended with exit code {code}"
        name = signal.Signals(-code).name  # compared by name, since Windows has no SIGKILL
        memory = ", as the system does when memory runs out; try fewer --jobs" if name == "SIGKILL" else ""
        return f"its worker process was ended by signal {name}{memory}"


_sender: "connection.Connection[Any, Any] | None" = None  # a worker's pipe to its parent; the initialiser's only legacy


def _settle_in(module: str, sender: "connection.Connection[Any, Any]") -> None:
    global _sender
    _sender = sender
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    importlib.import_module(module)


def _end_with_parent() -> None:
    parent = parent_process()
    if parent is not None:
        connection.wait([parent.sentinel])
        os._exit(1)


def _run(job: Job, point: Point) -> Any:
    last = -REPORT_EVERY

    def report(progress: Progress) -> None:
        nonlocal last
        now = time.monotonic()
        if _sender is not None and now - last >= REPORT_EVERY:
            last = now
            _sender.send(progress)

    return job(point, report)


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
    before = os.environ.get(SAFE)
    os.environ[SAFE] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ[SAFE]
        else:
            os.environ[SAFE] = before
