"""What is estimated before any training, held against real runs; what there is to name."""

import re

import pandas as pd
import pytest
import small_points
from calling import QUICK
from small_points import EFFECTS

from fedsim.core.errors import UserError
from fedsim.learn.engine.cohort import JobQueue
from fedsim.point import preview as previews
from fedsim.point.preview import preview
from fedsim.scenario.parts import find
from fedsim.sweep import explain, listing

TREE = {"name": "tree", "edges": 2, "latency": "10 ms", "uplink": "8 Mbit/s", "downlink": "9 Mbit/s"}


@pytest.mark.long
@pytest.mark.parametrize(
    ("protocol", "more"),
    [
        ({"name": "sync", "rounds": 4, "participation": 0.6}, {}),
        (
            {"name": "sync", "rounds": 4, "participation": 0.6},
            {"network__effects": EFFECTS, "network__codec": {"up": "int8"}},
        ),
        ({"name": "deadline", "rounds": 4, "participation": 0.6, "wait": "600 ms"}, {}),
        ({"name": "buffered", "rounds": 4, "clients": 3, "buffer": 2}, {}),
        ({"name": "hierarchical", "rounds": 4, "participation": 0.6}, {"network__topology": TREE}),
    ],
)
def test_fedavg_takes_what_was_predicted_to_the_last_digit(protocol, more, tmp_path, monkeypatch):
    more = {"protocol": protocol, **more}
    with monkeypatch.context() as patch:
        patch.setattr(JobQueue, "settle", lambda cohort: pytest.fail("something was trained"))
        told = preview(small_points.scenario(**more), tmp_path)
    row = small_points.run_in(tmp_path / "run", **more)
    updates, transfers = (pd.read_parquet(tmp_path / "run" / f"{name}.parquet") for name in ("updates", "transfers"))
    pd.testing.assert_frame_equal(told.updates, updates)
    end = updates["time"].max()
    foretold, moved = (rows[rows["arrived"] < end].drop(columns="fate") for rows in (told.transfers, transfers))
    assert len(moved)
    pd.testing.assert_frame_equal(foretold.reset_index(drop=True), moved.reset_index(drop=True))
    assert totals_of(told) == measured(row)


def totals_of(told):
    totals = told.totals()
    return [totals["seconds"], totals["up"], totals["down"]]


def measured(row):
    return [row["sim_seconds"], row["bytes_up"], row["bytes_down"]]


@pytest.mark.parametrize("algorithm", ["power", "fed_pub", "local"])
def test_the_first_update_of_others_is_predicted_too(algorithm, tmp_path):
    told = preview(small_points.scenario(algorithm=algorithm), tmp_path, updates=1)
    small_points.run_in(tmp_path / "run", algorithm=algorithm, protocol={**small_points.SYNC, "rounds": 1})
    updates, transfers = (pd.read_parquet(tmp_path / "run" / f"{name}.parquet") for name in ("updates", "transfers"))
    assert told.seconds == updates["time"].tolist()
    for end in ("src", "dst"):
        moved = [rows.loc[rows[end] == -1, "nbytes"].tolist() for rows in (told.transfers, transfers)]
        assert moved[0] == moved[1]


# What a client is sent once, or keeps, is counted when it is sent: of a whole run, not of its first update.
ONCE = {
    "power": {"rebuild_steps": 8}, "fed_ergnn": {}, "fed_pub": {"proxy_blocks": 1}, "fed_proto": {},
    "feddgl": {"epochs": 4}, "fed_dyn": {}, "glfc": {"rebuild_steps": 2, "restarts": 0},
    "lander": {"rounds": 3, "inner_steps": 1, "batch": 8, "warm_up": 2, "student_steps": 1, "anchor_size": 5},
}  # fmt: skip
VALUES = {"glfc"}  # which keeps the model that does best: when it sends one hangs on what was learned


@pytest.mark.parametrize("algorithm", ONCE)
def test_totals_of_a_run_are_those_measured(algorithm, tmp_path):
    more = {"algorithm": {"name": algorithm, **ONCE[algorithm]}, "clients__speed": "lognormal(1 GFLOP/s, 0.5)"}
    told = preview(small_points.scenario(**more), tmp_path)
    row = small_points.run_in(tmp_path / "run", **more)
    assert totals_of(told) == pytest.approx(measured(row), rel=0.01 if algorithm in VALUES else 1e-9)


def test_the_rest_of_a_run_that_is_too_long_costs_as_what_came_after_its_first_update(tmp_path, monkeypatch):
    more = {"algorithm": {"name": "power", "rebuild_steps": 8}, "protocol": {**small_points.SYNC, "rounds": 40}}
    more |= {"data__stream": "static"}
    whole = preview(small_points.scenario(**more), tmp_path)
    monkeypatch.setattr(previews, "ENOUGH", 100)
    part = preview(small_points.scenario(**more), tmp_path)
    assert whole.share == 1 > part.share
    assert len(part.updates) < 0.5 * len(whole.updates)
    assert totals_of(part) == pytest.approx(totals_of(whole), rel=0.15)


def test_no_totals_where_a_round_has_exchanges_that_are_not_seen(tmp_path):
    told = preview(small_points.scenario(algorithm={"name": "fens", "aggregator_rounds": 2, "width": 6}), tmp_path)
    assert told.totals() is None


def test_a_size_that_only_training_tells_is_no_guess(monkeypatch, tmp_path):
    from algorithms.fedavg import FedAvg

    monkeypatch.setattr(FedAvg, "upload_like", lambda self, job: None)
    with pytest.raises(UserError, match="what FedAvg sends in its step 'train' is known only after training"):
        preview(small_points.scenario(), tmp_path)


def test_explain_says_what_will_run_and_writes_nothing(call, tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    text = QUICK.replace("algorithm: fedavg", "algorithm: {name: fedprox, mu: 0.5}")
    code, out, told = call("scenario.yaml", "--explain", text=text)
    assert (code, told) == (0, "")
    assert max(map(len, out.splitlines())) <= 80
    flat = " ".join(out.split())
    assert "runs 2: 2 seed clients 4" in flat
    assert "fedprox: FedProx: FedAvg with a pull towards the model received (Li et al., MLSys 2020); mu=0.5" in flat
    assert "weight_by" not in out
    assert "Conditions shown: all" in out
    assert out.rstrip().splitlines()[-1].startswith("the only run  ")
    assert [path.name for path in tmp_path.iterdir()] == ["scenario.yaml"]
    every = " ".join(call("scenario.yaml", "--explain", "-v", text=text)[1].split())
    assert re.search(r"; weight_by=period, .*mu=0\.5", every)


def test_what_differs_between_conditions_is_shown_and_what_does_not_is_said_once(call, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    grid = ["--set", "grid.network.latency=[1 ms, 2 ms, 4 ms, 8 ms]", "--set", "grid.protocol.participation=[0.5, 1]"]
    code, out, _ = call("scenario.yaml", "--explain", *grid)
    lines = out.splitlines()
    assert code == 0
    assert max(map(len, lines)) <= 80
    assert "Conditions shown: 6 of 8 (all: -v)" in lines
    rows = [line for line in lines if line.startswith("latency ")]
    assert len(rows) == 6
    assert all("peers" not in line for line in lines)
    assert "participation=0.5 | 1" in " ".join(out.split())


def test_few_conditions_show_every_value_of_every_axis():
    grid = {"protocol.participation": [0.2, 0.4, 0.6], "algorithm": ["fedavg", "fedprox", "local"], "seed": [0, 1]}
    points = explain.conditions([*small_points.scenario(grid=grid).points()])
    assert len(points) == 9
    few = explain.spread(points, 3)
    for axis in ("protocol.participation", "algorithm"):
        assert len({str(point.axes[axis]) for point in few}) == 3
    assert explain.spread(points, 20) == points


@pytest.mark.parametrize(
    ("kind", "name", "line", "source"),
    [
        ("algorithm", "fedavg", "Federated averaging", "McMahan et al., AISTATS 2017"),
        ("algorithm", "fedgta", "FedGTA: topology-aware averaging", 'Li et al., "FedGTA", VLDB 2023'),
        ("partition", "random", "Nodes assigned at random, in shares that differ by at most one node", ""),
    ],
)
def test_a_source_is_what_stands_in_brackets_with_a_year(kind, name, line, source):
    found = listing.entry(kind, name)
    assert found == (line, source)


def test_every_published_algorithm_has_a_source():
    assert {name for name in find.names("algorithm") if not listing.entry("algorithm", name)[1]} == {
        "local",
        "traffic",
    }
