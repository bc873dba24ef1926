"""The answer in words: recomputed by hand, grouped, and honest about what few seeds can tell."""

import math

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.answer import caution, compared, findings
from analysis.cautions import cautions
from analysis.contest import contest
from analysis.groups import everywhere, grouped, listed, where
from analysis.wording import BYTE, SCORE, TIME, sentence

LATENCY, PART = "network.latency", "protocol.participation"


def points(rows, seeds=2, target=0.7, periods=5.0, **columns):
    """A row for each seed of (latency, participation, algorithm, seconds, score); lists have one value a seed."""
    found = []
    for latency, part, name, seconds, score in rows:
        for seed in range(seeds):
            each = [value[seed] if isinstance(value, list) else value for value in (seconds, score)]
            found.append({LATENCY: latency, PART: part, "algorithm": name, "seed": str(seed),
                          "seconds_to_target": each[0], "bytes_to_target": each[0] * 1e6, "score": each[1],
                          "am": each[1], "fm": 0.1, "target": target, "target_on": "all_periods", "periods": periods,
                          "sim_seconds": 10.0, "bytes_moved": 1e6, **columns})  # fmt: skip
    return pd.DataFrame(found)


NAN = math.nan
SWEEP = [
    row
    for latency in ("10 ms", "1 s")
    for row in (
        (latency, "0.1", "A", NAN, 0.3), (latency, "0.1", "B", NAN, 0.2),
        (latency, "0.3", "A", 10.0, 0.8), (latency, "0.3", "B", 20.0, 0.7),
        (latency, "1.0", "A", 9.0, 0.9), (latency, "1.0", "B", 8.0, 0.95),
    )
]  # fmt: skip


def told(frame, axes=(LATENCY, PART)):
    return {one.about: one.found for one in findings(frame, list(axes), "accuracy")}


def test_an_axis_that_changes_nothing_is_said_once():
    found = told(points(SWEEP))
    assert found["Time to 70 % accuracy on all 5 periods (2 seeds)"] == (
        "At every latency: at participation 0.3 A leads (10.0 s; next B, 20.0 s); at participation 1.0 B leads "
        "(8.00 s; next A, 9.00 s); at participation 0.1 nobody gets there."
    )
    assert found["Bytes to it"] == (
        "The leaders are the same as in time: 10.0 MB at participation 0.3 and 8.00 MB at participation 1.0."
    )
    assert found["Final accuracy on all 5 periods"] == (
        "At every latency: at participation 0.1 and 0.3 A is best (30.0 to 80.0 %); "
        "at participation 1.0 B is best (95.0 %; next A, 90.0 %)."
    )


def test_one_answer_for_all_conditions():
    frame = points([row for row in SWEEP if row[1] == "0.3"])
    assert told(frame)["Time to 70 % accuracy on all 5 periods (2 seeds)"] == (
        "A leads at every latency (10.0 s; next B, 20.0 s)."
    )
    one = points([row for row in SWEEP if row[:2] == ("1 s", "0.3")])
    assert told(one)["Time to 70 % accuracy on all 5 periods (2 seeds)"] == "A leads (10.0 s; next B, 20.0 s)."


def test_a_lead_that_not_every_seed_shows_is_said_to_be_one_on_average():
    frame = points([("1 s", "1.0", "A", [10.0, 30.0], 0.8), ("1 s", "1.0", "B", [40.0, 25.0], 0.7)])
    assert told(frame)["Time to 70 % accuracy on all 5 periods (2 seeds)"] == (
        "A leads, on average but not in every run (20.0 s; next B, 32.5 s)."
    )
    assert "With 2 seeds no lead can be tested for significance, which takes 5" in caution(frame, [LATENCY, PART])


def test_with_five_seeds_leads_are_tested():
    times = [10.0, 11.0, 9.0, 10.5, 9.5]
    near = [time + more for time, more in zip(times, (1.0, -0.9, 1.2, -0.8, 0.3), strict=True)]
    far = [time + more for time, more in zip(times, (5.0, 5.5, 4.5, 5.2, 4.8), strict=True)]
    rows = [("1 s", "1.0", "A", times, 0.8), ("1 s", "1.0", "B", far, 0.7)]
    tested = points(rows, seeds=5)
    assert told(tested)["Time to 70 % accuracy on all 5 periods (5 seeds)"] == "A leads (10.0 s; next B, 15.0 s)."
    assert "exclude zero (95 %)" in caution(tested, [])
    level = points([rows[0], ("1 s", "1.0", "B", near, 0.7)], seeds=5)
    assert told(level)["Time to 70 % accuracy on all 5 periods (5 seeds)"] == (
        "No difference is significant, A ahead on average (10.0 and 10.2 s)."
    )
    three = points([rows[0], ("1 s", "1.0", "B", near, 0.7), ("1 s", "1.0", "C", far, 0.7)], seeds=5)
    assert told(three)["Time to 70 % accuracy on all 5 periods (5 seeds)"] == (
        "A and B lead, with no significant difference between them (10.0 and 10.2 s)."
    )


def test_who_reaches_it_in_some_runs_only_cannot_lead():
    rows = [("1 s", "1.0", "A", [NAN, 5.0], 0.8), ("1 s", "1.0", "B", [20.0, 20.0], 0.7)]
    (one,) = contest(points(rows), [], "algorithm", "seconds_to_target", least=True)
    assert (one.kind, one.names, one.only, one.missing) == ("lead", ("B",), True, ("A",))
    assert sentence([one], TIME) == "Only B gets there in every run (20.0 s)."
    (none,) = contest(points(rows[:1]), [], "algorithm", "seconds_to_target", least=True)
    assert sentence([none], TIME) == "It is not reached in every run (A in 1 of 2)."
    (never,) = contest(points([("1 s", "1.0", "A", NAN, 0.8)]), [], "algorithm", "seconds_to_target", least=True)
    assert sentence([never], TIME) == "It is not reached."


def test_a_single_algorithm_is_described_by_its_figures():
    rows = [row for row in SWEEP if row[2] == "A" and row[1] != "0.1"]
    found = told(points(rows))
    assert found["Time to 70 % accuracy on all 5 periods (2 seeds)"] == (
        "At every latency: 10.0 s at participation 0.3; 9.00 s at participation 1.0."
    )
    assert caution(points(rows), [LATENCY, PART]) == ""
    lone = points([("1 s", "1.0", "A", 9.0, 0.9)], seeds=1)
    assert told(lone)["Time to 70 % accuracy on all 5 periods (1 seed)"] == "9.00 s."


def test_where_one_algorithm_was_run_the_protocols_are_compared():
    frame = points([("1 s", "1.0", "A", seconds, 0.8) for seconds in (5.0, 9.0)])
    frame["protocol"] = ["sync", "sync", "deadline", "deadline"]
    assert compared(frame, ["protocol"]) == "protocol"
    assert next(iter(told(frame, ["protocol"]).values())) == "sync leads (5.00 s; next deadline, 9.00 s)."


def test_without_a_target_scores_speak_and_without_scores_times_and_bytes():
    frame = points(SWEEP, target=NAN).assign(seconds_to_target=NAN, target_on="")
    assert [*told(frame)] == ["Final accuracy on all 5 periods (2 seeds)"]
    bare = frame[frame["algorithm"] == "A"].assign(score=NAN, am=NAN, fm=NAN, periods=NAN)
    assert told(bare) == {"Simulated time (2 seeds)": "10.0 s at every latency and participation.",
                          "Bytes moved on the wire": "1.00 MB at every latency and participation."}  # fmt: skip


def test_a_target_on_each_period_says_so():
    assert next(iter(told(points(SWEEP).assign(target_on="each_period")))).startswith(
        "Time to 70 % accuracy on each period, from its arrival on ("
    )


@pytest.mark.long
def test_too_many_answers_are_counted():
    names = "ABCDEFG"
    rows = [(f"{place} ms", "1.0", name, 10.0 - (name == names[place % 7]), 0.5) for place in range(1, 30)
            for name in names]  # fmt: skip
    found = told(points(rows))["Time to 70 % accuracy on all 5 periods (2 seeds)"]
    assert found.startswith("Of 29 conditions, B leads in 5, ")
    assert found.endswith("All conditions are listed below.")
    two = told(points([row for row in rows if row[2] in "AB"]))["Time to 70 % accuracy on all 5 periods (2 seeds)"]
    assert "at 20 of 29 values of latency A and B are level (10.0 s)" in two
    assert len(found) < 300


@given(st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from("xyz"), st.integers(0, 2)), min_size=1,
                unique_by=lambda row: row[:2]))  # fmt: skip
def test_every_condition_is_in_one_group_that_says_where_it_is_and_has_its_answer(rows):
    def place(row):
        return {"one": row[0], "two": row[1]}

    groups = grouped(rows, place, lambda row: row[2])
    assert sorted(member for group in groups for member in group.members) == sorted(rows)
    for group in groups:
        assert len({row[2] for row in group.members}) == 1
        for row in group.members:
            assert all(place(row)[axis] in values for axis, values in group.way)


def test_words_for_places():
    values = {LATENCY: ["10 ms", "1 s", "2 s"], "protocol": ["sync", "deadline"]}
    assert where(((LATENCY, ("10 ms", "1 s", "2 s")),), values) == "at latency 10 ms to 2 s"
    assert where(((LATENCY, ("2 s",)), ("protocol", ("sync",))), values) == "at latency 2 s, with protocol sync"
    assert listed(["10 ms", "2 s"], values[LATENCY]) == "10 ms and 2 s"
    (group,) = grouped([{"a.x": "1", "b.y": "2"}, {"a.x": "2", "b.y": "2"}], lambda row: row, lambda _: 0)
    assert everywhere(group, lambda row: row) == "at every x"
    (union,) = grouped([{"x": "1", "y": "1"}, {"x": "2", "y": "1"}, {"x": "1", "y": "2"}], lambda row: row, lambda _: 0)
    assert everywhere(union, lambda row: row) == "in every condition"


@given(st.lists(st.lists(st.floats(0, 1), min_size=5, max_size=5), min_size=2, max_size=4))
def test_the_leader_has_the_best_mean_and_those_level_are_not_significantly_behind(scores):
    frame = points([("1 s", "1.0", name, 1.0, list(own)) for name, own in zip("ABCD", scores, strict=False)], seeds=5)
    (one,) = contest(frame, [], "algorithm", "score", least=False)
    means = frame.groupby("algorithm")["score"].mean()
    assert means[one.names[0]] == pytest.approx(means.max())
    for name in set(means.index) - {*one.names}:
        apart = (
            frame[frame["algorithm"] == one.names[0]]["score"].to_numpy()
            - frame[frame["algorithm"] == name]["score"].to_numpy()
        )
        half = 2.7764451052 * apart.std(ddof=1) / 5**0.5
        assert apart.mean() - half > -1e-12
    assert sentence([one], SCORE).endswith(").")


def test_rounds_that_ran_short_are_warned_of():
    frame = points(SWEEP, asked=164.0, updates=40.0, wanted=2000.0)
    (words,) = cautions(frame, frame.assign(status="done"), [LATENCY, PART])
    assert words.startswith("Rounds ran short in every point: on average 8 % (4.1 of 50.0 per update) of the clients")
    some = frame.assign(wanted=[2000.0 if part == "1.0" else 164.0 for part in frame[PART]])
    (words,) = cautions(some, frame.assign(status="done"), [LATENCY, PART])
    assert "in 8 of 24 points" in words
    assert "latency 10 ms, participation 1.0" in words
    assert cautions(frame.assign(wanted=NAN), frame.assign(status="done"), [LATENCY]) == []


def test_failed_points_and_unequal_periods_are_warned_of():
    frame = points(SWEEP, asked=1.0, updates=1.0, wanted=1.0)
    status = ["failed", "stalled", *["done"] * (len(frame) - 2)]
    assert cautions(frame, frame.assign(status=status), []) == [
        "Of 24 points, 1 failed and are missing here and 1 stalled and are shown with what they had reached: see What "
        "was run."
    ]
    uneven = frame.assign(periods=[3.0, *[5.0] * (len(frame) - 1)])
    assert "after 3 to 5 periods" in cautions(uneven, frame.assign(status="done"), [])[0]
    assert BYTE.reaches == TIME.reaches != SCORE.reaches
