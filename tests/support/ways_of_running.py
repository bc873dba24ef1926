"""Four small points that hold much of what a point may hold, and how to run them whole, ended in the middle, elsewhere.

Two algorithms of different kinds (a plain mean; POWER, whose server learns) under a protocol in rounds and one without,
of two seeds; clients that come and go and leave in mid-work, losses, uploads compressed with drawn rounding, periods
that arrive.  What workers are to run is here, for they import it.
"""

import csv
import os
import signal
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from unittest.mock import patch

import small_points

from fedsim.point import loop
from fedsim.point import run as running
from fedsim.point.results.folders import TABLES, place_of
from fedsim.point.resume import checkpoint
from fedsim.sweep.runner import Sweep

SYNC = {"name": "sync", "rounds": 4, "participation": 0.8}
BUFFERED = {"name": "buffered", "rounds": 5, "clients": 3, "buffer": 2}
FEDAVG = {
    "data__dataset": "digits",  # whose neighbours are found by a library that may use threads
    "clients": {"count": 4, "speed": "lognormal(1 GFLOP/s, 0.5)"}, "model": {"name": "gcn", "hidden": 8},
}  # fmt: skip
POWER = {
    "data__dataset": {**small_points.PLAIN["data"]["dataset"], "nodes": 480},
    "algorithm": {"name": "power", "rebuild_steps": 1, "restarts": 0},
    "clients": {"count": 4, "speed": "lognormal(3 MFLOP/s, 0.5)"},
}
NETWORK = {"network__effects": small_points.EFFECTS, "network__codec": {"up": "int8"}}
CASES = [(FEDAVG, SYNC, 1), (FEDAVG, BUFFERED, 2), (POWER, SYNC, 2), (POWER, BUFFERED, 1)]


class Nobody:
    """Watches a sweep and says nothing."""

    begin = progressed = ended = note = lambda self, *_: None


def points(**host):
    """Return the points, with settings that say how they are computed."""
    one = {"measure__metrics": ["accuracy"], **NETWORK, **host}
    return [small_points.point(**kind, **one, protocol=protocol, seed=seed) for kind, protocol, seed in CASES]


def sweep(out, engine, run=running.run, those=None):
    """Run the points, or those that are given, and return the folder of the results."""
    Sweep(points() if those is None else those, "given: here\n", out, out.parent).run(run, engine, Nobody())
    return out


def stopped_once(point, folder, data, told, stop):
    """Run a point; the first time `stop` is called in the middle of it, when a checkpoint holds an update."""
    mark = folder.parent / f"{point.id}.stopped"

    def heard(progress):
        told(progress)
        if progress.updates >= 2 and not mark.exists() and _updates_kept(folder):
            mark.touch()
            stop()

    with patch.object(loop, "REPORT_EVERY", 0.0), patch.object(checkpoint, "SHARE", 2):
        return running.run(point, folder, data, heard, every=0.0)


def _updates_kept(folder):
    return checkpoint.read(folder)["version"] if checkpoint.path_in(folder).is_file() else 0


def interrupt():
    raise KeyboardInterrupt


def die():
    os.kill(os.getpid(), getattr(signal, "SIGKILL", signal.SIGTERM))


def last_dies_once(point, folder, data, told):
    """Run a point, but kill the worker that first runs the last of them."""
    run = partial(stopped_once, stop=die) if point.id == points()[-1].id else running.run
    return run(point, folder, data, told)


@contextmanager
def elsewhere(folder):
    """Have workers that are started in here hash otherwise, work in another folder, and be told of three threads.

    Threads that wait sleep: they would fight over the cores with what else runs.
    """
    told = {"PYTHONHASHSEED": "17", "OMP_NUM_THREADS": "3", "OMP_WAIT_POLICY": "passive"}
    folder.mkdir()
    before = Path.cwd()
    with patch.dict(os.environ, told):
        os.chdir(folder)
        try:
            yield
        finally:
            os.chdir(before)


def left(out, those=None):
    """Return all that the points have left but for host time: {file: bytes}, and the rows of the summary.

    `those` are numbers of points, all of them unless it is given.
    """
    names = ["scenario.yaml", "run.log", *(f"{table}.parquet" for table in TABLES)]
    files = {
        f"{number}/{name}": (place_of(out, point) / name).read_bytes()
        for number, point in enumerate(points()) if those is None or number in those for name in names
    }  # fmt: skip
    return files, sorted(summary(out).items())


def summary(out, without=("real_seconds",)):
    """Return each point's row of summary.csv without some columns: {point: row}."""
    with (out / "summary.csv").open(newline="") as file:
        return {
            row["run"]: {name: cell for name, cell in row.items() if name not in ("run", *without)}
            for row in csv.DictReader(file)
        }
