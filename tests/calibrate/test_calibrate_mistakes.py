"""Mistakes end with one message and nothing written; a CSV of transfers becomes a replay."""

import subprocess
import sys

import numpy as np
import pytest
import yaml

from fedsim.__main__ import main as run_fedsim
from fedsim.calibrate import output, quality
from fedsim.calibrate.__main__ import main
from fedsim.calibrate.measured import Spans

from fitted_links import moved  # isort: skip

HEADER = "client,direction,bytes,start_s,end_s,operations\n"
LINK = (0.06, 5e6, 20e6)


@pytest.fixture
def transfers(tmp_path):
    """A CSV of messages of several sizes over one link, and of work of 5 GFLOP at 10 GFLOP/s."""
    rows = moved(LINK, (500, 100_000, 2_000_000))
    lines = [
        f"0,{'up' if up else 'down'},{nbytes},{start},{end},"
        for up, nbytes, start, end in zip(rows.upload, rows.nbytes, rows.sent, rows.arrived, strict=True)
    ]
    path = tmp_path / "transfers.csv"
    path.write_text(HEADER + "\n".join([*lines, "0,work,0,50,50.5,5e9", ""]))
    return path


def test_a_csv_of_transfers(transfers, tmp_path, capsys):
    out = tmp_path / "clients.csv"
    assert main([str(transfers), "--out", str(out)]) == 0
    row = np.genfromtxt(out, delimiter=",", names=True)
    found = row["rtt_ms"] / 1e3, row["uplink_mbps"] * 1e6, row["downlink_mbps"] * 1e6
    assert found == pytest.approx(LINK, rel=1e-3)
    assert row["gflops"] == pytest.approx(10)
    assert "24 messages 0 %" in capsys.readouterr().out
    assert (
        run_fedsim([str(out.with_suffix(".yaml")), "--out", str(tmp_path / "run"), "--jobs", "1", "--no-report"]) == 0
    )


def test_a_csv_for_a_scenario(transfers, tmp_path):
    (tmp_path / "study.yaml").write_text(
        yaml.safe_dump({
            "name": "study", "clients": {"count": 3}, "network": {"profile": "lte"},
            "protocol": {"name": "sync", "rounds": 2, "participation": 1.0},
            "algorithm": {"name": "traffic", "down": "1 kB", "up": "1 kB"},
        })
    )  # fmt: skip
    out = tmp_path / "clients.csv"
    assert main([str(transfers), "--scenario", str(tmp_path / "study.yaml"), "--out", str(out)]) == 0
    written = yaml.safe_load(out.with_suffix(".yaml").read_text())
    assert (written["name"], written["protocol"]["name"], written["network"]["profile"]) == ("clients", "sync", None)
    assert len(out.read_text().splitlines()) == 4


def test_nothing_is_replaced_unless_told_to(transfers, tmp_path, capsys):
    out = tmp_path / "clients.csv"
    assert main([str(transfers), "--out", str(out)]) == 0
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    assert main([str(transfers), "--out", str(out)]) == 2
    assert "is there already; give --force" in capsys.readouterr().err
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before
    assert main([str(transfers), "--out", str(out), "--force"]) == 0


MISTAKES = {
    "no header": ("0,up,5,0,1\n", [], "header"),
    "no such direction": (HEADER + "0,sideways,5,0,1,\n", [], "line 2: column 'direction': 'sideways'"),
    "backwards": (HEADER + "0,up,5,0,1,\n0,up,5,3,2,\n", [], "line 3: column 'end_s': 2 is not after the start, 3"),
    "only work": (HEADER + "0,work,0,0,1,5\n", [], "has no transfer, only work"),
    "one way": (HEADER + "0,up,500,0,1,\n", [], "nothing tells downlink_mbps; give it with --known"),
    "no table": (None, [], "there is no such file"),
    "until": (HEADER + "0,up,5,0,1,\n", ["--until", "later"], "--until later: write a share"),
    "beyond": (HEADER + "0,up,5,0,1,\n", ["--until", "3 s"], "the run ends at 1 s"),
    "too early": (HEADER + "0,up,5,0,1,\n", ["--until", "0.5"], "no message had arrived by then"),
    "operations": (HEADER + "0,up,5,0,1,\n", ["--operations", "-1"], "--operations -1: give a number above 0"),
    "known": (HEADER + "0,up,5,0,1,\n", ["--known", "none.csv"], "none.csv: there is no such file"),
    "scenario": (HEADER + "0,up,5,0,1,\n", ["--scenario", "none.yaml"], "none.yaml: there is no such file"),
}


@pytest.mark.parametrize(("text", "flags", "message"), MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_is_one_message(text, flags, message, tmp_path, capsys):
    path = tmp_path / "transfers.csv"
    if text is not None:
        path.write_text(text)
    assert main([str(path), "--out", str(tmp_path / "clients.csv"), *flags]) == 2
    said = capsys.readouterr()
    assert message in said.err
    assert said.err.startswith("fedsim.calibrate: ")
    assert not said.out
    assert [each.name for each in tmp_path.iterdir()] == ["transfers.csv"] * (text is not None)


def test_places_that_are_no_runs(transfers, tmp_path, capsys):
    wrong = {
        str(tmp_path / "none"): "there is no such folder",
        str(tmp_path): "not a folder of results, nothing in points/ has a transfers.parquet",
    }
    for run, message in wrong.items():
        assert main([run, "--out", str(tmp_path / "c.csv")]) == 2
        assert message in capsys.readouterr().err
    for point in ("seed=1-012345", "seed=2-012346"):
        (tmp_path / "points" / point).mkdir(parents=True)
        (tmp_path / "points" / point / "transfers.parquet").write_bytes(b"")
    assert main([str(tmp_path), "--out", str(tmp_path / "c.csv")]) == 2
    assert "has 2 runs; name the folder of one of them" in capsys.readouterr().err
    for out, message in (("c.txt", "ends in .csv"), ("none/c.csv", "there is no folder")):
        assert main([str(transfers), "--out", str(tmp_path / out)]) == 2
        assert message in capsys.readouterr().err
    (tmp_path / "known.csv").write_text("client,rtt_ms\n7,30\n")
    assert main([str(transfers), "--out", str(tmp_path / "c.csv"), "--known", str(tmp_path / "known.csv")]) == 2
    assert "known.csv, line 2: client 7: the run has 1 clients" in capsys.readouterr().err


def test_a_run_without_its_tables_or_of_another_network(tmp_path, capsys):
    point = tmp_path / "0123456789ab"
    point.mkdir()
    peers = {"name": "peers", "graph": "ring"}
    scenario = {
        "name": "s", "clients": {"count": 4}, "network": {"profile": "lte"},
        "protocol": {"name": "sync", "rounds": 2, "participation": 1.0},
        "algorithm": {"name": "traffic", "down": 0, "up": 0},
    }  # fmt: skip
    (point / "transfers.parquet").write_bytes(b"not a table")
    for topology, message in ((peers, "the network is a peers"), ("star", "cannot be read")):
        scenario["network"]["topology"] = topology
        (point / "scenario.yaml").write_text(yaml.safe_dump(scenario))
        assert main([str(point), "--out", str(tmp_path / "c.csv")]) == 2
        assert message in capsys.readouterr().err


def test_help_has_examples():
    done = subprocess.run(
        [sys.executable, "-m", "fedsim.calibrate", "--help"], capture_output=True, text=True, check=True
    )
    assert "examples:" in done.stdout
    assert "50% of the run" in " ".join(done.stdout.split())


def test_absences_become_a_table_of_times_online():
    offline = Spans(np.array([2, 0, 2, 2]), np.array([5.0, 0.0, 1.0, 6.0]), np.array([9.0, 4.0, 2.0, 7.0]))
    assert output.online(offline) == [
        {"client": 0, "on_s": 4.0, "off_s": None},
        {"client": 2, "on_s": 0.0, "off_s": 1.0},
        {"client": 2, "on_s": 2.0, "off_s": 5.0},
        {"client": 2, "on_s": 9.0, "off_s": None},
    ]


def test_errors_are_of_what_could_be_predicted():
    found = quality.errors(np.array([1.1, np.nan, 4.0, 9.0]), np.array([1.0, 5.0, 5.0, 10.0]))
    assert (found.count, found.median) == (3, pytest.approx(0.1))
    assert found.most == pytest.approx(0.18)
    assert quality.errors(np.array([np.nan]), np.array([1.0])).count == 0
