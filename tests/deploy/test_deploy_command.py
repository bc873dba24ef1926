"""The command: packages, what it refuses, and what it says where Flower is not installed."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from fedsim.core.errors import UserError
from fedsim.deploy import federation, package
from fedsim.deploy.__main__ import main

ROOT = Path(__file__).parents[2]
PILOT = str(ROOT / "scenarios" / "pilot.yaml")


def test_packages_hold_each_clients_own_data(tmp_path, capsys):
    assert main([PILOT, "--package", str(tmp_path / "pkg"), "--set", "clients.count=4"]) == 0
    assert capsys.readouterr().out.startswith("4 packages in ")
    owns = [package.read(tmp_path / "pkg" / f"client-{k}")[1] for k in range(4)]
    assert [own.client for own in owns] == [0, 1, 2, 3]
    sizes = [sum(len(period.graph["y"]) for period in own.periods) for own in owns]
    assert len({*sizes}) > 1
    rows = [row for own in owns for period in own.periods for row in map(bytes, period.graph["x"].numpy())]
    assert len(rows) == sum(sizes)
    assert len({*rows}) > 0.99 * len(rows)  # nobody has another one's nodes, but for equal digits


def test_what_is_no_package_is_told(tmp_path):
    with pytest.raises(UserError, match="is no client's package"):
        package.read(tmp_path)
    main([PILOT, "--package", str(tmp_path)])
    held = torch.load(tmp_path / "client-0" / package.DATA, weights_only=True)
    torch.save({**held, "fedsim": "0.0.1"}, tmp_path / "client-0" / package.DATA)
    with pytest.raises(UserError, match=r"was written by fedsim 0\.0\.1"):
        package.read(tmp_path / "client-0")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["nowhere.yaml"], "nowhere.yaml"),
        ([PILOT, "--set", "protocol={name: gossip, rounds: 2}", "--set", "network={latency: 1 ms, uplink: 1 Mbit/s, "
          "downlink: 1 Mbit/s, topology: {name: peers, graph: ring}}"], "protocol: 'gossip' is not deployed"),
        ([PILOT, "--set", "grid.seed=[0, 1]", "--package", "unused"], "has 2 runs"),
        ([PILOT, "--set", "data.dataset={name: drifting, nodes: 200, edges: 800, classes: 3, snapshots: 5}", "--set",
          "data.partition={name: louvain, each_snapshot: true}", "--set", "data.stream={name: snapshots, steps: 4, "
          "every: 2 updates}", "--set", "measure.splits=[test]", "--package", "unused"], "nodes get other owners"),
    ],
)  # fmt: skip
def test_mistakes_have_one_message_and_exit_code_2(words, says, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(words) == 2
    told = capsys.readouterr().err
    assert says in told
    assert "Traceback" not in told
    assert [*tmp_path.iterdir()] == []


def test_without_flower_it_says_what_to_install(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(federation.sys, "executable", str(tmp_path / "bin" / "python"))
    monkeypatch.chdir(tmp_path)
    assert main([PILOT]) == 2
    assert "deploying needs Flower: pip install" in capsys.readouterr().err
    assert [*tmp_path.iterdir()] == []


def test_help_has_examples():
    done = subprocess.run(
        [sys.executable, "-m", "fedsim.deploy", "--help"], cwd=ROOT, env={**os.environ}, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0
    assert "examples:" in done.stdout
