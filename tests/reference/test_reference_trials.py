"""Hyper-parameters: equal trials for all, drawn within each algorithm's ranges, and the best of them by validation."""

from dataclasses import replace
from pathlib import Path

import pytest
from small_plan import bench, written

from fedsim.point.checks import check
from fedsim.reference import plan as plans
from fedsim.reference import trials
from fedsim.reference.trials import LR, PlanTrial
from fedsim.scenario.parts import find

ROOT = Path(__file__).parents[2]
SHIPPED = plans.read(ROOT / plans.FILE)
PLANNED = [*trials.planned(SHIPPED)]


def test_every_method_has_the_same_number_of_trials_of_each_data_and_task_the_first_as_written():
    numbers = {}
    for one in PLANNED:
        numbers.setdefault((one.data, one.task, one.method), []).append(one.trial)
        assert (one.keys == {}) == (one.trial == 1)
    assert {key: [1, 2, 3, 4] for key in numbers} == numbers
    assert {*numbers} == {(cell.data, cell.task, cell.method) for cell in SHIPPED.cells()}


def test_all_methods_share_the_learning_rates_that_are_tried():
    for number in range(2, SHIPPED.trials.count + 1):
        rates = {one.keys[LR] for one in PLANNED if one.trial == number}
        assert len(rates) == 1
        assert SHIPPED.trials.lr[0] <= rates.pop() <= SHIPPED.trials.lr[1]


def test_options_are_drawn_within_the_ranges_of_their_algorithm():
    for one in PLANNED:
        tunes = type(find.build("algorithm", SHIPPED.methods[one.method].algorithm)).tunes
        options = one.keys.get("options", {})
        assert {*options} == ({*tunes} if one.trial > 1 else set())
        assert all(tunes[name].holds(value) for name, value in options.items())


@pytest.mark.parametrize("data", ["digits", "synthetic", "drifting"])
def test_every_trial_can_be_run_and_is_scored_on_validation_data_alone(data):
    folder = ROOT / "scenarios/reference"
    made = [trials.point(SHIPPED, folder, one) for one in PLANNED if one.data == data]
    assert check.points(made, whole=True) == []
    assert {tuple(point.scenario.measure.splits) for point in made} == {("val",)}
    assert {point.scenario.seed for point in made} == {SHIPPED.trials.seed}


def test_the_trials_on_record_are_those_of_the_plan():
    known = trials.read(ROOT / "scenarios/reference" / trials.FILE)
    assert [(one.key, one.keys) for one in known] == [(one.key, one.keys) for one in PLANNED]
    assert all(one.value is not None for one in known)


@pytest.mark.long
def test_the_trials_on_record_are_the_points_of_the_plan_as_it_is():
    known = trials.read(ROOT / "scenarios/reference" / trials.FILE)
    some = [one for one in known if one.trial in (1, SHIPPED.trials.count)]
    assert [one.run for one in some] == [trials.point(SHIPPED, ROOT / "scenarios/reference", one).id for one in some]


def test_the_best_trial_is_chosen_and_the_first_of_equals():
    found = trials.chosen([
        PlanTrial("d", "t", "a", 1, {}, 0.5), PlanTrial("d", "t", "a", 2, {LR: 0.1}, 0.7),
        PlanTrial("d", "t", "a", 3, {LR: 0.2}, 0.7), PlanTrial("d", "t", "b", 1, {}, None),
        PlanTrial("d", "t", "b", 2, {LR: 0.1}, 0.0), PlanTrial("d", "u", "a", 1, {}, 0.1),
        PlanTrial("e", "t", "a", 1, {}, 0.2),
    ])  # fmt: skip
    assert found == {
        ("d", "t", "a"): {LR: 0.1}, ("d", "t", "b"): {LR: 0.1}, ("d", "u", "a"): {}, ("e", "t", "a"): {},
    }  # fmt: skip


def test_trials_are_read_back_as_they_were_written(tmp_path):
    options = {LR: 0.03, "options": {"mu": 1e-4, "how": "x"}}
    made = [PlanTrial("d", "t", "a", 1, {}), PlanTrial("d", "t", "a", 2, options, 0.25, "0123456789ab")]
    trials.write(made, tmp_path / trials.FILE)
    assert trials.read(tmp_path / trials.FILE) == made
    assert trials.read(tmp_path / "none.csv") == []


def test_a_search_runs_its_trials_once(tmp_path):
    plan, place = written(tmp_path)
    found = trials.search(plan, place, bench())
    assert len(found) == 9  # fedavg and prox of static, fedavg of arriving
    assert all(0 <= one.value <= 1 for one in found)
    again = trials.search(plan, place, replace(bench(), run=_refused))
    assert again == found


def test_trials_of_another_budget_are_run_anew_and_only_those_that_are_meant(tmp_path):
    plan, place = written(tmp_path)
    first = trials.search(plan, place, bench(), only=["prox"])
    assert {one.method for one in first} == {"prox"}
    assert trials.search(plan, place, replace(bench(), run=_refused), without=["small"]) == first
    poorer = plan.model_copy(update={"settings": [plan.settings[0].model_copy(update={"bytes": 900_000})]})
    again = trials.search(poorer, place, bench(), only=["small"])
    assert len(again) == 9
    assert not {one.run for one in again} & {one.run for one in first}


def _refused(*_):
    raise AssertionError("nothing should run")
