"""What is left to run: what the tables lack, what they hold of another scenario, and data that are not at hand."""

from dataclasses import replace

import pytest
from small_plan import PLAN, bench, written

from fedsim.reference import __main__ as cli
from fedsim.reference import plan as plans
from fedsim.reference import results, running
from fedsim.reference.build import absent, missing, outdated
from fedsim.reference.trials import LR


@pytest.fixture
def done(tmp_path):
    """The cells of `prox`, run."""
    plan, place = written(tmp_path)
    cells = missing(plan, results.read(place.tables), ["office/small/static/prox/sync/given"])
    *_, found = running.run(plan, place, cells, {}, bench())
    return plan, place, found


def test_nothing_is_outdated_as_long_as_the_plan_says_the_same(done):
    plan, place, found = done
    assert outdated(plan, place.plan, found, {}) == set()
    renamed = {("other", "static", "prox"): {LR: 0.5}}
    assert outdated(plan, place.plan, found, renamed) == set()


def test_cells_of_other_options_or_budgets_are_outdated_and_run_anew(done):
    plan, place, found = done
    names = {*found.cells["cell"]}
    assert len(names) == 2
    faster = {("small", "static", "prox", "sync"): {LR: 0.05}}
    poorer = plan.model_copy(update={"settings": [plan.settings[0].model_copy(update={"bytes": 900_000})]})
    assert outdated(plan, place.plan, found, faster) == names
    assert outdated(plan, place.plan, found, faster, ["office/small/arriving"]) == set()
    assert outdated(poorer, place.plan, found, {}) == names
    again = missing(plan, found, ["office/small/static/prox/sync/given"], names)
    assert {str(cell) for cell in again} == names
    *_, new = running.run(plan, place, again, faster, bench())
    assert not {*new.cells["run"]} & {*found.cells["run"]}
    assert outdated(plan, place.plan, new, faster) == set()


def test_what_is_run_anew_is_not_kept_half_old_when_it_is_interrupted(done):
    plan, place, found = done
    faster = {("small", "static", "prox", "sync"): {LR: 0.05}}
    cells = missing(plan, found, ["office/small/static/prox/sync/given"], {*found.cells["cell"]})

    def interrupted(*_):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        [*running.run(plan, place, cells, faster, replace(bench(), run=interrupted))]
    assert results.read(place.tables).cells.empty


def test_data_that_are_not_at_hand_are_named_and_left_out(tmp_path, monkeypatch, capsys):
    _, place = written(tmp_path)
    text = PLAN.replace("data: {small:", "data: {real: {data.dataset: {name: file, file: none.npz}}, small:")
    setting = (
        "settings:\n  - {deployment: office, data: real, tasks: [static], protocols: [sync], bytes: 1 MB, time: 9 s}"
    )
    (tmp_path / "plan.yaml").write_text(text.replace("settings:", setting), "utf-8")
    plan = plans.read(tmp_path / "plan.yaml")
    wrong = absent(plan, place.plan, ["real", "small"], tmp_path)
    assert [*wrong] == ["real"]
    assert "none.npz" in str(wrong["real"])
    monkeypatch.chdir(tmp_path)
    given = ["--plan", "plan.yaml", "--data", str(tmp_path), "--jobs", "1"]
    assert cli.main([*given, "--only", "office/real", "--only", "office/small/static/prox/sync/given"]) == 0
    assert "real is left out" in capsys.readouterr().out
    assert {*results.read(tmp_path / "docs/reference").cells["data"]} == {"small"}
    assert cli.main([*given, "--cell", "office/real/static/fedavg/sync/given/0"]) == 2
    assert "none.npz" in capsys.readouterr().err
    assert cli.main([*given, "--trials", "--only", "real"]) == 0
    assert "real is left out" in capsys.readouterr().out
