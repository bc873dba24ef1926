"""How long after an arrival the score over what has been met is at the target again, against a scan by hand."""

import pandas as pd
from hypothesis import given
from hypothesis import strategies as st

from analysis.measures.arrivals import recovery


def course(*scores, every=1.0):
    """A scoring at every second from 1 on, each of a version of its own."""
    return pd.DataFrame(
        {"time": [every * (at + 1) for at in range(len(scores))], "version": range(1, len(scores) + 1), "met": scores}
    )


def arrivals(*times):
    """Two clients that something arrives at at the same moments, after the scoring of that moment."""
    return pd.DataFrame(
        [(time, client, period, int(time)) for client in (0, 1) for period, time in enumerate(times)],
        columns=["time", "client", "period", "version"],
    )


def test_by_hand():
    # the second period takes two scorings to come back, the third one, the fourth never does
    found = recovery(course(0.8, 0.9, 0.4, 0.7, 0.75, 0.2, 0.6), arrivals(0, 2, 4, 5), 0.7)
    assert found == (3, (2.0 + 1.0) / 2, 1, 1)


def test_all_there_from_the_start_has_no_recovery_and_learning_nothing_never_recovers():
    assert recovery(course(0.1, 0.9), arrivals(0), 0.7) is None
    assert recovery(course(0.1, 0.1, 0.1), arrivals(0, 1, 2), 0.7) == (2, None, 0, 2)
    assert recovery(course(0.9, 0.9), arrivals(0, 2), 0.7) is None  # arrives after the last scoring


def test_a_scoring_of_the_moment_of_an_arrival_came_before_it():
    rows = course(0.2, 0.9, 0.3)
    assert recovery(rows, arrivals(0, 2), 0.7) == (1, None, 0, 1)
    same = pd.concat([rows, pd.DataFrame({"time": [2.0], "version": [3], "met": [0.8]})]).sort_values("time")
    assert recovery(same, arrivals(0, 2), 0.7) == (1, 0.0, 1, 0)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=8), st.sets(st.integers(0, 9), min_size=1), st.floats(0, 1))
def test_against_a_scan(scores, moments, target):
    found = recovery(course(*scores), arrivals(*sorted(moments)), target)
    took, never, first = [], 0, 0
    for moment in moments - {0}:
        after = [(at + 1, score) for at, score in enumerate(scores) if at + 1 > moment]
        back = [time - moment for time, score in after if score >= target]
        took += back[:1]
        first += bool(after) and after[0][1] >= target
        never += bool(after) and not back
    assert found == (
        (len(took) + never, sum(took) / len(took) if took else None, first, never) if took or never else None
    )
