"""A sweep of which some points fail ends as any other does: with the table, the reasons, the report and exit code 1."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from small_points import PLAIN
from small_sweeps import table

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
