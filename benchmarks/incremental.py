"""What training on what has changed saves on a growing graph of a million edges, and what that costs in score.

    python benchmarks/incremental.py [--nodes 211000] [--communities 2000] [--threads 1]

Two points of scenarios/incremental.yaml in one process, in turn: DG-CoLearn that trains on what a change reaches and
exchanges exactly what has become stale, against full retraining with the exchange of every node at a cut.  Both have
the same data, prepared once and not timed; `real` is the clock and everything in it, evaluation (the same for both)
too.  The first snapshot is new to both and the same work: the ratios are of the later ones, beside those of all.
Training is what clients take on the simulated clock, all together, an exchange's answers included; at a constant speed
of 1 GFLOP/s a second is a billion operations.  Exchanged bytes are those of the answers and corrections.  The
partition's work is that of following newcomers, against making each one anew.  The
check is that the mean score on test labels of the later snapshots differs by a point at most, and it says if not.
"""

import argparse
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from fedsim.data.partitions.colearn import CoLearn
from fedsim.point.build import learning
from fedsim.point.build.parts import Parts
from fedsim.point.run import run
from fedsim.scenario.part import Part
from fedsim.scenario.parts import find
from fedsim.scenario.schema import Point
from fedsim.scenario.text import yaml_file

SCENARIO = Path(__file__).parents[1] / "scenarios" / "incremental.yaml"
SIDES = {"incremental": ("incremental", "exact"), "full": ("full", "full_graph")}
EXCHANGE = ("embed", "correct")
MEASURES = ("train", "longest", "up", "down")
TOLERANCE = 0.01


def measured(point: Point, folder: Path) -> dict[str, Any]:
    """Run a point; return its real seconds, score, and what each snapshot took."""
    began = time.perf_counter()
    run(point, folder, folder, lambda _: None)
    real = time.perf_counter() - began
    read = {name: pd.read_parquet(folder / f"{name}.parquet") for name in ("spans", "transfers", "arrivals", "scores")}
    begin = read["arrivals"].groupby("period")["time"].min().to_numpy()
    spans = read["spans"].query("what == 'train'")
    took, at = spans["end"] - spans["start"], np.searchsorted(begin, spans["start"], side="right") - 1
    sent = read["transfers"][read["transfers"]["kind"].isin(EXCHANGE)]
    when = np.searchsorted(begin, sent["sent"], side="right") - 1
    every = range(len(begin))
    found = {"train": took.groupby(at).sum(), "longest": took.groupby(at).max()}
    for name, end in (("up", sent["dst"]), ("down", sent["src"])):
        found[name] = sent["nbytes"].where(end == -1, 0).groupby(when).sum()
    table = {name: column.reindex(every, fill_value=0).to_numpy() for name, column in found.items()}
    return {"real": real, "score": scored(read["scores"]), **table}


def scored(scores: pd.DataFrame) -> float:
    """Return the pooled test accuracy of the later snapshots, each as its last update left it."""
    rows = scores.query("period < seen and period > 0 and split == 'test' and metric == 'accuracy'")
    last = rows[rows["version"] == rows.groupby("period")["version"].transform("max")]
    return float(np.average(last["value"], weights=last["weight"]))


def partitioned(point: Point) -> list[list[int]]:
    """Return the entries read for each snapshot: by following, and by making all anew."""
    data = point.scenario.data
    assert data is not None
    graph = find.build("dataset", Part(name=data.dataset.name, options=data.dataset.options)).load(Path(), 0)
    snapshots = find.build("stream", data.stream).snapshots(graph)
    clients = point.scenario.clients.count
    assert clients is not None
    assert data.stream is not None
    return [[step.scanned for step in CoLearn(repartition=anew).steps(snapshots, clients)] for anew in (False, True)]


def main() -> None:
    """Run both sides and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=211000, help="of the last snapshot; five times as many edges")
    parser.add_argument("--communities", type=int, default=2000)
    parser.add_argument("--threads", type=int, default=1)
    given = parser.parse_args()
    flags = [
        f"data.dataset.nodes={given.nodes}", f"data.dataset.edges={5 * given.nodes}",
        f"data.dataset.communities={given.communities}", f"threads={given.threads}",
    ]  # fmt: skip
    scenario, _ = yaml_file.load(SCENARIO, flags)
    points = {(point.axes["algorithm.retrain"], point.axes["algorithm.exchange"]): point for point in scenario.points()}
    first = points[SIDES["incremental"]].scenario
    assert first.clients.count is not None
    learning.prepare(Parts(first), Path())
    with tempfile.TemporaryDirectory() as folder:
        sides = {name: measured(points[side], Path(folder)) for name, side in SIDES.items()}
    print(f"{5 * given.nodes:,} undirected edges in the last snapshot, {given.threads} thread(s)\n")
    print(f"{'':34}{'incremental':>14}{'full':>14}{'full : incr.':>14}")
    for name in MEASURES:
        for what, part in (("first snapshot", slice(0, 1)), ("later ones", slice(1, None)), ("all", slice(None))):
            tell(f"{name}, {what}", *(float(side[name][part].sum()) for side in sides.values()))
    followed, anew = partitioned(points[SIDES["incremental"]])
    periods = len(sides["full"]["train"])
    tell("entries read, later ones", float(sum(followed[1:periods])), float(sum(anew[1:periods])))
    tell("real seconds", *(side["real"] for side in sides.values()))
    one, other = (side["score"] for side in sides.values())
    print(f"{'accuracy, later ones':34}{one:14.4f}{other:14.4f}{other - one:+14.4f}")
    print(f"scores {'agree' if abs(one - other) <= TOLERANCE else 'DO NOT agree'} within {TOLERANCE:.0%}")


def tell(name: str, one: float, other: float) -> None:
    """Print a line of the table."""
    print(f"{name:34}{one:14,.2f}{other:14,.2f}{other / one if one else float('inf'):14.1f}")


if __name__ == "__main__":
    main()
