"""What a target on all periods stands on: the last arrival, and the test on all periods from the start."""

import math

import pandas as pd

from analysis.whole_stream import from_the_start, last_arrival, seconds_whole


def points(**times):
    rows = [
        {"point": f"{name}{seed}", "algorithm": name, "seed": str(seed), "target": 0.7, "target_on": "all_periods",
         "seconds_to_target": time}
        for name, time in times.items() for seed in range(2)
    ]  # fmt: skip
    return pd.DataFrame(rows)


def curves(**courses):
    """Two periods, the second from version 5 on; of each algorithm the score over both at seconds 1, 2, 3."""
    rows = [
        {"point": f"{name}{seed}", "time": time, "version": version, "periods": periods, "complete": periods == 2,
         "whole": whole}
        for name, course in courses.items() for seed in range(2)
        for time, version, periods, whole in zip((1.0, 2.0, 3.0), (4, 5, 6), (1.0, 2.0, 2.0), course, strict=True)
    ]  # fmt: skip
    return pd.DataFrame(rows)


def test_the_last_arrival_is_named_where_all_runs_have_the_same():
    frame = curves(A=(0.1, 0.2, 0.3))
    assert (
        last_arrival(frame) == "All 2 periods have arrived by update 5, and no earlier score counts towards the target."
    )
    uneven = frame.assign(complete=[False, True, True, False, False, True])
    assert last_arrival(uneven) == ""
    assert last_arrival(frame.assign(periods=1.0, complete=True)) == ""


def test_the_first_score_over_all_periods_counts_even_before_the_last_arrival():
    frame = points(A=2.0, B=3.0)
    found = seconds_whole(frame, curves(A=(0.6, 0.8, 0.6), B=(0.7, 0.1, 0.1)))
    assert found.tolist() == [2.0, 2.0, 1.0, 1.0]
    assert seconds_whole(frame, curves(A=(0.0,) * 3, B=(0.9,) * 3)).isna().tolist() == [True, True, False, False]


def test_it_is_said_whether_the_leaders_change():
    early = curves(A=(0.6, 0.8, 0.9), B=(0.7, 0.8, 0.9))
    assert from_the_start(points(A=2.0, B=3.0), early, "algorithm", []) == "B leads (1.00 s; next A, 2.00 s)."
    assert from_the_start(points(A=3.0, B=2.0), early, "algorithm", []) == "The leaders are the same."
    assert from_the_start(points(A=3.0, B=2.0), early.assign(whole=math.nan), "algorithm", []) == ""
    each = points(A=3.0, B=2.0).assign(target_on="each_period")
    assert from_the_start(each, early, "algorithm", []) == ""


def test_only_the_conditions_with_other_leaders_are_named():
    early, late = curves(A=(0.6, 0.8, 0.9), B=(0.7, 0.8, 0.9)), points(A=3.0, B=2.0)
    frames = [
        (late.assign(latency=where, point=late["point"] + where, seconds_to_target=times),
         early.assign(point=early["point"] + where))
        for where, times in (("1 s", [3.0, 3.0, 2.0, 2.0]), ("2 s", [2.0, 2.0, 3.0, 3.0]))
    ]  # fmt: skip
    runs, courses = (pd.concat([frame[at] for frame in frames], ignore_index=True) for at in (0, 1))
    assert from_the_start(runs, courses, "algorithm", ["latency"]) == (
        "The leaders are the same, except that at latency 2 s B leads (1.00 s; next A, 2.00 s)."
    )
