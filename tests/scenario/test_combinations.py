"""Which points a scenario has: the product of the grid, axes varied one at a time, and what goes with a value."""

import pytest
from scenario_texts import SMALL

from fedsim.core.errors import ScenarioError, UserError
from fedsim.scenario.text import yaml_file

CROSS = SMALL + "grid: {seed: [1, 2]}\nvary: {training.lr: [0.1, 0.2], network.latency: [10 ms, 50 ms]}\n"


def chosen(points, *keys):
    return [tuple(point.axes[key] for key in keys) for point in points]


def test_one_axis_varies_at_a_time_around_the_scenarios_own_values(load):
    points = load(CROSS)
    own = points[0].scenario.training.lr
    assert chosen(points, "seed", "training.lr", "network.latency") == [
        (seed, lr, latency)
        for seed in (1, 2)
        for lr, latency in ((own, "50 ms"), (0.1, "50 ms"), (0.2, "50 ms"), (own, "10 ms"))
    ]
    assert [p.scenario.training.lr for p in points[:4]] == [own, 0.1, 0.2, own]
    assert [p.scenario.network.latency.values for p in points[:4]] == [(0.05,), (0.05,), (0.05,), (0.01,)]
    assert len({p.id for p in points}) == 8
    assert all(p.scenario.vary == {} == p.scenario.grid for p in points)


def test_the_own_value_may_stand_in_the_list_and_is_one_point_all_the_same(load):
    listed = load(SMALL + "vary: {network.latency: [0.05, 1 s, 2 s]}\n")
    assert chosen(listed, "network.latency") == [(0.05,), ("1 s",), ("2 s",)]
    unlisted = load(SMALL + "vary: {network.latency: [1 s, 2 s]}\n")
    assert [p.id for p in unlisted] == [p.id for p in listed]


def test_a_mistake_in_a_varied_value_is_reported_at_its_place(load):
    with pytest.raises(UserError, match=r"line \d+: vary\.training\.lr\.1"):
        load(SMALL + "vary: {training.lr: [0.005, -1, 0.2]}\n")


WHEN = """
grid: {algorithm: [fedavg, fedprox], training.lr: [0.1, 0.2]}
when:
  algorithm:
    fedprox: {training.local_steps: 7, protocol.rounds: 9, training.lr: 5}
  training.lr:
    '0.2': {network.latency: 9 s}
"""


def test_what_goes_with_a_value_is_set_where_the_key_has_it_and_axes_win(load):
    points = load(SMALL + WHEN)
    steps, rounds = points[0].scenario.training.local_steps, points[0].scenario.protocol.options["rounds"]
    assert steps != 7
    assert rounds != 9
    told = [
        (s.training.local_steps, s.protocol.options["rounds"], s.training.lr, s.network.latency.values[0])
        for s in (p.scenario for p in points)
    ]
    assert told == [(steps, rounds, 0.1, 0.05), (steps, rounds, 0.2, 9.0), (7, 9, 0.1, 0.05), (7, 9, 0.2, 9.0)]
    assert all(p.scenario.when == {} for p in points)


def test_what_goes_with_a_value_needs_no_grid(load):
    (point,) = load(SMALL + "when: {algorithm: {fedavg: {training.local_steps: 7}, power: {training.lr: 3}}}\n")
    assert point.scenario.training.local_steps == 7
    assert point.scenario.training.lr != 3


def test_what_is_set_from_outside_wins_over_what_goes_with_a_value(load):
    points = load(SMALL + WHEN, "training.local_steps=2", "protocol={name: sync, rounds: 3, participation: 1.0}")
    assert {p.scenario.training.local_steps for p in points} == {2}
    assert {p.scenario.protocol.options["rounds"] for p in points} == {3}


def test_from_outside_a_varied_axis_can_be_given_replaced_and_taken_away(load):
    assert len(load(CROSS, "vary.training.lr=[0.3]")) == 2 * 3
    assert len(load(CROSS, "training.lr=0.3")) == 2 * 2
    assert len(load(CROSS, "grid.training.lr=[0.3, 0.4]")) == 2 * 2 * 2
    assert len(load(CROSS, "vary.seed=[7, 8]")) == 1 + 2 + 2 + 1


@pytest.mark.parametrize(
    ("text", "flag", "message"),
    [
        ("vary: {training.lr: []}\n", None, "vary.training.lr: the axis has no values"),
        ("vary: {training.rate: [1]}\n", None, "vary.training.rate: there is no key"),
        ("vary: {algorithm.mu: [1]}\n", None, "vary.algorithm.mu: 'algorithm.mu' has no value of its own"),
        ("vary: {threads: [1]}\n", None, "vary.threads: 'threads' changes no result"),
        ("grid: {seed: [1]}\nvary: {seed: [1]}\n", None, "vary.seed: is an axis of 'grid' too"),
        ("when: {seeds: {'1': {training.lr: 1}}}\n", None, "when.seeds: there is no key"),
        ("when: {seed: {'1': {training.rate: 1}}}\n", None, "when.seed.1.training.rate: there is no key"),
        ("when: {seed: {'1': {seed: 1}}}\n", None, "cannot be set under 'when'"),
        ("when: {seed: {'1': {grid: {}}}}\n", None, "cannot be set under 'when'"),
        ("when: {seed: {'0': {training.lr: -1}}}\n", None, "when.seed.0.training.lr"),
        ("when: {seed: 3}\n", None, "when.seed"),
        ("", "when.seed=3", "--set when.seed=3: entries under 'when' cannot be set from outside"),
        ("", "vary.seed=3", "--set vary.seed=3: an axis is a list"),
    ],
)
def test_mistakes_are_reported_with_their_place(load, text, flag, message):
    with pytest.raises(UserError) as caught:
        load(SMALL + text, *([flag] if flag else []))
    assert message in str(caught.value)


def test_a_dumped_scenario_has_the_same_points(tmp_path):
    path = tmp_path / "one.yaml"
    path.write_text(CROSS + "when: {network.latency: {10 ms: {training.local_steps: 7}}}\n")
    scenario, _ = yaml_file.load(path)
    again = tmp_path / "two.yaml"
    again.write_text(yaml_file.dump(scenario))
    told = [[(p.id, p.axes) for p in yaml_file.load(one)[0].points()] for one in (path, again)]
    assert told[0] == told[1]


def test_two_points_that_mean_the_same_are_refused_whatever_sets_them(tmp_path):
    path = tmp_path / "one.yaml"
    path.write_text(SMALL + "grid: {training.lr: [0.1, 0.2]}\nvary: {network.latency: [1 s]}\n")
    scenario, _ = yaml_file.load(path)
    assert len([*scenario.points()]) == 4
    path.write_text(
        SMALL + "grid: {seed: [1, 2]}\nwhen: {seed: {'1': {training.lr: 0.2}}}\nvary: {training.lr: [0.2]}\n"
    )
    with pytest.raises(ScenarioError, match="two runs are the same"):
        [*yaml_file.load(path)[0].points()]
