import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.measures.forgetting import average_accuracy, forgetting, just_learned, matrix

COLUMNS = ["time", "version", "client", "period", "seen", "model", "split", "metric", "value", "weight"]


def table(rows):
    """Scores from (time, client, period, seen, value, weight), all of the global model on the test split."""
    full = [(t, t, c, p, s, "global", "test", "accuracy", v, w) for t, c, p, s, v, w in rows]
    return pd.DataFrame(full, columns=COLUMNS)


def test_two_periods_by_hand():
    rows = [
        (1, 0, 0, 1, 0.1, 10),  # an earlier score of the same cell does not count
        (2, 0, 0, 1, 0.8, 10),
        (2, 1, 0, 1, 0.4, 30),
        (3, 0, 0, 2, 0.6, 10),
        (3, 1, 0, 2, 0.2, 30),
        (3, 0, 1, 2, 0.9, 10),
        (3, 1, 1, 2, 0.0, 0),  # no test nodes, no say
    ]
    A = matrix(table(rows), "global")
    np.testing.assert_allclose(A, [[0.5, np.nan], [0.3, 0.9]])
    assert average_accuracy(A) == pytest.approx(0.6)
    assert forgetting(A) == pytest.approx(0.2)
    assert just_learned(A) == pytest.approx(0.7)


def test_clients_learn_at_their_own_pace():
    rows = [(1, 0, 0, 1, 1.0, 1), (2, 1, 0, 1, 0.0, 1), (2, 0, 0, 2, 0.5, 1), (2, 0, 1, 2, 0.25, 1)]
    np.testing.assert_allclose(matrix(table(rows), "global"), [[0.5, np.nan], [0.5, 0.25]])


def test_only_the_model_metric_and_split_asked_for():
    rows = table([(1, 0, 0, 1, 0.5, 4)])
    assert matrix(rows, "local").shape == (0, 0)
    assert matrix(rows, "global", metric="auc").shape == (0, 0)
    assert matrix(rows, "global", split="val").shape == (0, 0)
    assert matrix(rows, "global").tolist() == [[0.5]]


def test_one_period_forgets_nothing_and_no_score_is_no_number():
    one = np.array([[0.7]])
    assert (average_accuracy(one), forgetting(one)) == (0.7, None)
    empty = np.empty((0, 0))
    assert (average_accuracy(empty), forgetting(empty), just_learned(empty)) == (None, None, None)


def test_a_period_that_was_never_scored_when_just_learned_leaves_forgetting_open():
    A = matrix(table([(1, 0, 0, 2, 0.6, 1), (1, 0, 1, 2, 0.8, 1)]), "global")
    assert average_accuracy(A) == pytest.approx(0.7)
    assert forgetting(A) is None


def test_a_period_without_test_nodes_is_left_out():
    rows = [(1, 0, 0, 1, 0.9, 5), (3, 0, 0, 3, 0.5, 5), (3, 0, 2, 3, 0.7, 5), (2, 0, 0, 2, 0.8, 5)]
    A = matrix(table(rows), "global")
    assert np.isnan(A[:, 1]).all()
    assert average_accuracy(A) == pytest.approx(0.6)
    assert forgetting(A) == pytest.approx(0.4)


def test_rows_in_any_order_give_the_same_matrix():
    rng = np.random.default_rng(0)
    rows = [
        (t, c, p, s, rng.random(), 3) for s in (1, 2, 3) for t in (2 * s, 2 * s + 1) for p in range(s) for c in (0, 1)
    ]
    frame = table(rows)
    np.testing.assert_array_equal(matrix(frame, "global"), matrix(frame.sample(frac=1, random_state=1), "global"))


@given(st.integers(1, 7), st.integers(0, 2**32 - 1))
def test_what_was_learned_is_what_is_left_and_what_was_forgotten(periods, seed):
    A = np.tril(np.random.default_rng(seed).random((periods, periods)))
    A[np.triu_indices(periods, 1)] = np.nan
    lost = forgetting(A) or 0.0
    assert average_accuracy(A) + lost * (periods - 1) / periods == pytest.approx(np.diag(A).mean())
    assert just_learned(A) == pytest.approx(np.diag(A).mean())
