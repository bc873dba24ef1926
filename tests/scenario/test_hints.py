"""What a message proposes to who has written a key in the wrong place, several values, or a name in capitals."""

import os
import subprocess
import sys

import pytest
from calling import QUICK, ROOT


@pytest.mark.parametrize(
    ("flag", "hint"),
    [
        ("rounds=3", "rounds: there is no such key; did you mean protocol.rounds?"),
        ("protocol_rounds=3", "protocol_rounds: there is no such key; did you mean protocol.rounds?"),
        ("Rounds=3", "did you mean protocol.rounds?"),
        ("latency=3 ms", "did you mean network.latency?"),
        ("lr=0.1", "did you mean training.lr?"),
        ("data.rate=0.1", "did you mean network.effects.0.rate?"),
        ("grid.rounds=[1, 2]", "there is no key 'rounds'; did you mean protocol.rounds?"),
        ("algoritm=fedavg", "did you mean 'algorithm'?"),
        ("algorithm=FedAvg", "did you mean 'fedavg'?"),
        ("algorithm=Fed-ERGNN", "did you mean 'fed_ergnn'?"),
        ("protocol.Rounds=3", "did you mean 'rounds'?"),
        ("algorithm=[fedavg, power]", "several values go under grid: algorithm: [fedavg, power]"),
        ("algorithm=fedavg,power", "several go under grid: algorithm: [fedavg,power]"),
        ("training.lr=[0.1, 0.2]", "several values go under grid: training.lr: [0.1, 0.2]"),
        ("protocol.participation=[0.1, 1]", "several values go under grid: protocol.participation: [0.1, 1]"),
        ("model.hidden=[8, 16]", "several values go under grid: model.hidden: [8, 16]"),
        ("clients.count=[5, 6]", "several values go under grid: clients.count: [5, 6]"),
    ],
)
@pytest.mark.parametrize("mode", [["--dry-run"], ["--jobs", "1"]])
def test_a_key_or_value_in_the_wrong_place_gets_a_hint(call, flag, hint, mode):
    code, _, told = call("scenario.yaml", *mode, "--set", flag)
    assert code == 2
    assert hint in told


@pytest.mark.parametrize(
    "flag", ["measure.metrics=[accuracy, accuracy]", "measure.metrics=[]", "network.effects=[[1]]"]
)
def test_lists_that_are_lists_as_they_should_be_are_no_axes(call, flag):
    code, _, told = call("scenario.yaml", "--dry-run", "--set", flag)
    assert code == 2
    assert "grid" not in told


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (["--dryrun"], "did you mean --dry-run for --dryrun?"),
        (["--dry"], "did you mean --dry-run for --dry?"),
        (["--Explain"], "did you mean --explain for --Explain?"),
        (["--checkpoints=3"], "did you mean --checkpoint for --checkpoints=3?"),
        (["--zzz"], "(--help shows all flags)"),
    ],
)
def test_a_wrong_flag_gets_a_hint(call, words, hint):
    code, _, told = call("scenario.yaml", *words)
    assert code == 2
    assert hint in told


def test_a_scenario_that_lies_among_the_scenarios_is_found(call, tmp_path):
    (tmp_path / "scenarios").mkdir()
    (tmp_path / "scenarios" / "mine.yaml").write_text(QUICK)
    hint = f"did you mean {os.path.join('scenarios', 'mine.yaml')}?"
    assert all(hint in call(name)[2] for name in ("mine.yaml", "mine", "mime.yaml"))


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--dry-run", "--explain"], "argument --explain: not allowed with argument --dry-run"),
        (["--tune", "2", "--dry-run"], "argument --dry-run: not allowed with argument --tune"),
        (["--tune", "2", "--explain"], "argument --explain: not allowed with argument --tune"),
        (["--list", "--init", "study"], "argument --init: not allowed with argument --list"),
        (["--tune", "2", "--trace"], "--trace and --log record the runs of a scenario"),
    ],
)
def test_flags_that_exclude_one_another_are_refused(call, flags, message):
    code, _, told = call("scenario.yaml", *flags)
    assert code == 2
    assert message in told


@pytest.mark.long
@pytest.mark.parametrize("encoding", ["ascii", "cp1252"])
def test_any_encoding_gets_text_that_it_can_hold(tmp_path, encoding):
    (tmp_path / "scenario.yaml").write_text(QUICK)
    (tmp_path / "zwölf – β.yaml").write_text(QUICK.replace("0.5", "5"), encoding="utf-8")
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONIOENCODING": encoding, "NO_COLOR": "1"}
    environment.pop("COLUMNS", None)

    def run(*words):
        command = [sys.executable, "-m", "fedsim", *words]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, check=False, env=environment)
        text = (done.stdout + done.stderr).decode(encoding)
        assert "Traceback" not in text
        return done.returncode, text

    code, text = run("scenario.yaml", "--jobs", "1", "--no-report", "--set", "protocol.rounds=1")
    assert code == 0
    assert (" +- " if encoding == "ascii" else " ± ") in text
    assert max(map(len, text.splitlines())) <= 80
    assert run("--list")[0] == run("--list", "algorithm", "fedavg")[0] == 0
    code, text = run("zwölf – β.yaml")
    assert code == 2
    assert "protocol.participation" in text


def test_without_a_terminal_there_are_80_columns_or_those_of_the_environment(call, monkeypatch):
    for columns, widest in ((None, 80), ("60", 60), ("nonsense", 80)):
        monkeypatch.delenv("COLUMNS", raising=False)
        if columns:
            monkeypatch.setenv("COLUMNS", columns)
        assert widest - 12 < max(map(len, call("--list")[1].splitlines())) <= widest
