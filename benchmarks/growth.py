"""How cost grows with clients, rounds, points of a sweep and nodes, with the exponent fitted to it.

    python benchmarks/growth.py [--only clients nodes] [--most 1000000]

Each size is measured in processes of its own, in processor seconds (the start with many clients in wall-clock time):

- clients: 1,000 of them are asked ten times and nothing is learned (million.py);
- rounds: one run of scenarios/sparse_clients.yaml, everybody takes part, FedAvg;
- points: that run at so many latencies, which reuse what the first has learned; and the report of all;
- nodes: a synthetic graph dealt to 20 clients at random: its data set and its clients are made, and then a round of
  FedAvg, one step of a GCN 32-64-5.

What a command takes with almost nothing to do is taken off rounds and points.  Exponents are those of lines on
logarithmic axes: through all sizes, and through the two largest, which what costs the same at any size bends less.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import following
import million
import numpy as np

SIZES: dict[str, tuple[int, ...]] = {
    "clients": million.SIZES,
    "rounds": (30, 100, 300, 1_000),
    "points": (10, 30, 100, 300),
    "nodes": (1_000, 10_000, 100_000, 1_000_000),
}
ROUNDS = 3  # of the graphs
GRAPH: dict[str, Any] = {
    "name": "growth",
    "data": {"partition": "random", "split": {"train": 0.5, "val": 0.2, "test": 0.3}},
    "model": {"name": "gcn", "hidden": 64, "dropout": 0},
    "training": {"optimiser": "adam", "lr": 0.01},
    "clients": {"count": 20, "speed": "1 GFLOP/s"},
    "network": {"latency": "20 ms", "uplink": "10 Mbit/s", "downlink": "50 Mbit/s"},
    "protocol": {"name": "sync", "rounds": ROUNDS + 1, "participation": 1.0},
    "algorithm": "fedavg",
    "measure": {"every": "1000 updates"},
}
Costs = dict[str, float]  # by what is measured, with its unit


def clients(count: int, folder: Path) -> Costs:
    """Return what a run with that many clients takes."""
    found = million.alone(million.measured, f"clients.count={count}", million.ASKED)
    each = 1e6 * found["rounds"] / found["asked"]
    return {"start, s": found["start"], "a request, us": each, "memory, MB": found["memory"]}


def rounds(count: int, folder: Path) -> Costs:
    """Return what a run of that many rounds takes."""
    return {"a run, s": swept(folder, count, 1) - swept(folder, 1, 1)}


def points(count: int, folder: Path) -> Costs:
    """Return what that many runs take which reuse a record, and their report."""
    took = swept(folder, 40, count) - swept(folder, 40, 1)
    script = Path(__file__).with_name("report.py")
    command = [sys.executable, str(script), "--report", str(folder / f"40-{count}")]
    told = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
    return {"the sweep, s": took, "its report, s": float(told[2]), "the report's memory, MB": float(told[1])}


def swept(folder: Path, rounds: int, latencies: int) -> float:
    """Run the scenario into `folder` and return its processor seconds."""
    places = ", ".join(f"{10 + number} ms" for number in range(latencies))
    grid = [*following.ONE, "grid.algorithm=[fedavg]", f"grid.network.latency=[{places}]"]
    seconds: float = following.seconds(folder / f"{rounds}-{latencies}", *grid, f"protocol.rounds={rounds}")
    return seconds


def nodes(count: int, folder: Path) -> Costs:
    """Return what building and training on a graph of that many nodes takes, in a process of its own."""
    command = [sys.executable, __file__, "--graph", str(count)]
    found: Costs = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return found


def trained(count: int) -> Costs:
    """Return what building and training on a graph of that many nodes takes in this process."""
    import fedsim  # noqa: F401 -- before torch, whose kernels it chooses
    from fedsim.core.record import Recorder
    from fedsim.point.build.assemble import build
    from fedsim.scenario.schema import Scenario

    def asked(count: int) -> Scenario:
        dataset = {"name": "synthetic", "nodes": count, "classes": 5, "features": 32, "degree": 10.0}
        return Scenario.model_validate({**GRAPH, "data": {**GRAPH["data"], "dataset": dataset}})

    build(asked(1000), Path(), Recorder())  # imports what is needed
    began = time.process_time()
    world = build(asked(count), Path(), Recorder()).world
    built, ends = time.process_time(), []
    while world.server.version <= ROUNDS:
        before = world.server.version
        world.env.step()
        if world.server.version > before:
            ends.append(time.process_time())
    return {"made, s": built - began, "a round, s": float(np.median(np.diff(ends)))}


MEASURES: dict[str, Callable[[int, Path], Costs]] = {
    "clients": clients,
    "rounds": rounds,
    "points": points,
    "nodes": nodes,
}


def rows(kind: str, most: int) -> Iterator[str]:
    """Yield the lines of one kind as they are known: each size, then the exponents."""
    found: dict[int, Costs] = {}
    for size in (size for size in SIZES[kind] if size <= most):
        with tempfile.TemporaryDirectory() as folder:
            found[size] = MEASURES[kind](size, Path(folder))
        yield f"{size:>12,} {kind}: " + ", ".join(f"{what} {cost:,.3g}" for what, cost in found[size].items())
    for what in next(iter(found.values())) if len(found) > 1 else []:
        x, y = (np.log(np.fromiter(values, float)) for values in (found, (costs[what] for costs in found.values())))
        *_, (before, after) = pairwise(zip(x, y, strict=True))
        last = (after[1] - before[1]) / (after[0] - before[0])
        yield f"{'':12} {what}: exponent {np.polyfit(x, y, 1)[0]:.2f} of all, {last:.2f} of the last two"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="*", choices=[*SIZES], default=[*SIZES], help="these kinds (default: all)")
    parser.add_argument("--most", type=int, default=10_000_000, help="no size above this")
    parser.add_argument("--graph", type=int, help="train on a graph of so many nodes only (for the script itself)")
    options = parser.parse_args()
    if options.graph:
        print(json.dumps(trained(options.graph)))
        return
    for kind in options.only:
        for line in rows(kind, options.most):
            print(line, flush=True)


if __name__ == "__main__":
    main()
