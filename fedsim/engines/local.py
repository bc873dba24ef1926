"""Points on this machine: in this process, or in a few workers that have imported torch once.

Every worker is a pool of one, with a pipe of its own: when it dies, exactly one point is lost, and the others neither
notice nor share a lock with it.  Workers leave Ctrl-C to this process and end when it ends, or when whoever made the
engine closes it: until then they wait for the next points, with torch imported.  No GPU is shared out: workers on one
GPU share its memory as they find it.
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

from fedsim.engines.queue import Died, Queue
from fedsim.progress import Progress
from fedsim.scenario import Point

Told = Callable[[Progress], None]
Job = Callable[[Point, Told], Any]  # module-level, or a partial of such: it travels to the workers
PATIENCE = 0.1  # seconds between two looks at the workers
TOLD_EVERY = 0.2  # seconds between two reports of a worker


@dataclass
class Local:
    """Runs points in `jobs` processes; one job is this process itself.  A context: leaving it ends the workers."""

    jobs: int
    prepare: str = "fedsim.run"  # the module that each worker imports before its first point
    _slots: "list[Slot]" = field(default_factory=list, init=False, repr=False)

    def __enter__(self) -> Self:
        """Start nothing yet: workers are started as points need them."""
        return self

    def __exit__(self, *_: object) -> None:
        """End the workers."""
        self.close()

    def close(self) -> None:
        """End the workers at once; more points would start new ones."""
        for slot in self._slots:
            slot.kill()
        self._slots.clear()

    def work(
        self, points: Sequence[Point], job: Job, told: Callable[[Point, Progress], None]
    ) -> Generator[tuple[Point, Any], None, None]:
        """Yield each point with what the job returned, or `Died`, as they end.

        Leaving the loop early ends the workers that are at work; the others wait for the next call.
        """
        return self._here(points, job, told) if self.jobs == 1 else self._pool(points, job, told)

    def _here(
        self, points: Sequence[Point], job: Job, told: Callable[[Point, Progress], None]
    ) -> Generator[tuple[Point, Any], None, None]:
        for point in points:
            told(point, Progress(0.0, 0.0, None, 0))
            yield point, job(point, lambda progress, point=point: told(point, progress))  # type: ignore[misc]

    def _pool(
        self, points: Sequence[Point], job: Job, told: Callable[[Point, Progress], None]
    ) -> Generator[tuple[Point, Any], None, None]:
        queue, slots = Queue(points), self._slots
        slots += [Slot(self.prepare) for _ in range(min(self.jobs, len(points)) - len(slots))]
        try:
            while queue or any(slot.point for slot in slots):
                for slot in slots:
                    if slot.point is None and queue:
                        told(slot.begin(queue.next(), job), Progress(0.0, 0.0, None, 0))
                wait([slot.future for slot in slots if slot.future], timeout=PATIENCE, return_when=FIRST_COMPLETED)
                for slot in slots:
                    for progress in slot.heard():
                        if slot.point:
                            told(slot.point, progress)
                    if slot.future and slot.future.done():
                        yield from queue.ended(*slot.end())
        finally:
            for slot in slots:
                if slot.point:
                    slot.kill()


@dataclass
class Slot:
    """Room for one worker, and for another when that one has died."""

    prepare: str
    point: Point | None = None
    future: "Future[Any] | None" = None
    _pool: ProcessPoolExecutor | None = None
    _ear: "connection.Connection[Any, Any] | None" = None
    _workers: list[BaseProcess] = field(default_factory=list)

    def begin(self, point: Point, job: Job) -> Point:
        """Hand the point to the worker, which is started if there is none, and return it."""
        try:
            self._submit(point, job)
        except BrokenProcessPool:  # the worker has died while it had nothing to do
            self.kill()
            self._submit(point, job)
        self.point = point
        return point

    def _submit(self, point: Point, job: Job) -> None:
        mouth = None
        if self._pool is None:
            context = get_context("spawn")
            self._ear, mouth = context.Pipe(duplex=False)
            self._pool = ProcessPoolExecutor(1, context, _settle_in, (self.prepare, mouth))
        with _deaf():  # the worker inherits that Ctrl-C is not its business
            self.future = self._pool.submit(_obey, job, point)
        self._workers = list((self._pool._processes or {}).values())
        if mouth is not None:
            mouth.close()  # now only the worker holds it, so that its death is an end of file

    def heard(self) -> Iterator[Progress]:
        """Yield what the worker has told since the last call."""
        try:
            while self._ear and self._ear.poll():
                yield self._ear.recv()
        except (EOFError, OSError):
            return  # the worker has died; its future says so too

    def end(self) -> tuple[Point, Any]:
        """Return the point that has ended and its result, and be free for another."""
        point, future = self.point, self.future
        for _ in self.heard():
            pass  # or it would be told of the next point
        assert point is not None
        assert future is not None
        self.point = self.future = None
        try:
            return point, future.result()
        except BrokenProcessPool:
            reason = self._epitaph()
            self.kill()
            return point, Died(reason)

    def kill(self) -> None:
        """End the worker at once, whatever it does."""
        self.point = self.future = None
        if self._pool is None:
            return
        for worker in self._workers:
            if worker.is_alive():
                worker.kill()
        self._pool.shutdown(wait=True, cancel_futures=True)
        if self._ear:
            self._ear.close()
        self._pool, self._ear, self._workers = None, None, []

    def _epitaph(self) -> str:
        # The pool's own thread reaps the worker too, and whoever comes second is told "no such child" until the first
        # has noted the exit code: ask until it is there.
        code, until = None, time.monotonic() + 5
        while code is None and time.monotonic() < until:
            code = next((worker.exitcode for worker in self._workers if worker.exitcode), None)
            if code is None:
                time.sleep(PATIENCE / 10)
        if code is None:
            return "its worker process ended"
        if code > 0:
            return f"its worker process ended with exit code {code}"
        name = signal.Signals(-code).name  # compared by its name, since Windows has no SIGKILL
        memory = ", as the system does when memory runs out; try fewer --jobs" if name == "SIGKILL" else ""
        return f"its worker process was ended by signal {name}{memory}"


_mouth: "connection.Connection[Any, Any] | None" = None  # a worker's pipe to its parent; the initialiser's only legacy


def _settle_in(module: str, mouth: "connection.Connection[Any, Any]") -> None:
    global _mouth
    _mouth = mouth
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    importlib.import_module(module)


def _end_with_parent() -> None:
    parent = parent_process()
    if parent is not None:
        connection.wait([parent.sentinel])
        os._exit(1)


def _obey(job: Job, point: Point) -> Any:
    last = -TOLD_EVERY

    def told(progress: Progress) -> None:
        nonlocal last
        now = time.monotonic()
        if _mouth is not None and now - last >= TOLD_EVERY:
            last = now
            _mouth.send(progress)

    return job(point, told)


@contextmanager
def _deaf() -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
