"""Who leads at equal bytes and at equal simulated time."""

import math

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from synthetic_sweep import write_sweep

from analysis.measures.budgets import TIED, is_chosen, leads
from analysis.measures.frontier import on_grid
from analysis.report.budgets_section import budgets
from analysis.report.write import write


def curves(*runs, cost="time"):
    """Runs of one period are (uplink, protocol, algorithm, [(cost, score), ...])."""
    before = [[run[:3] for run in runs[:place]].count(run[:3]) for place, run in enumerate(runs)]
    rows = [
        {"network.uplink": uplink, "protocol": protocol, "algorithm": algorithm, "seed": str(before[place]),
         "run": place,
         "time": spent, cost: spent, "score": score, "met": score, "fixed": True, "complete": True, "periods": 1.0,
         "chance": math.nan}
        for place, (uplink, protocol, algorithm, course) in enumerate(runs)
        for spent, score in course
    ]  # fmt: skip
    return pd.DataFrame(rows)


AXES = ["network.uplink", "protocol"]


def test_one_shot_leads_until_rounds_overtake_it_and_longer_on_a_slow_uplink():
    # one exchange takes 1 s or 10 s; once scores 0.5, and rounds have 0.2 after the first and 0.2 more after each other
    frame = curves(*[
        (uplink, *method, [(unit * at, score) for at, score in course])
        for uplink, unit in (("10 Mbit/s", 1.0), ("1 Mbit/s", 10.0))
        for method, course in (
            (("one_shot", "ghost"), [(1.5, 0.5)]),
            (("sync", "fedavg"), [(1, 0.2), (2, 0.4), (3, 0.6), (4, 0.8)]),
        )
    ])  # fmt: skip
    found = leads(frame, AXES, "time")
    told = found[["network.uplink", "from", "to", "method", "score", "next", "next_score"]].values.tolist()
    ghost, rounds = "ghost, one_shot", "fedavg, sync"
    assert told == [
        [uplink, *row]
        for uplink, unit in (("10 Mbit/s", 1.0), ("1 Mbit/s", 10.0))
        for row in (
            [1.0 * unit, 1.5 * unit, rounds, 0.2, "", pytest.approx(math.nan, nan_ok=True)],
            [1.5 * unit, 3.0 * unit, ghost, 0.5, rounds, 0.2],
            [3.0 * unit, math.inf, rounds, pytest.approx(0.6), ghost, 0.5],
        )
    ]


def test_a_run_that_loses_its_lead_again_is_judged_by_what_is_in_force():
    frame = curves(("1 Mbit/s", "sync", "fedavg", [(1, 0.9), (2, 0.3)]), ("1 Mbit/s", "sync", "power", [(1, 0.5)]))
    assert leads(frame, AXES, "time")[["from", "method"]].values.tolist() == [[1, "fedavg"], [2, "power"]]


def test_scores_are_means_of_runs_and_a_method_has_none_before_all_have():
    frame = curves(
        ("1", "sync", "fedavg", [(1, 0.9)]), ("1", "sync", "fedavg", [(3, 0.1)]), ("1", "sync", "power", [(2, 0.4)]),
        cost="moved",
    )  # fmt: skip
    found = leads(frame, AXES, "moved")
    assert found[["from", "to", "method", "n"]].values.tolist() == [[2, 3, "power", 1], [3, math.inf, "fedavg", 2]]
    assert found["score"].tolist() == pytest.approx([0.4, 0.5])


def test_what_somebody_chooses_makes_methods_and_the_world_makes_conditions():
    chosen = ["protocol", "protocol.rounds", "algorithm.shift", "training.local_steps", "network.codec.up", "model"]
    world = ["network.uplink", "data.partition.alpha", "clients.count", "server.speed", "protocols"]
    assert [is_chosen(axis) for axis in chosen + world] == [True] * 6 + [False] * 5


def test_a_condition_with_one_method_is_left_out():
    frame = curves(("1", "sync", "fedavg", [(1, 0.9)]), ("2", "sync", "fedavg", [(1, 0.9)]))
    assert leads(frame, AXES, "time").empty

    class Files:
        def save(self, name, frame):
            raise AssertionError(name)

        drawn = save

    assert budgets(frame.assign(moved=1.0), AXES, "accuracy", Files()) == ""


courses = st.lists(st.tuples(st.integers(0, 20), st.integers(0, 10)), min_size=1, max_size=6, unique_by=lambda p: p[0])


@pytest.mark.long
@given(st.lists(courses, min_size=2, max_size=4))
@settings(max_examples=50, deadline=None)
def test_at_every_budget_the_leaders_are_within_a_point_of_the_best(given_courses):
    frame = curves(*[("1", "sync", str(k), sorted(course)) for k, course in enumerate(given_courses)])
    found = leads(frame, AXES, "time")
    assert found["from"].tolist()[1:] == found["to"].tolist()[:-1]
    for budget in range(21):
        scores = {
            name: float(on_grid(rows, "time", pd.Series([float(budget)]).to_numpy())[0])
            for name, rows in frame.groupby("algorithm")
        }
        known = {name: score for name, score in scores.items() if not math.isnan(score)}
        leading = found[(found["from"] <= budget) & (budget < found["to"])]["method"].tolist()
        assert len(leading) == bool(known)
        for name in leading[0].split(" / ") if known else ():
            assert known[name] >= max(known.values()) - TIED - 1e-12


@pytest.mark.long
def test_the_report_tells_it(tmp_path):
    folder = write_sweep(tmp_path / "sweep", participations=("0.5",))
    page = write([folder]).read_text()
    assert "Equal budgets" in page
    table = pd.read_csv(folder / "tables" / "budgets.csv")
    assert set(table["cost"]) == {"time", "moved"}
    assert set(table["network.latency"]) == {"10 ms", "100 ms", "1 s"}
    assert (folder / "figures" / "leaders_time.svg").is_file()
    assert (folder / "figures" / "leaders_moved.pdf").is_file()


def on_two_periods(*runs):
    """Runs of one condition are (algorithm, [(time, score met, score on the fixed test, periods, complete), ...])."""
    rows = [
        {"network.uplink": "1", "protocol": "sync", "algorithm": algorithm, "seed": "0", "run": place, "time": time,
         "score": met if math.isnan(whole) else whole, "met": met, "fixed": not math.isnan(whole), "periods": periods,
         "complete": complete, "chance": math.nan}
        for place, (algorithm, course) in enumerate(runs)
        for time, met, whole, periods, complete in course
    ]  # fmt: skip
    return pd.DataFrame(rows)


def test_scores_count_once_all_periods_have_arrived():
    # the second method has a high score on its first period, at a time when the first has met both
    frame = on_two_periods(
        ("fedavg", [(1, 0.5, math.nan, 1.0, False), (2, 0.4, math.nan, 2.0, True)]),
        ("power", [(1, 0.6, math.nan, 1.0, False), (3, 0.9, math.nan, 1.0, False), (5, 0.6, math.nan, 2.0, True)]),
    )
    found = leads(frame, AXES, "time")
    assert found[["from", "to", "method", "score"]].values.tolist() == [
        [2, 5, "fedavg", 0.4], [5, math.inf, "power", 0.6],
    ]  # fmt: skip
    assert (set(found["test"]), set(found["same_test"])) == ({"complete"}, {True})
    shorter = frame.assign(periods=frame["periods"].where(frame["algorithm"] == "fedavg", 1.0))
    assert set(leads(shorter, AXES, "time")["same_test"]) == {False}


def test_where_all_were_scored_on_the_fixed_test_that_is_compared_from_the_start():
    frame = on_two_periods(
        ("fedavg", [(1, 0.9, 0.3, 1.0, True), (2, 0.4, 0.4, 2.0, True)]), ("power", [(1, 0.6, 0.2, 1.0, True)])
    )
    found = leads(frame, AXES, "time")
    assert found[["from", "method", "score", "next_score"]].values.tolist() == [[1, "fedavg", 0.3, 0.2]]
    assert (set(found["test"]), set(found["same_test"])) == ({"all_periods"}, {True})
    partly = frame.assign(fixed=frame["algorithm"] == "fedavg")
    assert set(leads(partly, AXES, "time")["test"]) == {"complete"}


def seeds(name, *courses):
    return [("1", "sync", name, list(enumerate(course))) for course in courses]


def test_what_is_not_significantly_apart_is_one_row_of_ties():
    near = seeds("a", *[(0.50 + seed / 100, 0.60) for seed in range(5)])
    near += seeds("b", *[(0.54 - seed / 100, 0.60) for seed in range(5)])  # equal means, then equal scores
    far = seeds("c", *[(0.40 + seed / 100, 0.90 + seed / 100) for seed in range(5)])
    found = leads(curves(*near, *far), AXES, "time")
    assert found[["from", "method", "next"]].values.tolist() == [
        [0, "a / b", "c"], [1, "c", "a"],
    ]  # fmt: skip
    few = leads(curves(("1", "sync", "a", [(0, 0.500)]), ("1", "sync", "b", [(0, 0.505), (1, 0.52)])), AXES, "time")
    assert few[["from", "method"]].values.tolist() == [[0, "b / a"], [1, "b"]]  # without a test, within a point


def test_what_guessing_reaches_leads_nowhere():
    frame = curves(("1", "sync", "a", [(0, 0.10), (1, 0.5)]), ("1", "sync", "b", [(0, 0.05), (1, 0.1)]))
    assert leads(frame.assign(chance=0.1), AXES, "time")["from"].tolist() == [1]
    assert leads(frame.assign(chance=0.6), AXES, "time").empty
