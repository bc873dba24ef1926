"""What a search tunes: what changes something, the learning rate if asked for, and the study that one starts from."""

import json

import fake_scores
import pytest
import yaml
from scenario_texts import SMALL
from test_tune import trials_in, tune

from fedsim import __main__ as command_line
from fedsim.core.errors import UserError
from fedsim.scenario.text import yaml_file
from fedsim.sweep.tune import study
from fedsim.sweep.tune.entries import RATE, entries


def found(tmp_path, text, **more):
    (tmp_path / "small.yaml").write_text(text)
    scenario, _ = yaml_file.load(tmp_path / "small.yaml")
    return entries([*scenario.points()], **more)


@pytest.mark.parametrize(
    ("algorithm", "spans"),
    [
        ("power", {"beta", "phi", "server_epochs"}),
        ("{name: power, transfer: false}", {"beta"}),
        ("{name: power, replay: false}", {"phi", "server_epochs"}),
        ("{name: fed_pub, preset: official}", {"tau"}),
        ("{name: ghost, order: joint}", {"lambda_f"}),
    ],
)
def test_options_that_another_switches_off_are_not_tuned(tmp_path, algorithm, spans):
    (entry,) = found(tmp_path, SMALL.replace("algorithm: fedavg", f"algorithm: {algorithm}"))
    assert set(entry.spans) == set(entry.written) == spans


def test_what_changes_nothing_gets_no_further_trials(tmp_path):
    """By the formula every beta gives the same."""
    text = SMALL + "grid: {algorithm: [fed_ergnn, fedprox], seed: [0, 1]}\n"
    code, shown, out = tune(tmp_path, 6, text)
    numbers = [row["algorithm"].partition("(")[0] for row in trials_in(out)]
    assert code == 0
    assert (numbers.count("fed_ergnn"), numbers.count("fedprox")) == (study.SAME, 6)
    assert "fed_ergnn: 3 trials gave the same results bit for bit" in shown
    assert "18/18 runs done" in shown or "24/24 runs done" in shown


def test_each_algorithm_has_a_learning_rate_of_its_own(tmp_path):
    text = SMALL.replace("lr: 5e-3", "lr: 0.02") + "grid: {algorithm: [fedavg, fedprox], seed: [0, 1]}\n"
    code, _, out = tune(tmp_path, 6, text, rate=True)
    assert code == 0
    rows = trials_in(out)
    assert [row["algorithm"] for row in rows].count("fedavg") == 6
    tried = [json.loads(row["options"])[RATE] for row in rows]
    assert tried[0] == 0.02
    assert all(0.002 <= rate <= 0.2 for rate in tried)
    scenario, _ = yaml_file.load(out / "small_tuned.yaml")
    for point in scenario.points():
        name = point.scenario.algorithm.name
        own = [row for row in rows if row["algorithm"] == name]
        best = max(own, key=lambda row: float(row["val_am"]))
        assert point.scenario.training.lr == json.loads(best["options"])[RATE]


def test_the_rate_of_a_single_algorithm_is_the_scenarios(tmp_path):
    _, _, out = tune(tmp_path, 4, SMALL.replace("lr: 5e-3", "lr: 0.02"), rate=True)
    plain = yaml.safe_load((out / "small_tuned.yaml").read_text())
    best = max(trials_in(out), key=lambda row: float(row["val_am"]))
    assert "when" not in plain
    assert plain["training"]["lr"] == json.loads(best["options"])[RATE]


@pytest.mark.parametrize(
    ("grid", "message"),
    [
        ("{algorithm: [fedavg, fedprox], training.lr: [0.1, 0.2]}", "fedavg has 2 learning rates in this scenario"),
        ("{algorithm: [{name: power, preset: paper}, {name: power, preset: official}]}", "several of one name"),
    ],
)
def test_rates_that_cannot_be_told_apart_are_refused(tmp_path, grid, message):
    with pytest.raises(UserError, match=message):
        tune(tmp_path, 2, f"{SMALL}grid: {grid}\n", rate=True)


def test_the_study_to_start_from_can_be_tuned(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert command_line.main(["--init", "study"]) == 0
    monkeypatch.chdir(tmp_path / "study")
    monkeypatch.setattr("fedsim.point.run.run", lambda *given, every: fake_scores.run(*given))
    few = ["--set", "grid.seed=[0]", "--jobs", "1", "--data", "."]
    assert command_line.main(["scenario.yaml", "--tune", "2", *few]) == 0
    rows = trials_in(tmp_path / "study" / "runs" / "my_study" / "tuning")
    assert [row["algorithm"] for row in rows] == ["fedavg", "own.momentum", "own.momentum"]


def test_the_flag_alone_is_refused(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "small.yaml").write_text(SMALL)
    assert command_line.main(["small.yaml", "--tune-lr"]) == 2
    assert "--tune-lr says what else --tune N searches" in capsys.readouterr().err
