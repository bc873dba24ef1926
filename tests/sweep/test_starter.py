"""`--init`: what it writes runs at once, from its own folder, and nothing is ever overwritten."""

import csv
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from calling import ROOT

from fedsim.core.errors import UserError
from fedsim.sweep import starter


@pytest.mark.long
def test_the_study_is_written_and_runs_from_its_folder(call, tmp_path):
    code, out, told = call("--init", "study")
    assert (code, told) == (0, "")
    assert "cd study\n" in out
    folder = tmp_path / "study"
    assert {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()} == {
        *starter.STUDIES["algorithm"]
    }
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
    assert (folder / "runs" / "my_study" / "results.txt").read_text().startswith("2 runs")


def test_a_study_of_a_module_runs_from_its_folder_and_gives_its_network_back(call, tmp_path, monkeypatch):
    code, out, told = call("--init", "study", "--with", "module")
    assert (code, told) == (0, "")
    folder, net = tmp_path / "study", tmp_path / "study" / "own" / "net.py"
    assert len(net.read_text().splitlines()) <= 20
    lines = [line.strip() for line in out.partition("In Python:")[2].splitlines() if line.strip()]
    monkeypatch.chdir(folder)
    monkeypatch.syspath_prepend(str(folder))
    names: dict = {}
    exec("\n".join(lines).replace('"scenario.yaml"', '"scenario.yaml", progress=False, protocol__rounds=8'), names)
    result = names["result"]
    assert result.runs["status"].tolist() == ["done"] * 6
    assert result.runs["score"].min() > 0.3
    assert type(names["net"]).__name__ == "Net"
    assert {path.parent.name for path in folder.glob("runs/my_network/points/*/model.pt")} == {*result.runs["run"]}


def test_what_a_study_is_of_is_said_with_init_alone(call):
    code, _, told = call("--with", "module")
    assert (code, "--with says of what --init FOLDER writes a study" in told) == (2, True)


def test_nothing_is_overwritten_and_nothing_is_left_half_done(call, tmp_path):
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
    assert {template for study in starter.STUDIES.values() for template in study.values()} <= found
    assert starter.DEMO.name in found


def test_the_demo_runs_from_any_folder_and_says_who_is_first(call):
    code, out, _ = call("--demo", "--set", "protocol.rounds=4", "--set", "grid.seed=[0]", "--no-report")
    assert code == 0
    assert "6 runs" in out
    assert Path("runs/demo/summary.csv").is_file()


def test_the_demo_as_it_is_has_eighteen_runs_that_need_no_data(call):
    code, out, _ = call("--demo", "--dry-run")
    assert code == 0
    assert "18 runs" in out
    assert "digits" in out
    code, _, told = call("scenario.yaml", "--demo")
    assert (code, "--demo is a scenario of its own: leave out scenario.yaml or --demo" in told) == (2, True)
