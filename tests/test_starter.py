"""`--init`: what it writes runs at once, from its own folder, and nothing is ever overwritten."""

import csv
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from test_command_line import ROOT, call  # noqa: F401

from fedsim.core.errors import UserError
from fedsim.sweep import starter


@pytest.mark.long
def test_the_study_is_written_and_runs_from_its_folder(call, tmp_path):  # noqa: F811
    code, out, told = call("--init", "study")
    assert (code, told) == (0, "")
    assert "cd study\n" in out
    folder = tmp_path / "study"
    assert {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()} == {*starter.FILES}
    words = "-m fedsim scenario.yaml --jobs 1 --no-report --set protocol.rounds=2 --set grid.seed=[0]"
    done = subprocess.run(
        [sys.executable, *words.split()], cwd=folder, capture_output=True, text=True, check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "80"},
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    assert max(map(len, done.stdout.splitlines())) <= 80
    with (folder / "runs" / "my_study" / "summary.csv").open(newline="") as file:
        rows = [*csv.DictReader(file)]
    assert [(row["algorithm"], row["status"]) for row in rows] == [("fedavg", "done"), ("own.momentum", "done")]
    assert (folder / "runs" / "my_study" / "results.txt").read_text().startswith("2 points")


def test_nothing_is_overwritten_and_nothing_is_left_half_done(call, tmp_path):  # noqa: F811
    (tmp_path / "study" / "own").mkdir(parents=True)
    (tmp_path / "study" / "own" / "momentum.py").write_text("mine")
    code, out, told = call("--init", "study")
    assert (code, out) == (2, "")
    assert "own/momentum.py is there already; give another folder" in told
    assert (tmp_path / "study" / "own" / "momentum.py").read_text() == "mine"
    assert not (tmp_path / "study" / "scenario.yaml").exists()
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="cannot be written"):
        starter.write(tmp_path / "file")


def test_a_folder_that_is_there_may_be_used(tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    starter.write(tmp_path)
    assert (tmp_path / "scenario.yaml").is_file()
    assert (tmp_path / "notes.txt").read_text() == "mine"


def test_the_files_are_part_of_the_package():
    packaged = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["package-data"][
        "fedsim.sweep"
    ]
    folder = Path(starter.__file__).parent
    found = {path.name for pattern in packaged for path in folder.parent.glob(pattern)}
    assert {*starter.FILES.values()} <= found
