"""`simulate`: the command's results as data frames, its mistakes as exceptions."""

import subprocess
import sys
from pathlib import Path

import fake_runs
import numpy as np
import pandas as pd
import pytest

import fedsim
from fedsim import __main__ as command_line
from fedsim import simulate
from fedsim.core.errors import UserError
from fedsim.scenario.schema import Scenario
from fedsim.scenario.text import yaml_text
from fedsim.sweep import simulation

SEND = {
    "name": "send",
    "clients": {"count": 3, "speed": "1 GFLOP/s"},
    "network": {"uplink": "8 Mbit/s", "downlink": "8 Mbit/s", "latency": "10 ms"},
    "protocol": {"name": "sync", "rounds": 2, "participation": 1.0},
    "algorithm": {"name": "traffic", "up": "1 MB", "down": "1 MB"},
    "grid": {"network.uplink": ["8 Mbit/s", "4 Mbit/s"]},
}


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_mapping_is_run_and_its_tables_are_of_all_points(here):
    result = simulate(SEND, progress=False)
    assert result.folder == Path("runs/send")
    assert result.runs["status"].tolist() == ["done", "done"]
    assert result.axes == ("network.uplink",)
    sent = result.transfers
    assert sent.columns[:3].tolist() == ["run", "network.uplink", "seed"]
    up = sent[(sent["dst"] == -1) & (sent["fate"] == "delivered")].groupby("network.uplink")["nbytes"].sum()
    assert up.to_dict() == dict.fromkeys(["8 Mbit/s", "4 Mbit/s"], 6 * sent["nbytes"].max())
    assert (result.runs["bytes_up"] == up["8 Mbit/s"]).all()
    assert 6_000_000 < up["8 Mbit/s"] < 6_001_000  # and a head for each message
    assert result.runs["sim_seconds"].is_monotonic_increasing
    assert len(result.updates) == 4
    assert {"start", "end", "what"} <= set(result.spans.columns)
    assert "<table" in result._repr_html_()
    with pytest.raises(KeyError, match="there is no table 'score'; there are transfers"):
        result.table("score")


def test_the_command_line_and_python_share_a_folder(here, monkeypatch):
    (here / "send.yaml").write_text(yaml_text.text_of(SEND))
    assert command_line.main(["send.yaml", "--no-report", "--jobs", "1"]) == 0
    before = {path: path.stat().st_mtime_ns for path in here.glob("runs/send/points/*/*.parquet")}
    monkeypatch.setattr(simulation, "run", None)  # nothing is left to run
    result = simulate("send.yaml", progress=False)
    assert {path: path.stat().st_mtime_ns for path in here.glob("runs/send/points/*/*.parquet")} == before
    written = pd.read_csv("runs/send/summary.csv")
    assert result.runs["bytes_up"].tolist() == written["bytes_up"].tolist()


def test_overrides_set_keys_axes_and_options_of_parts(here):
    numbers = {"clients__count": np.int64(2), "grid__seed": (4, 5), "grid__network.uplink": ["1 Mbit/s"]}
    result = simulate(SEND, progress=False, out=here / "own", algorithm__up="10 kB", **numbers)
    assert result.runs["seed"].tolist() == [4, 5]
    assert result.runs["bytes_up"].between(40_000, 41_000).all()
    assert SEND["grid"] == {"network.uplink": ["8 Mbit/s", "4 Mbit/s"]}
    given = (here / "own" / "scenario.yaml").read_text()
    assert "# with grid__seed=(4, 5)\n" in given


def test_a_scenario_object_is_the_same_as_its_mapping(here):
    one = simulate(SEND, progress=False)
    two = simulate(Scenario.model_validate(SEND), progress=False, out="other")
    assert one.runs["run"].tolist() == two.runs["run"].tolist()


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ({"clients__cuont": 3}, r"clients__cuont=3: .*cuont"),
        ({"clients__count": -1}, r"clients__count=-1: clients.count"),
        ({"grid__seed": 3}, r"grid__seed=3: an axis is a list, as in grid__seed=\[3\]"),
        ({"algorithm": "powr"}, r"algorithm='powr': algorithm.*power"),
        ({"jobs": 0}, "jobs=0: give 1"),
    ],
)
def test_a_mistake_is_one_message_and_nothing_is_written(here, overrides, message):
    with pytest.raises(UserError, match=message):
        simulate(SEND, progress=False, **overrides)
    assert not [*here.iterdir()]


def test_a_missing_file_is_reported(here):
    with pytest.raises(UserError, match="there is no such file"):
        simulate("nowhere.yaml")


def test_failed_points_are_warned_of_and_kept_in_the_table(here, monkeypatch):
    (here / "data").mkdir()
    failing = {**SEND, "grid": {"algorithm.up": ["1 MB", "2 MB"]}}

    def run(point, *rest):
        if point.scenario.algorithm.options["up"] == "2 MB":
            raise RuntimeError("the numbers do not add up")
        return fake_runs.run(point, *rest)

    monkeypatch.setattr(simulation, "run", run)
    with pytest.warns(RuntimeWarning, match="1 of 2 runs failed, see "):
        result = simulate(failing, data="data", progress=False)
    assert sorted(result.runs["status"]) == ["done", "failed"]


@pytest.mark.long
def test_a_report_is_written(here):
    result = simulate(SEND, progress=False, grid__seed=[0], **{"grid__network.uplink": ["1 Mbit/s"]})
    assert result.report() == Path("runs/send/report/report.html")
    assert "<html" in Path("runs/send/report/report.html").read_text("utf-8")
    with pytest.raises(UserError, match=r"the report could not be written: .*Not a directory"):
        result.report(result.folder / "summary.csv")


def test_the_package_alone_imports_neither_pandas_nor_torch():
    code = "import fedsim, sys; print('pandas' in sys.modules, 'torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False"]
    with pytest.raises(AttributeError, match="no attribute 'simulat'"):
        _ = fedsim.simulat
