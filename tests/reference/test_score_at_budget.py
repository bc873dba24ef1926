"""The score at a budget is that of the last scoring at or before it, and the untrained model's counts for none."""

import math

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_up_tables import tables

from fedsim.core.errors import UserError
from fedsim.reference.plan import Budget
from fedsim.reference.scores import FINAL, at_budgets, scores
from fedsim.reference.terms import SHARES, Share

WHOLE = Budget(1000.0, 50.0)
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
    found = at_budgets(pd.DataFrame(rows, columns=["seconds", "bytes", "score"]), WHOLE)
    for share in SHARES:
        place, most = (1, 1000.0) if share.cost == "bytes" else (0, 50.0)
        before = [row[2] for row in rows[1:] if row[place] <= share.part * most]
        assert found[str(share)] == before[-1] if before else math.isnan(found[str(share)])


@given(STEPS)
def test_a_larger_budget_never_loses_a_score(steps):
    found = at_budgets(pd.DataFrame(course(steps), columns=["seconds", "bytes", "score"]), WHOLE)
    for cost in ("bytes", "seconds"):
        known = [found[str(Share(cost, part))] == found[str(Share(cost, part))] for part in (0.01, 0.1, 1.0)]
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
    place = "campus/digits/static/power/sync/given"
    found = scores(tables({f"{place}/0": []}, [f"{place}/1"]), {("campus", "digits", "static"): WHOLE})
    assert found["seed"].tolist() == [0]
    assert found[FINAL].isna().all()


def test_tables_that_do_not_fit_together_are_refused():
    place = "campus/digits/static/power/sync/given/0"
    made = tables({place: [(1.0, 1.0, 0.5)]})
    with pytest.raises(UserError, match=r"plan\.yaml has no budgets for the setting campus/digits/static"):
        scores(made, {})
    without = type(made)(made.cells, made.courses.iloc[:0])
    with pytest.raises(UserError, match=rf"courses\.parquet has no rows of the cell {place}"):
        scores(without, {("campus", "digits", "static"): WHOLE})
