"""Three clients over Flower, as processes of this machine: what they learn is what is simulated."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import small_points

pytest.importorskip("flwr", reason="needs Flower: pip install -e '.[flower]'")

KEYS = ("version", "client", "period", "seen", "model", "split", "metric")
ROOT = Path(__file__).parents[2]
SHORT = ["--set", "clients.count=3", "--set", "cohort.mode=loop"]


def scores(folder):
    [point] = [path.parent for path in folder.glob("points/*/scores.parquet")]
    return {tuple(row[key] for key in KEYS): row["value"] for row in small_points.table(point, "scores")}, point


def ran(*words):
    return subprocess.run(
        [sys.executable, "-m", *words], cwd=ROOT, env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True, text=True, check=False,
    )  # fmt: skip


@pytest.mark.long
def test_three_clients_learn_what_is_simulated(tmp_path):
    """Of POWER, whose clients send and keep the most; `test_deployed.py` has every algorithm without Flower."""
    protocol = "{name: sync, rounds: 2, participation: 1.0}"
    how = [*SHORT, "--set", "algorithm=power", "--set", f"protocol={protocol}", "--no-report"]
    done = ran("fedsim.deploy", "scenarios/pilot.yaml", "--out", str(tmp_path / "deployed"), *how)
    assert done.returncode == 0, done.stderr + done.stdout
    assert ran("fedsim", "scenarios/pilot.yaml", "--out", str(tmp_path / "simulated"), *how).returncode == 0
    (here, point), (there, other) = scores(tmp_path / "deployed"), scores(tmp_path / "simulated")
    assert here == there
    sizes = [
        sorted((row["kind"], row["src"], row["dst"], row["nbytes"]) for row in small_points.table(folder, "transfers"))
        for folder in (point, other)
    ]
    assert sizes[0] == sizes[1]
    assert all(row["sent"] < row["arrived"] for row in small_points.table(point, "transfers"))
