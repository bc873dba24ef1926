"""Who is served: the indices by hand, and their bounds."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.measures.forgetting import usable
from analysis.measures.served import PLACES, among, behind, covered, jain, last_scores, served
from analysis.report import served_section

SCORES = ["time", "version", "client", "period", "seen", "model", "split", "metric", "value", "weight"]
HEAD = ("global", "test", "accuracy")


def test_the_worst_tenth_and_who_took_part_by_hand():
    rows = [(time, time, k, 0, 1, *HEAD, k / 10 * time / 2, 5) for time in (1, 2) for k in range(1, 12)]
    rows.append((2, 2, 11, 0, 1, *HEAD, 0.0, 0))  # nothing to be tested on
    sent = pd.DataFrame(
        [(1, -1, "delivered")] * 3 + [(2, -2, "delivered"), (3, -1, "late"), (4, 5, "delivered"), (-1, 6, "delivered")],
        columns=["src", "dst", "fate"],
    )
    arrivals = pd.DataFrame({"client": [0, 1, 1, 2, 3]})
    found = served(usable(pd.DataFrame(rows, columns=SCORES), "global", "accuracy", "test"), sent, arrivals)
    last = np.arange(1, 12) / 10
    assert found == {
        "worst_decile": pytest.approx(0.15),  # of eleven, two
        "score_jain": pytest.approx(last.sum() ** 2 / (11 * (last**2).sum())),
        "took_part": 0.5,
        "upload_jain": pytest.approx(16 / (4 * 10)),
    }


@given(st.lists(st.floats(0, 1), min_size=1, max_size=20), st.floats(0.1, 10))
def test_jain_lies_between_one_nth_and_one_and_knows_no_unit(values, unit):
    index = jain(np.array(values))
    if index is None or max(values) < 1e-6:
        return
    assert 1 / len(values) - 1e-9 <= index <= 1 + 1e-9
    assert jain(unit * np.array(values)) == pytest.approx(index)
    assert jain(np.ones(len(values))) == pytest.approx(1)
    assert jain(np.zeros(3)) is None


def test_distributions_by_hand():
    """Scores 0 to 1; five uploads of three of four clients, of which one replied twice behind the server's version."""
    scores = pd.DataFrame([(1, 1, k, 0, 1, *HEAD, k / 10, 5) for k in range(11)], columns=SCORES)
    sent = pd.DataFrame(
        [(0, -1, "delivered", 1.0, 0), (0, -1, "delivered", 3.0, 0), (1, -1, "delivered", 3.5, 1),
         (0, -1, "delivered", 9.0, 1), (2, -1, "delivered", 10.0, 2), (3, -1, "late", 4.0, 2),
         (-1, 3, "delivered", 4.0, 2)],
        columns=["src", "dst", "fate", "arrived", "version"],
    )  # fmt: skip
    updates = pd.DataFrame({"time": [2.0, 4.0, 9.5], "version": [1, 2, 3]})
    tables = {"scores": scores, "transfers": sent, "updates": updates, "arrivals": pd.DataFrame({"client": range(4)})}
    parts = among(tables, last_scores(usable(tables["scores"], "global", "accuracy", "test"))["value"].to_numpy())
    found = {what: value for what, (_, value) in parts.items()}
    assert found["score"] == pytest.approx(PLACES)
    assert found["uploads"][[0, 5, 10, 15, 20]].tolist() == pytest.approx([0, 0, 0.2, 0.4, 1])
    assert found["took"][[0, 1, 2, 6, 7, 19, 20]].tolist() == [0, 0, 0.25, 0.25, 0.5, 0.5, 0.75]
    assert found["behind"].tolist() == [0.5, 0.5]
    assert behind(sent[sent["fate"] == "delivered"].query("src >= 0"), updates).tolist() == [0, 1, 0, 1]


def test_staleness_in_bands():
    rows = [("a", "p", 0, 0.5), ("a", "p", 4, 0.25), ("a", "p", 5, 0.125), ("a", "p", 40, 0.125), ("b", "q", 0, 1.0)]
    frame = pd.DataFrame(rows, columns=["algorithm", "run", "at", "value"]).assign(what="behind")
    found = served_section.staleness(frame, ["algorithm"])
    names = [name for _, name in served_section.BANDS]
    assert found.loc[0, names].tolist() == [0.5, 0, 0, 0.375, 0, 0.125]
    assert found.loc[1, names].tolist() == [1, 0, 0, 0, 0, 0]
    assert served_section.staleness(frame[frame["algorithm"] == "b"], ["algorithm"]).empty
    assert served_section.staleness_part(frame.iloc[:0], []) == ""


def test_the_classes_that_they_hold_by_hand():
    """Clients 0 and 2 took part: of the classes 3 of 4, 0 of 1, and all 2; nobody holds the fourth."""
    held = np.array([[2, 0, 2, 0], [1, 1, 0, 0], [1, 0, 0, 0]])
    sent = pd.DataFrame([(0, -1, "delivered"), (2, -1, "delivered"), (1, -1, "late"), (-1, 1, "delivered")],
                        columns=["src", "dst", "fate"])  # fmt: skip
    assert covered(held, sent) == pytest.approx((3 / 4 + 0 + 1) / 3)
    assert covered(held, sent.iloc[2:]) == 0
    assert covered(held[:, :1], sent) is None
    assert covered(np.zeros((3, 2), int), sent) is None
