"""Sweeps whose points follow one another: which are trained, what is shown, and that nothing stale is followed."""

import os
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path

import fake_runs
import pyarrow.parquet as pq
import pytest
import small_points
import yaml
from small_points import PLAIN
from small_sweeps import Listener, calls, table

from fedsim import simulate
from fedsim.point.results.folders import RECORDS, TABLES, name_of
from fedsim.sweep.engines.local import Local
from fedsim.sweep.engines.queue import Died, Queue
from fedsim.sweep.runner import Sweep

ROOT = Path(__file__).resolve().parents[2]
SLOW, SLOWER, SLOWEST = "100 ms", "400 ms", "2 s"


def swept(out, *latencies, **more):
    """Run the small scenario at these latencies, and return the rows of its points by latency."""
    axes = {"grid__network.latency": latencies} if len(latencies) > 1 else {"network__latency": latencies[0]}
    result = simulate({**PLAIN, "grid": {}}, out=out, progress=False, **axes, **more)
    return result.runs


def trained(rows):
    return [not isinstance(followed, str) for followed in rows["followed"]]


@pytest.mark.parametrize("jobs", [1, pytest.param(2, marks=pytest.mark.long)])
def test_one_point_is_trained_and_the_others_have_the_tables_that_they_have_alone(tmp_path, jobs):
    some = swept(tmp_path / "some", SLOW, SLOWER, SLOWEST, jobs=jobs)
    each = swept(tmp_path / "each", SLOW, SLOWER, SLOWEST, following=False)
    assert trained(some) == [True, False, False]
    assert trained(each) == [True] * 3
    assert [*some["followed"][1:]] == [some["run"][0]] * 2
    assert not (tmp_path / "each" / RECORDS).exists()
    for point in some["run"]:
        for name in TABLES:
            one, other = (tmp_path / out / "points" / point / f"{name}.parquet" for out in ("some", "each"))
            assert one.read_bytes() == other.read_bytes()
    assert [row["followed"] for row in table(tmp_path / "some")] == ["", *some["followed"][1:]]


def test_a_point_that_is_added_later_costs_no_training(tmp_path):
    swept(tmp_path, SLOW)
    assert trained(swept(tmp_path, SLOW, SLOWER)) == [True, False]
    assert trained(swept(tmp_path, SLOWEST)) == [False]
    assert len([*(tmp_path / RECORDS).glob("*/*")]) == 1
    assert trained(swept(tmp_path, SLOWEST, fresh=True)) == [True]


def test_the_first_of_each_root_goes_first(tmp_path):
    points = [small_points.point(seed=seed, network__latency=latency) for seed in (1, 2) for latency in (SLOW, SLOWER)]
    both = Sweep(points, "given: here\n", tmp_path, tmp_path)
    assert [point.id for point in both._with_learning_keys(points)] == [points[place].id for place in (0, 2, 1, 3)]
    assert [point.learning_key for point in replace(both, following=False)._with_learning_keys(points)] == [""] * 4


def named(point, id, root):
    return replace(point, id=id, learning_key=root)


def test_a_root_has_one_running_point_until_one_has_ended(make):
    (point,) = make().points
    queue = Queue([named(point, f"{root}{number}", root) for root in "ab" for number in range(3)])
    first, second = queue.next(), queue.next()
    assert (first.id, second.id) == ("a0", "b0")
    assert queue
    assert not queue.ready
    assert queue.ended(first, "a row") == [(first, "a row")]
    assert [queue.next().id, queue.next().id] == ["a1", "a2"]
    assert not queue.ready
    assert queue.ended(second, Died("memory")) == []  # it is tried again, after the others of its root
    assert [queue.next().id] == ["b1"]
    assert not queue.ready


def test_points_without_a_root_never_wait(make):
    (point,) = make().points
    queue = Queue([named(point, str(number), "") for number in range(3)])
    assert [queue.next().id for _ in range(3)] == ["0", "1", "2"]
    assert not queue


def test_every_point_of_a_pool_ends_though_some_wait_for_others(make, tmp_path):
    sweep = make("well", "stall", seeds=[1, 2, 3])
    with Local(2, prepare="fake_runs") as engine:
        rows = sweep.run(fake_runs.run, engine, Listener())
    assert len(rows) == 6
    assert Counter(calls(tmp_path)) == {point.id: 1 for point in sweep.points}
    assert [row["run"] for row in rows] == [*map(name_of, sweep.points)]


OWN = '''\
"""FedAvg that may leave the model as it is."""

from collections.abc import Sequence
from dataclasses import dataclass

from algorithms.fedavg import FedAvg
from fedsim.learn.algorithm import Reply, State


@dataclass(frozen=True)
class Mine(FedAvg):
    """FedAvg that learns, or does not."""

    def update(self, state: State, replies: Sequence[Reply], step: str) -> State:
        learns = True
        return super().update(state, replies, step) if learns else {**state}
'''


@pytest.mark.long
def test_nothing_that_an_edited_algorithm_has_learned_is_followed(tmp_path):
    (tmp_path / "lab").mkdir()
    (tmp_path / "lab" / "mine.py").write_text(OWN)
    (tmp_path / "own.yaml").write_text(yaml.safe_dump({**PLAIN, "algorithm": "lab.mine"}))

    def command(*latencies):
        axis = f"grid.network.latency=[{', '.join(latencies)}]"
        line = [sys.executable, "-m", "fedsim", "own.yaml", "--set", axis, "--out", "out", "--jobs", "1", "--no-report"]
        paths = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
        done = subprocess.run(
            line, cwd=tmp_path, env={**os.environ, "PYTHONPATH": paths}, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        rows = table(tmp_path / "out")
        scores = [pq.read_table(tmp_path / "out" / "points" / row["run"] / "scores.parquet")["value"] for row in rows]
        return done.stdout, [bool(row["followed"]) for row in rows], [column.to_pylist() for column in scores]

    said, followed, before = command(SLOW, SLOWER)
    assert followed == [False, True]
    assert "1 reused a record" in said
    (tmp_path / "lab" / "mine.py").write_text(OWN.replace("learns = True", "learns = False"))
    said, followed, after = command(SLOW, SLOWER, SLOWEST)
    assert "mine.py has changed since" in said
    assert followed == [False, True, True]
    assert after[0] == after[1] == after[2] != before[0] == before[1]
