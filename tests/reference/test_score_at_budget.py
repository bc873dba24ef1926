"""The score at a budget is that of the last scoring at or before it, and the untrained model's counts for none."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_up_tables import tables

from fedsim.core.errors import UserError
from fedsim.reference.cell import SHARES, Budget, BudgetShare
from fedsim.reference.scores import FINAL, at_budgets, scores, trained

WHOLE = Budget(1000.0, 50.0)
PLACE = "campus/digits/static/power/sync/given/0"
STEPS = st.lists(
    st.tuples(
        st.sampled_from([0.0, 0.25, 0.5, 5.0, 30.0]), st.sampled_from([0.0, 5.0, 10.0, 100.0, 700.0]), st.floats(0, 1)
    ),
    max_size=8,
)


def course(steps):
    """A course whose seconds and bytes grow by these steps, after the untrained model's score at 0 s."""
    rows, seconds, moved = [(0.0, 0.0, 0.1)], 0.0, 0.0
    for more_seconds, more_bytes, score in steps:
        seconds, moved = seconds + more_seconds, moved + more_bytes
        rows.append((seconds, moved, score))
    return rows


@given(STEPS)
def test_the_last_scoring_at_or_before_the_budget_counts(steps):
    rows = course(steps)
    found = at_budgets(trained(tables({PLACE: rows[1:]})), WHOLE)
    for share in SHARES:
        place, most = (1, 1000.0) if share.cost == "bytes" else (0, 50.0)
        before = [row[2] for row in rows if row[0] > 0 and row[place] <= share.part * most]
        assert found[str(share)] == before[-1] if before else math.isnan(found[str(share)])


@given(STEPS)
def test_the_final_score_is_the_last_within_both_budgets(steps):
    rows = course(steps)
    found = at_budgets(trained(tables({PLACE: rows[1:]})), WHOLE)
    within = [score for seconds, moved, score in rows if 0 < seconds <= 50 and moved <= 1000]
    assert found[FINAL] == within[-1] if within else math.isnan(found[FINAL])


@given(STEPS)
def test_a_larger_budget_never_loses_a_score(steps):
    found = at_budgets(trained(tables({PLACE: course(steps)[1:]})), WHOLE)
    for cost in ("bytes", "seconds"):
        known = [
            found[str(BudgetShare(cost, part))] == found[str(BudgetShare(cost, part))] for part in (0.01, 0.1, 1.0)
        ]
        assert known == sorted(known)


def test_a_score_at_the_budget_itself_counts_and_the_last_one_stays():
    runs = {"campus/digits/static/power/sync/given/0": [(5.0, 10.0, 0.3), (20.0, 50.0, 0.6)]}
    (row,) = scores(tables(runs), {("campus", "digits", "static"): WHOLE}).to_dict("records")
    assert [row[str(share)] for share in SHARES[:3]] == [0.3, 0.6, 0.6]
    assert math.isnan(row["1 % of the time"])
    assert (row["10 % of the time"], row["100 % of the time"], row[FINAL]) == (0.3, 0.6, 0.6)


def test_what_sends_nothing_has_its_last_score_at_every_budget_of_bytes():
    runs = {"campus/digits/static/local/isolated/given/0": [(10.0, 0.0, 0.3), (40.0, 0.0, 0.5)]}
    (row,) = scores(tables(runs), {("campus", "digits", "static"): WHOLE}).to_dict("records")
    assert [row[str(share)] for share in SHARES[:3]] == [0.5, 0.5, 0.5]


def test_who_was_never_trained_has_no_final_score_and_who_failed_no_row():
    made = tables({PLACE: [], PLACE.replace("/0", "/2"): [(3.0, 30.0, 0.1)]}, [PLACE.replace("/0", "/1")])
    made.cells["updates"] = 0
    without = type(made)(made.cells.assign(score=math.nan), made.courses.iloc[:0])
    for one in (made, without):
        found = scores(one, {("campus", "digits", "static"): WHOLE})
        assert found["seed"].tolist() == [0, 2]
        assert found[[FINAL, *map(str, SHARES)]].isna().all(axis=None)


def test_a_run_at_a_standstill_counts_and_courses_may_begin_after_0_s():
    made = tables({PLACE: [(3.0, 30.0, 0.4)]})
    made.cells["status"] = "stalled"
    begun = type(made)(made.cells, made.courses[made.courses["seconds"] > 0])
    for one in (made, begun):
        assert scores(one, {("campus", "digits", "static"): WHOLE})[FINAL].tolist() == [0.4]


def test_tables_that_do_not_fit_together_are_refused():
    made = tables({PLACE: [(1.0, 1.0, 0.5)]})
    with pytest.raises(UserError, match=r"plan\.yaml has no setting campus/digits/static"):
        scores(made, {})
    without = type(made)(made.cells, made.courses.iloc[:0])
    with pytest.raises(UserError, match=rf"courses\.parquet has no rows of the cell {PLACE}"):
        scores(without, {("campus", "digits", "static"): WHOLE})
