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
WHOLE = {  # whose trials have all been run
    ("digits", "static"), ("digits", "class_incremental"), ("drifting", "snapshots"), ("pubmed", "static"),
    ("physics", "static"), ("computers", "static"), ("computers", "class_incremental"),
    ("cora", "static"), ("cora", "class_incremental"), ("synthetic", "static"), ("synthetic", "class_incremental"),
}  # fmt: skip


def test_every_contender_has_the_same_trials_of_each_data_and_task_the_first_as_written():
    numbers = {}
    for one in PLANNED:
        numbers.setdefault(one.of, []).append((one.trial, one.seed))
        assert (one.keys == {}) == (one.trial == 1)
    assert {key: [(trial, seed) for trial in range(1, 9) for seed in (100, 101)] for key in numbers} == numbers
    assert {*numbers} == {(cell.data, cell.task, cell.method, cell.protocol) for cell in SHIPPED.cells()}


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
    assert {point.scenario.seed for point in made} == {*SHIPPED.trials.seeds}
    assert {point.scenario.measure.until.when for point in made} == {"any"}


def test_the_trials_on_record_are_of_the_plan_and_whole_where_they_have_all_been_run():
    known = trials.read(ROOT / "scenarios/reference" / trials.FILE)
    planned = {one.key: one.keys for one in PLANNED}
    on_record = {one.key for one in known}
    assert [key for key in planned if key in on_record] == [one.key for one in known]
    assert all(one.value is not None for one in known)
    assert {one.key: one.keys for one in known if _whole(one)} == {
        key: planned[key] for key in planned if key[:2] in WHOLE
    }


@pytest.mark.long
def test_the_trials_on_record_are_the_points_of_the_plan_as_it_is():
    known = trials.read(ROOT / "scenarios/reference" / trials.FILE)
    some = [one for one in known if one.trial in (1, SHIPPED.trials.count) and _whole(one)]
    assert some
    assert [one.run for one in some] == [trials.point(SHIPPED, ROOT / "scenarios/reference", one).id for one in some]


def test_the_best_trial_is_chosen_and_the_first_of_equals():
    found = trials.chosen([
        _tried("d/t/a/p/1/0", 0.5), _tried("d/t/a/p/2/0", 0.7, 0.1), _tried("d/t/a/p/3/0", 0.7, 0.2),
        _tried("d/t/b/p/1/0", None), _tried("d/t/b/p/2/0", 0.0, 0.1), _tried("d/u/a/p/1/0", 0.1),
        _tried("d/t/a/q/1/0", 0.2),
    ])  # fmt: skip
    assert found == {
        ("d", "t", "a", "p"): {LR: 0.1}, ("d", "t", "b", "p"): {LR: 0.1}, ("d", "u", "a", "p"): {},
        ("d", "t", "a", "q"): {},
    }  # fmt: skip


def test_the_mean_over_seeds_counts_and_a_trial_that_lacks_one_does_not():
    two = [_tried("d/t/a/p/1/0", 0.5), _tried("d/t/a/p/1/1", 0.6), _tried("d/t/a/p/2/0", 0.7, 0.1)]
    assert trials.chosen(two) == {("d", "t", "a", "p"): {}}
    assert trials.chosen([*two, _tried("d/t/a/p/2/1", 0.3, 0.1)]) == {("d", "t", "a", "p"): {}}
    assert trials.chosen([*two, _tried("d/t/a/p/2/1", 0.5, 0.1)]) == {("d", "t", "a", "p"): {LR: 0.1}}


def _tried(name, value, rate=None):
    data, task, method, protocol, number, seed = name.split("/")
    keys = {} if rate is None else {LR: rate}
    return PlanTrial(data, task, method, protocol, int(number), int(seed), keys, value)


def _whole(trial):
    return (trial.data, trial.task) in WHOLE


def test_trials_are_read_back_as_they_were_written(tmp_path):
    options = {LR: 0.03, "options": {"mu": 1e-4, "how": "x"}}
    made = [
        PlanTrial("d", "t", "a", "p", 1, 7, {}),
        PlanTrial("d", "t", "a", "p", 2, 8, options, 0.25, "0123456789ab"),
    ]
    trials.write(made, tmp_path / trials.FILE)
    assert trials.read(tmp_path / trials.FILE) == made
    assert trials.read(tmp_path / "none.csv") == []


def test_a_search_runs_its_trials_once(tmp_path):
    plan, place = written(tmp_path)
    found = trials.search(plan, place, bench())
    assert len(found) == 30  # three with two seeds each: fedavg of both tasks and protocols, prox
    assert all(0 <= one.value <= 1 for one in found)
    again = trials.search(plan, place, replace(bench(), run=_refused))
    assert again == found


def test_trials_of_another_budget_are_run_anew_and_only_those_that_are_meant(tmp_path):
    plan, place = written(tmp_path)
    first = trials.search(plan, place, bench(), only=["prox"])
    assert {one.method for one in first} == {"prox"}
    assert trials.search(plan, place, replace(bench(), run=_refused), without=["small"]) == first
    poorer = plan.model_copy(update={"settings": [plan.settings[0].model_copy(update={"bytes": 900_000})]})
    again = trials.search(poorer, place, bench(), only=["small/static", "small/arriving"])
    assert len(again) == 30
    assert not {one.run for one in again} & {one.run for one in first}


def test_a_trial_that_is_the_same_run_is_kept_as_the_plan_writes_it(tmp_path):
    plan, place = written(tmp_path)
    found = trials.search(plan, place, bench(), only=["prox"])
    older = [replace(one, keys={**one.keys, "training.local_steps": 2}) for one in found]  # as the plan has it anyway
    trials.write(older, place.plan / trials.FILE)
    assert trials.search(plan, place, replace(bench(), run=_refused), only=["prox"]) == found


def _refused(*_):
    raise AssertionError("nothing should run")
