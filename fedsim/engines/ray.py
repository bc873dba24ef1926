"""Points on a Ray cluster, or on a Ray of this machine's own: one CPU for each, and a share of a GPU where asked for.

Every point is a task; Ray decides where it runs, and keeps the processes that have imported torch for the next ones,
but for tasks with a GPU, which get a process each.  The folder of the results must be one that all machines of the
cluster share under the same name, the data must be found under the same name too, and this version of fedsim must be
installed on all of them.  Where no share of a GPU is asked for, Ray decides whether points see one: `device: cpu` is
sure.  Ray keeps logs of its own (under /tmp/ray as a rule) and shows none of them here.
"""

import logging
import os
import socket
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Self

from fedsim.engines.queue import Died, Queue
from fedsim.errors import UserError
from fedsim.progress import Progress
from fedsim.scenario import Point

Told = Callable[[Progress], None]
Job = Callable[[Point, Told], Any]  # module-level, or a partial of such: it travels to the workers
OWN = "local"  # Ray's word for a Ray of this machine's own
PATIENCE = 0.2  # seconds between two looks at the tasks
GRACE = 10.0  # seconds that cancelled tasks have to end
ANSWER = 5.0  # seconds that the head of a cluster has to answer
ROOM = 2**27  # bytes for what tasks return: a row each


@dataclass
class Ray:
    """Runs points as Ray tasks, at most `jobs` at a time.  A context: leaving it disconnects from Ray.

    Without an address $RAY_ADDRESS is taken, and where that is not set either, a Ray of this machine's own is started.
    """

    jobs: int | None = None  # None: as many as there are CPUs for
    address: str | None = None
    gpus: float = 0.0  # the share of a GPU that each point has
    _ear: Any = field(default=None, init=False, repr=False)

    def __enter__(self) -> Self:
        """Find Ray; it is started when there are points.  Raises UserError where it is not installed."""
        loaded()
        return self

    def __exit__(self, *_: object) -> None:
        """Disconnect, which ends what this process has started."""
        self.close()

    def close(self) -> None:
        """Disconnect from Ray; more points would connect anew."""
        if self._ear is not None:
            self._ear = None
            loaded().shutdown()

    def work(
        self, points: Sequence[Point], job: Job, told: Callable[[Point, Progress], None]
    ) -> Generator[tuple[Point, Any], None, None]:
        """Yield each point with what the job returned, or `Died`, as they end; leaving the loop cancels the others.

        Raises UserError where Ray is missing, cannot be reached, or cannot run points.
        """
        if not points:
            return
        ray, ear = loaded(), self._connected()
        task = ray.remote(num_cpus=1, num_gpus=self.gpus, max_retries=0)(_obey)
        queue, running = Queue(points), dict[Any, Point]()
        try:
            while queue or running:
                while queue and (self.jobs is None or len(running) < self.jobs):
                    point = queue.next()
                    running[task.remote(job, point, ear)] = point
                ended, _ = ray.wait([*running], timeout=PATIENCE)
                heard = self._heard(ear)
                for point in running.values():
                    if point.id in heard:
                        told(point, heard[point.id])
                for ref in ended:
                    yield from queue.ended(running.pop(ref), _result(ray, ref))
        finally:
            for ref in running:
                ray.cancel(ref, force=True)
            if running:
                ray.wait([*running], num_returns=len(running), timeout=GRACE)

    def _connected(self) -> Any:
        if self._ear is None:
            ray, address = loaded(), self.address or os.environ.get("RAY_ADDRESS") or OWN
            own = {"num_cpus": self.jobs or os.cpu_count(), "include_dashboard": False, "object_store_memory": ROOM}
            os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # else Ray reports to its makers
            try:
                _knock(address)
                with _silent(ray):
                    ray.init(
                        address, log_to_driver=False, logging_level=logging.CRITICAL, **own if address == OWN else {}
                    )
            except (OSError, RuntimeError, ValueError) as error:
                raise UserError(_unreachable(address, error)) from None
            self._refuse_gpus(ray)
            self._ear = ray.remote(num_cpus=0, max_restarts=-1)(Ear).remote()
        return self._ear

    def _refuse_gpus(self, ray: Any) -> None:
        there = ray.cluster_resources().get("GPU", 0.0)
        if self.gpus > there:
            ray.shutdown()
            told = f"Ray has {there:g} GPUs, and each point asks for {self.gpus:g}"
            raise UserError(f"{told}: give a smaller --gpus-per-point, or leave it out")

    def _heard(self, ear: Any) -> dict[str, Progress]:
        ray = loaded()
        try:
            heard: dict[str, Progress] = ray.get(ear.heard.remote(), timeout=GRACE)
        except (ray.exceptions.RayActorError, ray.exceptions.GetTimeoutError):
            return {}  # its machine is gone or has more to do: points run on untold
        return heard


class Ear:
    """An actor that keeps the latest that each point has told, until it is asked."""

    def __init__(self) -> None:
        """Know nothing yet."""
        self._latest: dict[str, Progress] = {}

    def tell(self, point: str, progress: Progress) -> None:
        """Keep what the point with this id tells."""
        self._latest[point] = progress

    def heard(self) -> dict[str, Progress]:
        """Return what was told since the last call, by the point's id."""
        heard, self._latest = self._latest, {}
        return heard


def loaded() -> Any:
    """Return Ray.  Raises UserError where it is not installed."""
    try:
        import ray
    except ImportError:
        mend = 'pip install "fedsim[ray]", or pip install -e ".[ray]" in a checkout'
        raise UserError(f"--engine ray needs Ray, which is not installed: {mend}") from None
    return ray


def _obey(job: Job, point: Point, ear: Any) -> Any:
    told = partial(ear.tell.remote, point.id)
    told(Progress(0.0, 0.0, None, 0))
    return job(point, told)


def _result(ray: Any, ref: Any) -> Any:
    try:
        return ray.get(ref)
    except ray.exceptions.RayTaskError as error:  # not the job's: whatever fails there is returned
        last = str(error).strip().splitlines()[-1].strip()
        mend = "install this version of fedsim, and what the scenario names, on all machines of the cluster"
        raise UserError(f"a worker of Ray could not start ({last}): {mend}") from error
    except ray.exceptions.OutOfMemoryError:
        return Died("Ray ended its worker process, as memory ran out: try fewer --jobs")
    except ray.exceptions.RayError as error:
        return Died(f"its worker process ended ({type(error).__name__}: {str(error).splitlines()[0]})")


def _knock(address: str) -> None:
    # Ray itself asks in vain for minutes, and logs each time.
    host, _, port = address.rpartition(":")
    if "://" in host:
        raise ValueError("Ray's client is not used here; give HOST:PORT of the cluster's head")
    if port.isdecimal():
        socket.create_connection((host, int(port)), timeout=ANSWER).close()


def _unreachable(address: str, error: Exception) -> str:
    told = f"{type(error).__name__}: {error}".splitlines()[0]
    if address == OWN:
        return f"Ray could not be started on this machine ({told}); --engine local needs none"
    return f"there is no Ray cluster at {address!r} ({told}); start one with: ray start --head"


@contextmanager
def _silent(ray: Any) -> Iterator[None]:
    # What Ray prints of dead workers, from a thread of its own, has no setting; the point's message tells of them.
    inner = ray._private.worker
    before = getattr(inner, "listen_error_messages", None)
    inner.listen_error_messages = lambda *_: None
    try:
        yield
    finally:
        inner.listen_error_messages = before
