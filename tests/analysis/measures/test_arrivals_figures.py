import numpy as np
import pandas as pd
import pytest

from analysis.measures.arrivals import foreseen, prequential, staleness, updates_had, updates_per_period
from analysis.measures.forgetting import average_accuracy, forgetting, headline, matrix
from analysis.measures.frontier import curve
from fedsim.core.record import Recorder

SCORES = ["time", "version", "client", "period", "seen", "model", "split", "metric", "value", "weight"]
ARRIVALS = ["time", "client", "period", "version"]
HEAD = ("global", "test", "accuracy")


def scores(rows):
    """Scores from (time, client, period, seen, value, weight)."""
    return pd.DataFrame([(t, 0, c, p, s, *HEAD, v, w) for t, c, p, s, v, w in rows], columns=SCORES)


PREQUENTIAL = [
    (0.0, 0, 0, 0, 0.9, 10),  # the initial model's
    (5.0, 1, 0, 0, 0.2, 10),  # this client's clock started late
    (6.0, 0, 1, 1, 0.5, 30),
    (9.0, 1, 1, 1, 0.9, 10),
    (9.5, 1, 2, 2, 0.1, 0),  # no nodes, no say
]
MET = [(7.0, 0, 0, 1, 0.8, 10), (8.0, 0, 0, 2, 0.6, 10), (8.0, 0, 1, 2, 0.7, 30), (10.0, 1, 0, 1, 0.4, 10)]


def test_prequential_scores_by_hand():
    frame = scores(PREQUENTIAL + MET)
    found = foreseen(headline(frame, "global", "accuracy", "test"))
    assert found["period"].tolist() == [0, 1]
    assert found["value"].tolist() == pytest.approx([0.2, (0.5 * 30 + 0.9 * 10) / 40])
    assert prequential(headline(frame, "global", "accuracy", "test")) == pytest.approx(0.4)
    assert prequential(headline(frame, "local", "accuracy", "test")) is None
    assert prequential(headline(frame, "global", "accuracy", "val")) is None


def test_a_single_period_from_the_start_has_none():
    assert prequential(headline(scores([PREQUENTIAL[0], *MET]), "global", "accuracy", "test")) is None
    assert prequential(headline(scores([]), "global", "accuracy", "test")) is None


def test_prequential_rows_change_neither_forgetting_nor_curves():
    transfers = Recorder().tables()["transfers"].to_pandas()
    plain, mixed = scores(MET), scores(PREQUENTIAL + MET)
    np.testing.assert_array_equal(matrix(plain, "global"), matrix(mixed, "global"))
    assert average_accuracy(matrix(mixed, "global")) == pytest.approx(0.65)
    assert forgetting(matrix(mixed, "global")) == pytest.approx(0.6 - 0.6)
    pd.testing.assert_frame_equal(curve(plain, transfers, "global"), curve(mixed, transfers, "global"))
    assert len(curve(scores(PREQUENTIAL), transfers, "global")) == 0


def test_updates_had_per_period_by_hand():
    arrivals = pd.DataFrame(
        [(0.0, 0, 0, 0), (0.0, 1, 0, 0), (4.0, 1, 1, 3), (6.0, 0, 1, 4), (6.0, 1, 2, 4), (9.0, 1, 3, 7)],
        columns=ARRIVALS,
    )
    updates = pd.DataFrame({"version": [1, 2, 9]})
    had = updates_had(arrivals.sample(frac=1, random_state=0), updates)
    assert [tuple(row) for row in had.itertuples(index=False)] == [
        (0, 0, 4), (0, 1, 5), (1, 0, 3), (1, 1, 1), (1, 2, 3), (1, 3, 2)
    ]  # fmt: skip
    assert updates_per_period(arrivals, updates) == pytest.approx(3.0)
    assert updates_per_period(arrivals[arrivals["version"] == 0], updates.iloc[:0]) == 0.0
    assert updates_per_period(arrivals.iloc[:0], updates) is None


def test_all_updates_of_a_client_lie_in_one_of_its_periods():
    rng = np.random.default_rng(0)
    versions = np.sort(rng.integers(0, 50, size=(7, 6)), axis=1)
    rows = [(float(v), c, p, v) for c in range(7) for p, v in enumerate(versions[c])]
    had = updates_had(pd.DataFrame(rows, columns=ARRIVALS), pd.DataFrame({"version": [60]}))
    assert (had.groupby("client")["updates"].sum().to_numpy() == 60 - versions[:, 0]).all()


def test_staleness_is_a_mean_over_replies():
    updates = pd.DataFrame({"folded": [3, 0, 1], "staleness": [1.0, 0.0, 5.0]})
    assert staleness(updates) == pytest.approx(2.0)
    assert staleness(updates[updates["folded"] == 0]) is None
    assert staleness(updates.assign(staleness=np.nan)) is None
