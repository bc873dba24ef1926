"""Run points on a Ray cluster, or on a Ray started on this machine: one CPU each, and a share of a GPU if asked for.

Every point is a task.  Ray decides where it runs and reuses processes that have imported torch, except for tasks with
a GPU, which get a process each.  All machines of the cluster must share the results folder under the same path, find
the data under the same path, and have this version of fedsim installed.  Without a share of a GPU, Ray decides whether
points see one; `device: cpu` makes sure that none is used.  Ray keeps its own logs (usually under /tmp/ray); none of
them is shown here.
"""

import logging
import os
import socket
import subprocess
import sys
import sysconfig
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import chdir, contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Self

from fedsim.core import kernels
from fedsim.core.errors import UserError, required
from fedsim.core.progress import BEGUN, Progress
from fedsim.scenario.schema import Point
from fedsim.sweep.engines.queue import Died, PointJob, Queue

OWN = "local"  # Ray's address for a new Ray on this machine
PATIENCE = 0.2  # seconds between two looks at the tasks
GRACE = 10.0  # seconds in which cancelled tasks must end
ANSWER = 5.0  # seconds in which the head of a cluster must accept a connection
CONNECTED = 60.0  # seconds in which a process must be part of a cluster
PROBE = "import ray, sys; ray.init(sys.argv[1], log_to_driver=False, logging_level='CRITICAL'); ray.shutdown()"
ROOM = 2**27  # bytes for what tasks return: a row each


@dataclass
class Ray:
    """Run points as Ray tasks, at most `jobs` at a time.  A context manager: leaving it disconnects from Ray.

    Without an address, $RAY_ADDRESS is used; if that is not set either, a Ray is started on this machine.
    """

    jobs: int | None = None  # None: as many as there are CPUs for
    address: str | None = None
    gpus: float = 0.0  # share of a GPU per point
    plugins: bool = True  # whether workers may import from the working folder
    _reports: Any = field(default=None, init=False, repr=False)

    def __enter__(self) -> Self:
        """Import Ray; it starts once there are points.  Raises UserError if it is not installed."""
        loaded()
        return self

    def __exit__(self, *_: object) -> None:
        """Disconnect, which also stops a Ray that this process has started."""
        self.close()

    def close(self) -> None:
        """Disconnect from Ray; further points connect again."""
        if self._reports is not None:
            self._reports = None
            loaded().shutdown()

    def work(
        self, points: Sequence[Point], job: PointJob, report: Callable[[Point, Progress], None]
    ) -> Generator[tuple[Point, Any], None, None]:
        """Yield each point with what the job returned, or `Died`, as they end; leaving the loop cancels the others.

        Raises UserError if Ray is missing, cannot be reached, or cannot run points.
        """
        if not points:
            return
        ray, reports = loaded(), self._connected()
        task = ray.remote(num_cpus=1, num_gpus=self.gpus, max_retries=0)(_run)
        queue, running = Queue(points, report), dict[Any, Point]()
        try:
            while queue or running:
                while queue.ready and (self.jobs is None or len(running) < self.jobs):
                    point = queue.next()
                    running[task.remote(job, point, reports)] = point
                ended, _ = ray.wait([*running], timeout=PATIENCE)
                try:
                    latest = ray.get(reports.latest.remote(), timeout=GRACE)
                except (ray.exceptions.RayActorError, ray.exceptions.GetTimeoutError):
                    latest = {}  # its machine is gone or busy: points go on without progress
                for point in running.values():
                    if point.id in latest:
                        report(point, latest[point.id])
                for ref in ended:
                    yield from queue.ended(running.pop(ref), _result(ray, ref))
        except KeyboardInterrupt:
            self.close()  # which ends its tasks; where one is cancelled in an interrupt, Ray 2.60 may abort the process
            running.clear()
            raise
        finally:
            for ref in running:
                ray.cancel(ref, force=True)
            if running:
                ray.wait([*running], num_returns=len(running), timeout=GRACE)

    def _connected(self) -> Any:
        if self._reports is None:
            ray, address = loaded(), self.address or os.environ.get("RAY_ADDRESS") or OWN
            options = {"num_cpus": self.jobs or os.cpu_count(), "include_dashboard": False, "object_store_memory": ROOM}
            os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # else Ray reports to its makers
            # The environment of workers is that of their machine.
            variables = {"env_vars": {kernels.NATIVE: "1"}} if kernels.native() else None
            try:
                if address != OWN:
                    _check_address(address)
                # Ray puts the working folder first on its workers' path; Python's own folder is there anyway.
                with _silent(ray), nullcontext() if self.plugins else chdir(sysconfig.get_path("stdlib")):
                    ray.init(
                        address, log_to_driver=False, logging_level=logging.CRITICAL,
                        runtime_env=variables, **options if address == OWN else {},
                    )  # fmt: skip
            except (OSError, RuntimeError, ValueError) as error:
                raise UserError(_unreachable(address, error)) from None
            self._refuse_gpus(ray)
            self._reports = ray.remote(num_cpus=0, max_restarts=-1)(Reports).remote()
        return self._reports

    def _refuse_gpus(self, ray: Any) -> None:
        known = ray.cluster_resources().get("GPU", 0.0)
        if self.gpus > known:
            ray.shutdown()
            message = f"Ray has {known:g} GPUs, and each run asks for {self.gpus:g}"
            raise UserError(f"{message}: give a smaller --gpus-per-run, or leave it out")


class Reports:
    """An actor that holds the latest progress of each point until it is fetched."""

    def __init__(self) -> None:
        """Start with no reports."""
        self._latest: dict[str, Progress] = {}

    def report(self, point: str, progress: Progress) -> None:
        """Keep the latest progress of the point with this id."""
        self._latest[point] = progress

    def latest(self) -> dict[str, Progress]:
        """Return what was reported since the last call, by the point's id."""
        latest, self._latest = self._latest, {}
        return latest


def loaded() -> Any:
    """Return the module `ray`.  Raises UserError if it is not installed."""
    return required("ray", "--engine ray needs Ray", "ray")


def _run(job: PointJob, point: Point, reports: Any) -> Any:
    report = partial(reports.report.remote, point.id)
    report(BEGUN)
    return job(point, report)


def _result(ray: Any, ref: Any) -> Any:
    try:
        return ray.get(ref)
    except ray.exceptions.RayTaskError as error:  # not the job's: whatever fails there is returned
        last = str(error).strip().splitlines()[-1].strip()
        remedy = "install this version of fedsim, and what the scenario names, on all machines of the cluster"
        raise UserError(f"a Ray worker could not start ({last}): {remedy}") from error
    except ray.exceptions.OutOfMemoryError:
        return Died("Ray ended its worker process, as memory ran out: try fewer --jobs")
    except (ray.exceptions.NodeDiedError, ray.exceptions.LocalRayletDiedError) as error:
        return Died(f"its machine is lost ({str(error).splitlines()[0]})")
    except ray.exceptions.RayError as error:
        return Died(f"its worker process ended ({type(error).__name__}: {str(error).splitlines()[0]})")


def _check_address(address: str) -> None:
    # Ray itself would keep trying for minutes, and log each attempt.
    host, _, port = address.rpartition(":")
    if "://" in host:
        raise ValueError("Ray's client mode (ray://) is not supported; give HOST:PORT of the cluster's head")
    if port.isdecimal():
        socket.create_connection((host, int(port)), timeout=ANSWER).close()
    # Nothing ends Ray's own attempt, which may take many minutes: let another process, that can be ended, try first.
    command = [sys.executable, "-P", "-c", PROBE, address]
    try:
        subprocess.run(command, timeout=CONNECTED, check=True, capture_output=True, stdin=subprocess.DEVNULL, text=True)
    except subprocess.TimeoutExpired:
        raise TimeoutError(f"no answer within {CONNECTED:g} s") from None
    except subprocess.CalledProcessError as error:
        raise RuntimeError((error.stderr.strip().splitlines() or [f"exit code {error.returncode}"])[-1]) from None


def _unreachable(address: str, error: Exception) -> str:
    reason = f"{type(error).__name__}: {error}".splitlines()[0]
    if address == OWN:
        return f"Ray could not be started on this machine ({reason}); --engine local needs none"
    return f"there is no Ray cluster at {address!r} ({reason}); start one with: ray start --head"


@contextmanager
def _silent(ray: Any) -> Iterator[None]:
    # Ray prints about dead workers from its own thread, and no setting stops that; the point's message reports them.
    inner = ray._private.worker
    before = getattr(inner, "listen_error_messages", None)
    inner.listen_error_messages = lambda *_: None
    try:
        yield
    finally:
        inner.listen_error_messages = before
