"""Where the real time of a point goes: shares of training, evaluation, server, clock and network, records and set-up.

    python benchmarks/shares.py [SCENARIO] [--all] [--repeats 3]

One point is run for every algorithm and participation of the scenario (`--all`: every point), first once uncounted, so
that imports and the data that a process keeps from point to point are there as in a sweep, then `--repeats` times.  A
stopwatch is laid around a few functions: at each moment the innermost of them is charged, so that the shares add up to
the whole and nothing is counted twice.  A deterministic profiler would charge short Python functions several times what
they take; these few wrappers cost about a microsecond a call.

training    what the cohort trains, the algorithms' own work of jobs, and the search of optimisers on the server
evaluation  everything between a scoring's beginning and its rows
server      updates, merges and downloads of the algorithm
clock       SimPy, links and TCP, sizes of messages, protocols, hosts, declared sizes of uploads
records     rows, the ledger, tables, and the row of summary.csv
set-up      data, partition, hosts and links, until the clock starts
other       what is left: the resolved scenario, the log
"""

import argparse
import functools
import importlib
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from fedsim.point.run import run
from fedsim.scenario.parts import find
from fedsim.scenario.schema import Point
from fedsim.scenario.text import yaml_file

SPARSE_CLIENTS = Path(__file__).parents[1] / "scenarios" / "sparse_clients.yaml"
PLACES = {
    "training": ["fedsim.learn.engine.cohort:Cohort.settle", "fedsim.learn.continual.lbfgs:minimise"],
    "evaluation": ["fedsim.learner.scoring.scoring:Scoring.met", "fedsim.learner.scoring.scoring:Scoring.unmet"],
    "server": [],  # the algorithm's own functions: they are found with the point
    "clock": ["simpy:Environment.step", "fedsim.core.wire:size", "fedsim.clock.world:World.end"],
    "records": [
        "fedsim.core.record:Recorder.add", "fedsim.core.record:Recorder.extend", "fedsim.core.record:Recorder.close",
        "fedsim.clock.ledger:Ledger.see", "fedsim.clock.ledger:Ledger.close", "fedsim.point.run:summarise",
    ],
    "set-up": ["fedsim.point.run:build"],
    "other": [],
}  # fmt: skip
SERVER = ("update", "mix", "download", "server_flops")  # of an algorithm
Function = Callable[..., Any]


class Stopwatch:
    """Charges every moment to the innermost of the functions that it is laid around."""

    def __init__(self) -> None:
        """Begin with nothing charged."""
        self.seconds: dict[str, float] = defaultdict(float)
        self._open = ["other"]
        self._since = time.perf_counter()

    def around(self, function: Function, place: str) -> Function:
        """Return the function with its time charged to this place."""

        @functools.wraps(function)
        def timed(*args: Any, **options: Any) -> Any:
            self._turn()
            self._open.append(place)
            try:
                return function(*args, **options)
            finally:
                self._turn()
                self._open.pop()

        return timed

    def reset(self) -> None:
        """Forget what was charged."""
        self._turn()
        self.seconds.clear()

    def read(self) -> dict[str, float]:
        """Return what was charged so far, in seconds by place."""
        self._turn()
        return dict(self.seconds)

    def _turn(self) -> None:
        now = time.perf_counter()
        self.seconds[self._open[-1]] += now - self._since
        self._since = now


def lay(watch: Stopwatch, algorithms: list[type]) -> None:
    """Lay the stopwatch around the functions of every place.  Raises AttributeError where there is no such function."""
    for place, names in PLACES.items():
        for name in names:
            module, _, path = name.partition(":")
            *way, last = path.split(".")
            owner: object = functools.reduce(getattr, way, importlib.import_module(module))
            setattr(owner, last, watch.around(getattr(owner, last), place))
    functions = {
        (owner, name) for kind in algorithms for owner in kind.__mro__ for name in SERVER if name in vars(owner)
    }
    for kind, name in functions:
        setattr(kind, name, watch.around(vars(kind)[name], "server"))


def chosen(points: list[Point], everything: bool) -> dict[str, Point]:
    """Return the points to be run by their labels: all, or the first of each algorithm and participation."""
    axes = {axis for point in points for axis in point.axes}
    wanted = axes if everything else axes & {"algorithm", "protocol.participation"}
    labels: dict[str, Point] = {}
    for point in points:
        label = ", ".join(f"{point.axes[axis]}" for axis in sorted(wanted) if axis in point.axes) or point.id
        labels.setdefault(label, point)
    return labels


def shares(watch: Stopwatch, point: Point, repeats: int, root: Path) -> dict[str, float]:
    """Return the seconds of each place in one run of the point, a mean over runs."""
    run(point, root, root, lambda _: None)
    watch.reset()
    for _ in range(repeats):
        run(point, root, root, lambda _: None)
    return {place: seconds / repeats for place, seconds in watch.read().items()}


def told(label: str, seconds: Mapping[str, float]) -> str:
    """Return a line of the table."""
    whole = sum(seconds.values())
    each = "".join(f"{seconds[place] / whole:11.1%}" for place in PLACES)
    return f"{label:28}{whole:8.2f}{each}{(seconds['training'] + seconds['evaluation']) / whole:11.1%}"


def main() -> None:
    """Run the points and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("scenario", nargs="?", type=Path, default=SPARSE_CLIENTS)
    parser.add_argument("--data", type=Path, default=Path("data"), help="folder of data sets that are not embedded")
    parser.add_argument("--all", action="store_true", help="every point of the scenario")
    parser.add_argument("--repeats", type=int, default=3, help="runs of each point that are counted")
    given = parser.parse_args()
    scenario, _ = yaml_file.load(given.scenario)
    points = chosen([*scenario.points()], given.all)
    watch, parts = Stopwatch(), [point.scenario.algorithm for point in points.values()]
    lay(watch, [find.find("algorithm", part, "algorithm") for part in parts if part is not None])
    print(f"{given.scenario.name}, mean of {given.repeats} runs\n")
    print(f"{'':28}{'seconds':>8}{''.join(f'{place:>11}' for place in PLACES)}{'tr + ev':>11}")
    together: dict[str, float] = defaultdict(float)
    with tempfile.TemporaryDirectory() as folder:
        for label, point in points.items():
            seconds = shares(watch, point, given.repeats, Path(folder))
            for place, took in seconds.items():
                together[place] += took
            print(told(label, seconds), flush=True)
    print(told("together", together))


if __name__ == "__main__":
    main()
