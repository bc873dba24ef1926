"""Who is served: the indices by hand, and their bounds."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.served import jain, served

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
    found = served(pd.DataFrame(rows, columns=SCORES), sent, arrivals, "global", "accuracy", "test")
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
