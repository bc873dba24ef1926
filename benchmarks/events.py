"""How long events of a large graph take from a file to a trained snapshot, and how much memory.

    python benchmarks/events.py [--like tgbl_coin] [--scales 0.01 0.1 1] [--steps 50] [--clients 10]

Each scale runs in a process and with a cache of its own, so that nothing is there beforehand and the peaks of memory
are its own: drawing and writing the file, reading and preparing it as `tgb` does a user's, cutting snapshots, and a run
of three snapshots under `fedavg` and `dg_colearn` (one round each).  Not measured: the disk, whose cache is warm.
"""

import argparse
import json
import multiprocessing
import os
import resource
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch


def measured(like: str, scale: float, steps: int, clients: int, home: str) -> None:
    """Print a row for each stage."""
    from fedsim.data.datasets.drawn_events import DrawnEvents
    from fedsim.data.time.windows import bounds_of, snapshots_of

    torch.set_num_threads(1)
    os.environ["HOME"] = home
    data = DrawnEvents(like=like, scale=scale, drawn=0)  # type: ignore[arg-type]
    stage("drawing and writing", scale, lambda: data.file(0))
    graph = stage("reading and preparing", scale, lambda: data.topology(Path(), 0))
    stage("reading what was prepared", scale, lambda: data.topology(Path(), 0))
    print(f"{'':8} {len(graph['y']):,} nodes, {len(graph['since']):,} entries of edges")
    bounds = bounds_of(graph, steps, None)
    snapshots = stage(f"cutting {steps} snapshots", scale, partial(snapshots_of, graph, bounds))
    sizes = [snapshot["edges"].shape[1] for snapshot in snapshots]
    print(f"{'':8} {min(sizes):,} to {max(sizes):,} edges a snapshot, of which one delta is {24 * max(sizes):,} bytes")
    del graph, snapshots
    for algorithm in ("fedavg", "dg_colearn"):
        row = stage(f"a run of three snapshots, {algorithm}", scale, partial(run, data, steps, clients, algorithm))
        print(f"{'':8} {json.dumps(row)}")


def run(data: Any, steps: int, clients: int, algorithm: str) -> dict[str, Any]:
    """Return the bytes and the score of a run."""
    from fedsim import simulate

    result = simulate(
        {
            "name": "events", "seed": 0,
            "data": {
                "dataset": {"name": "drawn_events", "like": data.like, "scale": data.scale, "drawn": 0, "width": 8},
                "partition": {"name": "random"},
                "stream": {"name": "snapshots", "steps": steps, "every": "1 updates", "scored": "links"},
                "split": {"train": 0.6, "val": 0.2, "test": 0.2},
            },
            "task": "link_prediction",
            "model": {"name": "roland", "hidden": 8, "dropout": 0},
            "training": {"optimiser": "adam", "lr": 0.01, "local_steps": 1},
            "clients": {"count": clients, "speed": "10 GFLOP/s"},
            "network": {"latency": "20 ms", "uplink": "100 Mbit/s", "downlink": "100 Mbit/s"},
            "protocol": {"name": "sync", "rounds": 3, "participation": 1.0},
            "algorithm": {"name": "dg_colearn", "exchange": "exact"} if algorithm == "dg_colearn" else algorithm,
            "measure": {"metrics": ["average_precision"], "models": ["global"], "splits": ["test"]},
        }
    )  # fmt: skip
    row = result.summary().iloc[0]
    return {name: float(row[name]) for name in ("sim_seconds", "bytes_up", "bytes_down", "score")}


def stage(name: str, scale: float, work: Callable[[], Any]) -> Any:
    """Return what the work returns, and print its seconds, and the process's peak so far."""
    begin, cpu = time.perf_counter(), time.process_time()
    found = work()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(
        f"{scale:8g} {name:44} {time.perf_counter() - begin:8.1f} s {time.process_time() - cpu:8.1f} s of CPU "
        f"{peak:6.1f} GiB at most so far", flush=True,
    )  # fmt: skip
    return found


def main() -> None:
    """Measure every scale."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--like", default="tgbl_coin", choices=["tgbl_coin", "tgbn_reddit"])
    parser.add_argument("--scales", type=float, nargs="+", default=[0.01, 0.1])
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--clients", type=int, default=10)
    given = parser.parse_args()
    for scale in given.scales:
        with tempfile.TemporaryDirectory() as home:
            process = multiprocessing.get_context("spawn").Process(
                target=measured, args=(given.like, scale, given.steps, given.clients, home)
            )
            process.start()
            process.join()


if __name__ == "__main__":
    main()
