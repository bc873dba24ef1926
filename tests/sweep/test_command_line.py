import csv
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from calling import QUICK, ROOT

from fedsim import __main__ as command_line
from fedsim import __version__
from fedsim.sweep import simulation


def test_help_has_examples_and_version_is_printed(call):
    code, out, _ = call("--help")
    assert code == 0
    assert "examples:\n  python -m fedsim --demo\n" in out
    assert call("--version") == (0, f"fedsim {__version__}\n", "")


def test_an_option_that_would_replace_what_a_run_provides_is_refused(call, tmp_path, monkeypatch):
    head = "from dataclasses import dataclass\nfrom algorithms.scaffold import Scaffold\n\n\n@dataclass(frozen=True)\n"
    (tmp_path / "own_lab").mkdir()
    (tmp_path / "own_lab" / "fast.py").write_text(f"{head}class Fast(Scaffold):\n    momentum: float = 0.9\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "own_lab", raising=False)
    told = "algorithm: own_lab/fast.py: Fast defines 'momentum'"
    named = ["scenario.yaml", "--set", "algorithm=own_lab.fast"]
    for words in (named, [*named, "--dry-run"], ["--try", "own_lab.fast"]):
        code, _, err = call(*words)
        assert (code, told in err, err.count("\n")) == (2, True, 1), err


def test_the_schema_in_the_project_is_current(call):
    code, out, _ = call("--schema")
    assert code == 0
    assert json.loads(out)["additionalProperties"] is False
    assert out == (ROOT / "scenarios" / "schema.json").read_text("utf-8"), (
        "write it anew: python -m fedsim --schema > scenarios/schema.json"
    )


def test_dry_run_prints_the_points_and_the_first_scenario(call, tmp_path):
    code, out, _ = call("scenario.yaml", "--dry-run")
    assert code == 0
    lines = out.splitlines()
    start = next(number for number, line in enumerate(lines) if line.split() == ["run", "seed"])
    assert [line.split()[1] for line in lines[start + 1 : start + 3]] == ["0", "1"]
    assert out.count("# run ") == 1
    assert "uplink: lognormal(5 Mbit/s, 1.0)" in out
    assert call("scenario.yaml", "--dry-run", "-v")[1].count("# run ") == 2
    assert [path.name for path in tmp_path.iterdir()] == ["scenario.yaml"]


@pytest.mark.parametrize("arguments", [["--list"], ["--help"], ["--schema"]])
def test_what_needs_no_torch_does_not_import_it(tmp_path, arguments):
    (tmp_path / "scenario.yaml").write_text(QUICK)
    code = (
        "import sys; from fedsim.__main__ import main\n"
        f"try: main({arguments!r})\nexcept SystemExit: pass\n"
        "assert 'fedsim.scenario.schema' in sys.modules and 'torch' not in sys.modules, 'torch was imported'"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("arguments", "text", "message"),
    [
        (
            ["scenario.yaml"],
            QUICK.replace("count", "cont"),
            "scenario.yaml, line 5: clients.cont: there is no such key",
        ),
        (["scenario.yaml"], QUICK.replace("0.5", "5"), "line 11: protocol.participation: 5 is not a fraction"),
        (["scenario.yaml"], QUICK.replace("hidden: 8", "hidden: 0"), "line 3: model.hidden: 0 is not a count"),
        (
            ["scenario.yaml", "--set", "clients.count=x"],
            QUICK,
            "--set clients.count=x: clients.count: 'x' is not a count",
        ),
        (["scenarios.yaml"], QUICK, "there is no such file; did you mean scenario.yaml?"),
        (["--dry-run"], QUICK, "name a scenario file"),
        (["scenario.yaml", "--jobs", "0"], QUICK, "'0' is not a number of processes of at least 1"),
        (["scenario.yaml", "--engine", "slurm"], QUICK, "choose from"),
        (["scenario.yaml", "--drie-run"], QUICK, "unrecognized arguments: --drie-run"),
        (["scenario.yaml", "--out", "scenario.yaml/x"], QUICK, "cannot be written"),
        (
            ["scenario.yaml", "--set", "clients.count=5000", "--no-report", "--jobs", "1"],
            QUICK,
            "--set clients.count=5000: clients.count: 5000 clients cannot",
        ),
    ],
)
def test_a_mistake_is_one_message_exit_code_2_and_nothing_written(call, tmp_path, arguments, text, message):
    code, _, told = call(*arguments, text=text)
    assert code == 2
    assert message in told
    assert [path.name for path in tmp_path.iterdir()] == ["scenario.yaml"]


def test_a_run_leaves_its_results_and_continues(call, tmp_path):
    code, out, told = call("scenario.yaml", "--jobs", "1", "--no-report", "--set", "protocol.rounds=1")
    assert (code, told) == (0, "")
    with (tmp_path / "runs" / "small" / "summary.csv").open(newline="") as file:
        rows = [*csv.DictReader(file)]
    assert [(row["seed"], row["status"]) for row in rows] == [("0", "done"), ("1", "done")]
    given = (tmp_path / "runs" / "small" / "scenario.yaml").read_text()
    assert given == f"{QUICK}# with --set protocol.rounds=1\n"
    for row in rows:
        point = tmp_path / "runs" / "small" / "points" / row["run"]
        code, again, _ = call(str(point / "scenario.yaml"), "--dry-run")
        assert code == 0
        assert f"# run {json.loads((point / 'row.json').read_text())['run']}\n" in again
    code, out, _ = call("scenario.yaml", "--jobs", "1", "--no-report", "--set", "protocol.rounds=1")
    assert code == 0
    assert "2 of 2 runs are finished already" in out


def test_ctrl_c_is_one_message_and_130(call, monkeypatch):
    def interrupted(given):
        raise KeyboardInterrupt

    monkeypatch.setattr(command_line, "command", interrupted)
    code, _, told = call("scenario.yaml")
    assert code == 130
    assert told == "fedsim: interrupted; finished runs are kept, the same command continues\n"


def test_parts_outside_the_project_are_found_from_the_working_folder(call, tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "path", [path for path in sys.path if path not in ("", str(tmp_path))])
    (tmp_path / "mylab").mkdir()
    (tmp_path / "mylab" / "fog.py").write_text(
        "from dataclasses import dataclass\nfrom fedsim.net.effect import Effect\n"
        "@dataclass(frozen=True)\nclass Fog(Effect):\n    depth: int = 1\n"
        "    def stay(self, rng):\n        return 1.0\n"
    )
    code, out, _ = call("scenario.yaml", "--dry-run", "--set", "network.effects=[{name: mylab.fog, depth: 2}]")
    assert code == 0
    assert "mylab.fog" in out
    code, _, told = call("scenario.yaml", "--dry-run", "--set", "network.effects=[{name: mylab.fog, deep: 2}]")
    assert code == 2
    assert "'fog' has no option 'deep' (mylab/fog.py); did you mean 'depth'?" in told


@pytest.mark.long
def test_a_reader_that_stops_early_is_no_failure(tmp_path):
    (tmp_path / "scenario.yaml").write_text(QUICK)
    command = f"{sys.executable} -m fedsim scenario.yaml --dry-run -v | true"
    done = subprocess.run(
        ["sh", "-c", command], cwd=tmp_path, capture_output=True, text=True, check=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert done.stderr == ""


def test_the_folder_of_data_is_the_given_one_or_that_of_the_environment(monkeypatch, tmp_path):
    monkeypatch.setenv("FEDSIM_DATA", str(tmp_path))
    assert simulation.data_folder(None) == tmp_path
    assert simulation.data_folder(Path("here")) == Path("here")
    monkeypatch.delenv("FEDSIM_DATA")
    assert simulation.data_folder(None) == Path.home() / ".cache" / "fedsim"
