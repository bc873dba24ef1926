"""A sweep of which some points fail ends as any other does: with the table, the reasons, the report and exit code 1."""

import os
import random
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
import yaml
from small_points import PLAIN
from small_sweeps import table

from fedsim import simulate
from fedsim.point import attempt

outcome = attempt.PointOutcome

ROOT = Path(__file__).resolve().parents[2]
FRAGILE = '''\
"""FedAvg that fails under one seed."""

from collections.abc import Sequence
from dataclasses import dataclass

from algorithms.fedavg import FedAvg
from fedsim.learn.algorithm import Reply, State


@dataclass(frozen=True)
class Fragile(FedAvg):
    """FedAvg whose server fails under one seed."""

    bad: int = 1

    def update(self, state: State, replies: Sequence[Reply], step: str) -> State:
        if self.task.seed == self.bad:
            raise RuntimeError("this one breaks")
        return super().update(state, replies, step)
'''


def command(folder, **changes):
    """Run the command `fedsim` on the small scenario with keys changed, in this folder."""
    (folder / "lab").mkdir(exist_ok=True)
    (folder / "lab" / "fragile.py").write_text(FRAGILE)
    (folder / "own.yaml").write_text(yaml.safe_dump({**PLAIN, **changes}))
    return subprocess.run(
        [sys.executable, "-m", "fedsim", "own.yaml", "--out", "out", "--jobs", "1"], cwd=folder, text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, check=False,
    )  # fmt: skip


@pytest.mark.long
@pytest.mark.parametrize("seeds", [[1, 2], [2, 1]], ids=["the first fails", "the second fails"])
def test_a_sweep_with_a_failed_point_ends_with_table_and_report_and_so_does_its_repetition(tmp_path, seeds):
    for _ in range(2):
        done = command(tmp_path, algorithm="lab.fragile", grid={"seed": seeds})
        assert (done.returncode, done.stderr) == (1, "")
        failed, ended = sorted(table(tmp_path / "out"), key=lambda row: row["status"] == "done")
        assert (failed["status"], failed["seed"], ended["status"], ended["seed"]) == ("failed", "1", "done", "2")
        log = f"out/points/{failed['run']}/error.log"
        assert f"failed: 1 of 2 runs, see {log}" in done.stdout
        assert "this one breaks" in (tmp_path / log).read_text()
        for text in (done.stdout, (tmp_path / "out" / "results.txt").read_text("utf-8")):
            assert f"{float(ended['score']):.3f} (1 of 2)" in text  # and not on a line of its own
            assert "Fragile" in text
        assert "report: out/report/report.html" in done.stdout
        assert (tmp_path / "out" / "report" / "report.html").is_file()


FORGETFUL = '''\
"""FedAvg whose update returns nothing."""

from dataclasses import dataclass

from algorithms.fedavg import FedAvg


@dataclass(frozen=True)
class Fragile(FedAvg):
    """FedAvg whose update returns nothing."""

    def update(self, state, replies, step):
        super().update(state, replies, step)
'''
DRAWING = '''\
"""FedAvg that draws from the global generators."""

import random
from dataclasses import dataclass

import numpy as np
import torch

from algorithms.fedavg import FedAvg
from fedsim.learn.engine import tree


@dataclass(frozen=True)
class Fragile(FedAvg):
    """FedAvg that draws from the global generators."""

    def update(self, state, replies, step):
        new = super().update(state, replies, step)
        drawn = random.random() + np.random.rand() + torch.rand(1).item()
        return {**new, "model": tree.transform(lambda leaf: leaf * drawn / 1.5, new["model"])}
'''


def run_in(folder, text, monkeypatch, **changes):
    """Run the small scenario with an algorithm of one's own, and return its results."""
    (folder / "lab").mkdir(exist_ok=True)
    (folder / "lab" / "fragile.py").write_text(text)
    monkeypatch.chdir(folder)
    monkeypatch.syspath_prepend(folder)
    for module in [name for name in sys.modules if name.split(".")[0] == "lab"]:
        monkeypatch.delitem(sys.modules, module)
    return simulate({**PLAIN, "algorithm": "lab.fragile", **changes}, progress=False, fresh=True)


def test_a_part_that_returns_nothing_is_named_where_none_of_its_lines_has_failed(tmp_path, monkeypatch):
    shown = []
    monkeypatch.setattr(attempt, "PointOutcome", lambda *told, **more: shown.append(told) or outcome(*told, **more))
    with pytest.warns(RuntimeWarning, match="1 of 1 runs failed"):
        run_in(tmp_path, FORGETFUL, monkeypatch)
    assert shown[0][0].endswith("; does all in lab/fragile.py return what it must?")


def test_what_draws_from_the_global_generators_gives_the_same_again(tmp_path, monkeypatch):
    first = run_in(tmp_path, DRAWING, monkeypatch).scores
    random.random(), np.random.rand(), torch.rand(1)  # somebody else's draws
    states = random.getstate(), np.random.get_state()[1].tolist(), torch.get_rng_state().tolist()
    second = run_in(tmp_path, DRAWING, monkeypatch).scores
    assert first.equals(second)
    assert states == (random.getstate(), np.random.get_state()[1].tolist(), torch.get_rng_state().tolist())
    assert not first.equals(run_in(tmp_path, DRAWING, monkeypatch, seed=5).scores)
