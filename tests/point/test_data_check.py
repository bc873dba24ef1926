"""Data that cannot be used are refused before any worker starts, once, by every command that loads them."""

import numpy as np
import pytest

from fedsim.data.datasets import synthetic
from fedsim.point.build import prepared
from fedsim.sweep.engines import local

TEXT = """
name: small
data: {dataset: {name: synthetic, nodes: 120, classes: 3, features: 5}, partition: random}
model: {name: gcn, hidden: 4}
training: {optimiser: sgd, lr: 0.5, local_steps: 1}
clients: {count: 3, speed: 2 GFLOP/s}
network: {latency: 50 ms, uplink: 5 Mbit/s, downlink: 20 Mbit/s}
protocol: {name: sync, rounds: 1, participation: 1.0}
algorithm: fedavg
device: cpu
grid: {protocol.participation: [0.5, 1.0], seed: [0, 1]}
"""
NO_GRAPH = ["--set", "data.dataset={name: file, file: bad.npz}"]
TOO_MANY = ["--set", "clients.count=500"]
NO_SPLIT = ["--set", "data.split={by: given}"]


@pytest.fixture
def loads(monkeypatch):
    """The seeds with which the graph was made."""
    prepared.periods_of.cache_clear()
    seen, load = [], synthetic.Synthetic.load
    monkeypatch.setattr(
        synthetic.Synthetic, "load", lambda self, root, seed: seen.append(seed) or load(self, root, seed)
    )
    return seen


@pytest.mark.parametrize("mode", [["--explain"], ["--dry-run", "--data", "."], ["--jobs", "2"], ["--tune", "2"]])
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (NO_GRAPH, "bad.npz cannot be read as a NumPy archive"),
        (TOO_MANY, "--set clients.count=500: clients.count: 500 clients"),
        (NO_SPLIT, "data.split.by: the data set has no nodes to train on"),
    ],
)
def test_data_that_cannot_be_used_are_one_message(call, tmp_path, monkeypatch, mode, change, message):
    (tmp_path / "bad.npz").write_text("no archive")
    monkeypatch.setattr(local.WorkerProcess, "begin", lambda *_: pytest.fail("a worker was started"))
    code, out, told = call("scenario.yaml", *mode, *change, text=TEXT)
    assert code == 2
    assert out.count(message) + told.count(message) == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bad.npz", "scenario.yaml"]


def test_a_dry_run_loads_data_only_if_it_is_told_where_they_are(call, loads):
    code, out, _ = call("scenario.yaml", "--dry-run", text=TEXT)
    assert (code, loads) == (0, [])
    assert "no data was loaded" in out
    code, out, _ = call("scenario.yaml", "--dry-run", "--data", ".", text=TEXT)
    assert (code, loads) == (0, [0])  # once, however many points have them
    assert "the data can be used" in out


def test_what_was_checked_is_not_made_again_in_the_same_process(call, loads):
    code, *_ = call("scenario.yaml", "--jobs", "1", "--no-report", text=TEXT)
    assert code == 0
    assert sorted(loads) == [0, 1]


def test_an_axis_is_blamed_for_its_value(call):
    text = TEXT.replace("grid: {", "grid: {clients.count: [3, 500], ")
    code, _, told = call("scenario.yaml", "--explain", text=text)
    assert code == 2
    assert "line 11: grid.clients.count.1: 500 clients" in told


def test_a_fault_of_a_parts_code_is_left_to_its_point(call, loads, monkeypatch):
    monkeypatch.setattr(synthetic.Synthetic, "load", lambda self, root, seed: {}["absent"])
    code, out, told = call("scenario.yaml", "--jobs", "1", "--no-report", text=TEXT)
    assert code == 1
    assert "KeyError: 'absent'" in out + told


@pytest.mark.parametrize("mode", [["--explain"], ["--dry-run", "--data", "."], ["--jobs", "1", "--no-report"]])
def test_what_is_hardly_meant_is_noted_once(call, tmp_path, mode):
    edges = np.array([[*range(39)], [*range(1, 40)]])
    np.savez(tmp_path / "one.npz", x=np.ones((40, 3), "f4"), y=np.zeros(40, int), edge_index=edges)
    change = ["--set", "data.dataset={name: file, file: one.npz}", "--set", "network.uplink=1e30 Mbit/s"]
    change += ["--set", "clients.speed=4e18 FLOP/s"]
    code, out, _ = call("scenario.yaml", *mode, *change, text=TEXT)
    assert code == 0
    assert out.count("data.dataset: 'file' has a single class") == 1
    assert out.count("network.uplink: 1e+36 bit/s is more than any link carries") == 1
    assert out.count("clients.speed: 4e+18 FLOP/s is more than any client has: is it the right unit?") == 1


def test_a_usual_scenario_has_no_notes(call):
    code, out, _ = call("scenario.yaml", "--dry-run", "--data", ".", text=TEXT)
    assert code == 0
    assert out.splitlines()[1].split() == ["run", "participation", "seed"]
