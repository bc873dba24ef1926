"""What a second worker is worth for a sweep of short points, and what a point costs beside its own run.

    python benchmarks/sweep.py [--points 40] [--workers 2] [--rounds 20]

The same points are run by one worker, which is this process, and by several, in folders of their own that end up with
the same summary.csv but for real seconds.  Each engine first runs a point a worker that is not counted: it starts the
workers and imports torch.  Overhead is the workers' time that no point accounts for: handing points out, moving
folders, writing summaries, and waiting for the last ones.  Torch takes one thread, as the scenario says.
"""

import argparse
import tempfile
import time
from pathlib import Path

from fedsim.point.run import run
from fedsim.scenario.schema import Scenario
from fedsim.sweep.engines.local import Local
from fedsim.sweep.runner import Sweep, Watcher

SCENARIO = {
    "name": "short",
    "data": {
        "dataset": {"name": "synthetic", "nodes": 400, "classes": 4, "features": 16, "degree": 4.0},
        "partition": "random",
        "split": {"train": 0.4, "val": 0.2, "test": 0.4},
        "stream": "static",
    },
    "model": {"name": "gcn", "hidden": 16},
    "training": {"optimiser": "adam", "lr": 0.01, "local_steps": 2},
    "clients": {"count": 10, "speed": "1 GFLOP/s"},
    "network": {"latency": "50 ms", "uplink": "5 Mbit/s", "downlink": "20 Mbit/s"},
    "algorithm": "fedavg",
    "device": "cpu",
    "threads": 1,
}


class Unseen(Watcher):
    """A watcher that shows nothing."""

    def ended(self, point, row, message):
        """Stop where a point has failed: its seconds would mean nothing."""
        if message:
            raise SystemExit(message)


def swept(folder, engine, seeds, rounds):
    """Run a point a seed; return wall seconds, the rows but for real seconds, and the points' own seconds."""
    protocol = {"name": "sync", "rounds": rounds, "participation": 1.0}
    points = Scenario.model_validate({**SCENARIO, "protocol": protocol, "grid": {"seed": [*seeds]}}).points()
    began = time.perf_counter()
    rows = Sweep([*points], "", folder, folder).run(run, engine, Unseen())
    seconds = time.perf_counter() - began
    return seconds, rows, sum(row.pop("real_seconds") for row in rows)


def measured(root, workers, points, rounds):
    """Return the seconds of the points and their rows, having told what there is to tell."""
    with Local(workers) as engine:
        started, _, _ = swept(root / f"first_{workers}", engine, range(points, points + workers), rounds)
        seconds, rows, own = swept(root / str(workers), engine, range(points), rounds)
    each = (seconds * workers - own) / points
    name = "1 worker" if workers == 1 else f"{workers} workers"
    print(f"{name}: {seconds:.2f} s for {points} points, after {started:.2f} s for the first")
    print(f"  a point: {own / points * 1e3:.1f} ms of its own, and {each * 1e3:.1f} ms beside")
    return seconds, rows


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for flag, value in (("--points", 40), ("--workers", 2), ("--rounds", 20)):
        parser.add_argument(flag, type=int, default=value)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        one, rows = measured(Path(folder), 1, given.points, given.rounds)
        more, others = measured(Path(folder), given.workers, given.points, given.rounds)
    assert str(rows) == str(others)
    print(f"{given.workers} workers are {one / more:.2f} times as fast as one")


if __name__ == "__main__":
    main()
