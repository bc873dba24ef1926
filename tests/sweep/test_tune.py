"""Tuning: equal budgets, validation data alone, the same outcome however it is run, and a scenario that runs."""

import csv
import dataclasses
import io
import json
import re
import sys
from pathlib import Path

import fake_scores
import pyarrow.parquet as pq
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console
from scenario_texts import SMALL
from small_points import PLAIN

from fedsim import __main__ as command_line
from fedsim.core.errors import UserError
from fedsim.core.span import Span
from fedsim.learn.continual.replay import BETA
from fedsim.point import run as point_run
from fedsim.point.results.folders import folders
from fedsim.scenario.part import Part
from fedsim.scenario.parts import find, options
from fedsim.scenario.text import yaml_file
from fedsim.sweep.display import Display
from fedsim.sweep.engines.local import Local
from fedsim.sweep.tune import command, study
from fedsim.sweep.tune.bench import TrialRunner

pytestmark = pytest.mark.long

ROOT = Path(__file__).parents[2]
TEXT = SMALL + "grid: {algorithm: [fedavg, fedprox, fed_twp], seed: [0, 1]}\n"


def trials_in(folder):
    with (folder / "trials.csv").open(newline="") as file:
        return [*csv.DictReader(file)]


def calls(folder):
    return (folder / "calls").read_text().split()


def tune(folder, trials, text=TEXT, jobs=1, fresh=False, run=fake_scores.run, rate=False):
    """Tune, by default with points that are formulas; give the exit code, what was shown, and the trials' folder."""
    folder.mkdir(exist_ok=True)
    path = folder / "small.yaml"
    path.write_text(text)
    scenario, document = yaml_file.load(path)
    console, out = Console(file=io.StringIO(), width=200), folder / "out" / "tuning"
    with Local(jobs, prepare="fake_scores") as engine, document.located():
        bench = TrialRunner(out, document.text, folder, run, engine, Display(console), fresh)
        code = command.tune(scenario, document, [*scenario.points()], trials, bench, console, rate)
    return code, console.file.getvalue(), out


# ---- with points that are really run


@pytest.fixture(scope="module")
def tuned(tmp_path_factory):
    """A scenario tuned from the command line: exit code, and the folder of the trials."""
    folder = tmp_path_factory.mktemp("tuned")
    entries = ["fedavg", {"name": "fedprox", "mu": 1e5}, {"name": "fed_ergnn", "select": "mean"}]
    entries.append({"name": "fed_dslr", "structure": False})  # what is learned there takes long
    axes = {"algorithm": entries, "seed": [0, 1]}
    (folder / "small.yaml").write_text(yaml.safe_dump({**PLAIN, "grid": axes}))
    code = command_line.main([str(folder / "small.yaml"), "--tune", "3", "--jobs", "1", "--out", str(folder / "out")])
    return code, folder / "out" / "tuning"


@pytest.mark.long
def test_every_algorithm_has_the_same_number_of_trials_on_as_many_points(tuned):
    code, out = tuned
    assert code == 0
    numbers = {}
    for row in trials_in(out):
        numbers.setdefault(row["algorithm"], []).append(int(row["trial"]))
        assert (row["runs"], row["failed"]) == ("2", "0")
    tried = {"fedprox": [1, 2, 3], "fed_ergnn": [1, 2, 3], "fed_dslr": [1, 2, 3]}
    assert {name.partition("(")[0]: own for name, own in numbers.items()} == {"fedavg": [1], **tried}


def test_test_data_are_never_scored(tuned):
    _, out = tuned
    points = folders(out)
    assert len(points) == 2 * (1 + 3 * 3)
    for point in points:
        scores = pq.read_table(point / "scores.parquet").to_pydict()
        assert set(scores["split"]) == {"val"}
        assert set(scores["model"]) == {"global"}


def test_a_plainly_bad_option_is_mended(tuned):
    _, out = tuned
    values = [float(row["val_am"]) for row in trials_in(out) if row["algorithm"].startswith("fedprox")]
    assert max(values[1:]) > values[0] + 0.05


def test_the_value_is_the_mean_of_the_points(tuned):
    _, out = tuned
    with (out / "summary.csv").open(newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["algorithm"] == "fedavg"]
    value = next(float(row["val_am"]) for row in trials_in(out) if row["algorithm"] == "fedavg")
    assert len(rows) == 2
    assert sum(float(row["am"]) for row in rows) / 2 == pytest.approx(value, abs=1e-12)


def test_the_same_seed_proposes_the_same_to_those_that_tune_the_same(tuned):
    _, out = tuned
    betas = {}
    for row in trials_in(out)[4:]:
        betas.setdefault(row["algorithm"].partition("(")[0], []).append(json.loads(row["options"]).get("beta"))
    assert betas["fed_ergnn"] == betas["fed_dslr"]
    assert len(set(betas["fed_dslr"])) == 2


def test_the_tuned_scenario_has_the_best_options_and_runs(tuned):
    _, out = tuned
    path = out / "small_tuned.yaml"
    scenario, document = yaml_file.load(path)
    assert scenario.name == "small_tuned"
    assert scenario.measure.splits == ["test", "val"]
    assert "# fedavg: " in document.text
    chosen = {point.scenario.algorithm.name: point.scenario.algorithm.options for point in scenario.points()}
    for name in ("fedprox", "fed_ergnn", "fed_dslr"):
        rows = [row for row in trials_in(out) if row["algorithm"].startswith(name)]
        inside = [row for row in rows if json.loads(row["options"]) != {"mu": 1e5}]
        best = max(inside, key=lambda row: float(row["val_am"]))
        if best["trial"] != "1":
            assert chosen[name].items() >= json.loads(best["options"]).items()
    assert options.bare("algorithm", Part(name="fedavg", options=chosen["fedavg"])).options == {}
    assert chosen["fed_ergnn"]["select"] == "mean"
    assert command_line.main([str(path), "--jobs", "1", "--no-report", "--out", str(out / "again")]) == 0


# ---- with points that are formulas


def test_neither_workers_nor_their_speed_have_a_say(tmp_path):
    alone = tune(tmp_path / "alone", 6)
    together = tune(tmp_path / "together", 6, jobs=2)
    assert alone[0] == together[0] == 0
    assert trials_in(alone[2]) == trials_in(together[2])
    written = [(out / "small_tuned.yaml").read_text() for _, _, out in (alone, together)]
    assert written[0] == written[1]
    assert len({row["options"] for row in trials_in(alone[2])}) == 1 + 2 * 6


def test_the_search_finds_its_way(tmp_path):
    _, shown, out = tune(tmp_path, 25)
    rows = [row for row in trials_in(out) if row["algorithm"] == "fedprox"]
    late = sum(float(row["val_am"]) for row in rows[15:]) / 10
    assert late > sum(float(row["val_am"]) for row in rows[1:10]) / 9 + 0.05  # the best lies at mu 0.001
    assert "trial 25 of 25: fedprox " in shown


def test_after_ctrl_c_the_same_command_continues(tmp_path):
    whole = tune(tmp_path / "whole", 4)[2]
    folder = tmp_path / "cut"
    folder.mkdir()
    (folder / "stop").write_text("9")
    with pytest.raises(KeyboardInterrupt):
        tune(folder, 4)
    (folder / "stop").unlink()
    code, shown, out = tune(folder, 4)
    assert code == 0
    assert trials_in(out) == trials_in(whole)
    assert len(calls(folder)) == len(set(calls(folder))) == 2 * (1 + 2 * 4)
    assert "other version" not in shown


def test_more_trials_go_on_from_fewer_and_fresh_begins_anew(tmp_path):
    few = trials_in(tune(tmp_path, 2)[2])
    more = trials_in(tune(tmp_path, 4)[2])
    assert more[: len(few)] == few
    assert len(calls(tmp_path)) == 2 * (1 + 2 * 4)
    assert trials_in(tune(tmp_path, 4, fresh=True)[2]) == more
    assert len(calls(tmp_path)) == 2 * 2 * (1 + 2 * 4)


def test_what_is_proposed_twice_is_run_once(tmp_path):
    text = SMALL.replace("algorithm: fedavg", "algorithm: {name: fedgta}")
    rows = trials_in(tune(tmp_path, 25, text)[2])  # twenty values of the threshold
    assert len(rows) == 25
    assert len(calls(tmp_path)) == len(set(calls(tmp_path))) == len({row["options"] for row in rows})


def test_trials_at_several_latencies_are_trained_at_one(tmp_path):
    grid = {"algorithm": ["fedprox"], "network.latency": ["100 ms", "400 ms", "1 s"]}
    code, _, out = tune(tmp_path, 2, yaml.safe_dump({**PLAIN, "grid": grid}), run=point_run.run)
    with (out / "summary.csv").open(newline="") as file:
        followed = [row["followed"] for row in csv.DictReader(file)]
    assert code == 0
    assert len(followed) == 6
    assert followed.count("") == 2
    assert len(set(followed)) == 3


def test_a_trial_that_failed_is_reported_and_not_chosen(tmp_path):
    (tmp_path / "fail").write_text("0.02")
    code, shown, out = tune(tmp_path, 6, TEXT.replace(", fed_twp", ""))
    rows = [row for row in trials_in(out) if row["algorithm"] == "fedprox"]
    failed = [row for row in rows if json.loads(row["options"])["mu"] > 0.02]
    assert code == 1
    assert 0 < len(failed) < 6
    assert all((row["failed"], row["val_am"]) == ("2", "") for row in failed)
    assert "fedprox failed (2 of 2 runs)" in shown
    assert "failed: RuntimeError: the numbers do not add up" in shown
    chosen = yaml.safe_load((out / "small_tuned.yaml").read_text())["grid"]["algorithm"][1]
    assert chosen == "fedprox" or chosen["mu"] <= 0.02


def test_where_every_trial_failed_no_scenario_is_written(tmp_path):
    (tmp_path / "fail").write_text("0")
    code, shown, out = tune(tmp_path, 2, text=SMALL.replace("fedavg", "fedprox"))
    assert code == 1
    assert "no tuned scenario" in shown
    assert not (out / "small_tuned.yaml").exists()


def test_as_written_outside_the_span_is_shown_and_cannot_be_chosen(tmp_path):
    text = SMALL.replace("algorithm: fedavg", "algorithm: {name: fed_ergnn, beta: 0.9}")
    code, shown, out = tune(tmp_path, 2, text)  # by the formula every beta is as good: the first would win
    assert code == 0
    assert "as written it lies outside" in shown
    assert trials_in(out)[0]["options"] == '{"beta": 0.9}'
    assert BETA.holds(yaml.safe_load((out / "small_tuned.yaml").read_text())["algorithm"]["beta"])


# ---- what may be tuned


@pytest.mark.parametrize("name", find.names("algorithm"))
def test_what_a_class_tunes_are_its_options_and_both_ends_fit(name):
    cls = find.find("algorithm", Part(name=name), "algorithm")
    tunes = cls.tunes
    assert set(tunes) <= {field.name for field in dataclasses.fields(cls)}
    if not tunes:
        return
    for end in (0, -1):
        options = {key: (span.choices or (span.low, span.high))[end] for key, span in tunes.items()}
        built = find.build("algorithm", Part(name=name, options=options))
        assert all(getattr(built, key) == value for key, value in options.items())


def test_every_method_of_replay_tunes_beta_on_one_span():
    files = {path.stem: path.read_text("utf-8") for path in (ROOT / "algorithms").glob("*.py")}
    mixing = {name for name, text in files.items() if re.search(r"\breplay\.mixed\(|import .*\bmixed\b", text)}
    assert mixing >= {"fed_ergnn", "fed_dslr"}
    for name in mixing | {"power"}:
        assert find.find("algorithm", Part(name=name), "algorithm").tunes["beta"] is BETA


@given(st.floats(0, 1))
@settings(max_examples=30)
def test_what_is_kept_of_a_proposal_is_still_in_its_span(share):
    logarithmic, plain, steps = Span(0.01, 0.5, log=True), Span(0.0, 0.95), Span(0.0, 0.9, step=0.1)
    for span, value in (
        (logarithmic, 0.01 * 50**share), (plain, 0.95 * share), (steps, 0.1 * round(9 * share))
    ):  # fmt: skip
        assert span.holds(span.kept(min(value, span.high)))
        assert span.kept(value) == float(f"{value:.3g}")


def test_what_lies_outside_a_span_is_reported():
    assert [BETA.holds(value) for value in (0.01, 0.5, 0.009, 0.51, None, True, "x")] == [True, True, *[False] * 5]
    assert [Span(0.0, 0.9, step=0.1).holds(value) for value in (0.3, 0.35)] == [True, False]
    assert [Span(choices=(3, 5)).holds(value) for value in (3, 4)] == [True, False]
    for wrong in (
        {},
        {"low": 2, "high": 1},
        {"high": 1, "log": True},
        {"choices": (1,)},
        {"high": 1, "choices": (1, 2)},
        {"high": 0.12345},
    ):
        with pytest.raises(ValueError, match=r"low must be below high|two different choices|three significant digits"):
            Span(**wrong)


# ---- mistakes


GRID = "grid: {algorithm: [power], "


@pytest.mark.parametrize(
    ("text", "trials", "message"),
    [
        (SMALL, "3", "line 12: algorithm: none of fedavg has an option to tune"),
        (TEXT.replace("random}", "random, split: {train: 0.5, val: 0, test: 0.5}}"), "3", "data.split.val: is 0"),
        (
            SMALL + GRID + "algorithm.preset: [paper, official]}\n",
            "3",
            "algorithm: its options are set by another axis",
        ),
        (
            SMALL + GRID + "algorithm.beta: [0.1, 0.2]}\n",
            "3",
            "algorithm: power(beta=0.1) and power(beta=0.2) differ only in",
        ),
        (SMALL + "grid: {algorithm: [{name: power, beta: 0.1}, {name: power, beta: 0.2}]}\n", "3", "keep one of them"),
        (SMALL.replace("fedavg", "{name: fedprox, mu: 30}"), "1", "--tune 1 tries fedprox only as written"),
        (SMALL.replace("name: small", f"name: {'x' * 98}").replace("fedavg", "fedprox"), "2", "name: "),
        (SMALL.replace("algorithm: fedavg", "algorithm: {name: traffic, down: 0, up: 0}"), "2", "learns nothing"),
        (TEXT, "0", "'0' is not a number of trials"),
        (TEXT, "x", "'x' is not a number of trials"),
    ],
)
def test_a_mistake_is_one_message_and_nothing_is_written(tmp_path, monkeypatch, capsys, text, trials, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "small.yaml").write_text(text)
    try:
        code = command_line.main(["small.yaml", "--tune", trials])
    except SystemExit as exit:
        code = exit.code
    told = capsys.readouterr().err
    assert code == 2
    assert message in told
    assert "Traceback" not in told
    assert [path.name for path in tmp_path.iterdir()] == ["small.yaml"]


def test_options_that_go_with_a_value_are_not_overwritten_in_silence(tmp_path):
    text = SMALL.replace("fedavg", "{name: fedprox, mu: 0.1}")
    with pytest.raises(UserError, match="options are set by another axis, or under 'when'"):
        tune(tmp_path, 2, text + "when: {seed: {'0': {algorithm.weight_by: train, algorithm.mu: 0.5}}}\n")


def test_what_goes_with_an_algorithm_still_goes_with_the_tuned_one(tmp_path):
    _, _, out = tune(tmp_path, 3, TEXT + "when: {algorithm: {fedprox: {training.local_steps: 7}}}\n")
    scenario, _ = yaml_file.load(out / "small_tuned.yaml")
    steps = {p.scenario.algorithm.name: p.scenario.training.local_steps for p in scenario.points()}
    assert steps == {"fedavg": 1, "fedprox": 7, "fed_twp": 1}


def test_without_optuna_one_sentence_says_what_to_install(tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "optuna", None)
    (tmp_path / "small.yaml").write_text(TEXT)
    assert command_line.main([str(tmp_path / "small.yaml"), "--tune", "2"]) == 2
    output = capsys.readouterr().err
    assert 'pip install "fedgraphsim[tune]"' in output
    assert output.count("\n") == 1


def test_names_of_files_are_still_right(tmp_path):
    (tmp_path / "clients.csv").write_text("client,uplink_mbps\n0,5\n1,5\n2,6\n3,7\n")
    text = TEXT.replace("{count: 4,", "{table: clients.csv,")
    _, _, out = tune(tmp_path, 2, text)
    (table,) = {point.scenario.clients.table for point in yaml_file.load(out / "small_tuned.yaml")[0].points()}
    assert Path(str(table)) == (tmp_path / "clients.csv").resolve()


def test_trials_tell_how_many_periods_they_were_scored_on():
    rows = [{"am": 0.5, "periods": 5.0}, {"am": 0.7, "periods": 4.0}]
    found = study.judged(None, 2, None, {}, rows)
    assert (found.value, found.periods) == (pytest.approx(0.6), 4.5)
    assert study.judged(None, 2, None, {}, [{"am": 0.5}]).periods is None
