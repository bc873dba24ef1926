"""The answer as a grid: recomputed by hand, and honest about what few seeds and late counting can tell."""

import math

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.axes import listed
from analysis.report.best_parts import answer_section
from analysis.report.cautions import cautions
from analysis.statistics.answer import MOST_COLUMNS, MOST_ROWS, compared, grid
from analysis.statistics.significance import comparisons

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
                          "target_at_first": 0.0, "sim_seconds": 10.0, "bytes_moved": 1e6, **columns})  # fmt: skip
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


def shown(frame, axes=(LATENCY, PART)):
    """Return the grid as {(row, column): [part, ...]}."""
    found = grid(frame, list(axes), "accuracy")
    return {
        (label, head): entry.parts
        for label, entries in found.rows for head, entry in zip(found.heads[1:], entries, strict=True)
    }  # fmt: skip


def test_two_axes_are_a_grid_of_who_is_first_with_time_and_bytes_or_nobody():
    frame = points(SWEEP)
    found = grid(frame, [LATENCY, PART], "accuracy")
    assert found.title == "First at 70 % accuracy"
    assert found.heads == ["participation", "latency 10 ms", "latency 1 s"]
    assert [label for label, _ in found.rows] == ["0.1", "0.3", "1.0"]
    for column in found.heads[1:]:
        assert shown(frame)["0.1", column] == ["nobody"]
        assert shown(frame)["0.3", column] == ["A", "10.0 s", "10.0 MB"]
        assert shown(frame)["1.0", column] == ["B", "8.00 s", "8.00 MB"]
    assert found.note.startswith("Means over 2 seeds; ")
    assert "fewer than 5 cannot be tested" in found.note


def test_what_is_no_grid_is_a_list_of_conditions():
    one = points([row for row in SWEEP if row[0] == "1 s"])
    assert shown(one)["0.3", ""] == ["A", "10.0 s", "10.0 MB"]
    assert grid(one, [LATENCY, PART], "accuracy").heads == ["participation", ""]
    lone = points([row for row in SWEEP if row[:2] == ("1 s", "0.3")])
    assert shown(lone) == {("", ""): ["A", "10.0 s", "10.0 MB"]}
    three = pd.concat([points(SWEEP).assign(third=value) for value in "xy"])
    assert shown(three, [LATENCY, PART, "third"])["latency 10 ms, participation 0.3, third x", ""][0] == "A"
    many = [(f"{a} ms", f"0.{b}", name, 1.0, 0.5) for a in range(1, 9) for b in range(1, 9) for name in "AB"]
    assert min(8, 8) > MOST_COLUMNS
    found = grid(points(many), [LATENCY, PART], "accuracy")
    assert (len(found.rows), found.left_out) == (MOST_ROWS, 64 - MOST_ROWS)


def test_a_lead_that_not_every_seed_shows_is_shared():
    frame = points([("1 s", "1.0", "A", [10.0, 30.0], 0.8), ("1 s", "1.0", "B", [40.0, 25.0], 0.7)])
    assert shown(frame) == {("", ""): ["A / B", "20.0 to 32.5 s", "20.0 to 32.5 MB"]}


def test_with_five_seeds_leads_are_tested():
    times = [10.0, 11.0, 9.0, 10.5, 9.5]
    near = [time + more for time, more in zip(times, (1.0, -0.9, 1.2, -0.8, 0.3), strict=True)]
    far = [time + more for time, more in zip(times, (5.0, 5.5, 4.5, 5.2, 4.8), strict=True)]
    rows = [("1 s", "1.0", "A", times, 0.8), ("1 s", "1.0", "B", far, 0.7)]
    tested = points(rows, seeds=5)
    assert shown(tested)["", ""] == ["A", "10.0 s", "10.0 MB"]
    assert "do not differ significantly (paired differences, 95 %)" in grid(tested, [], "accuracy").note
    level = points([rows[0], ("1 s", "1.0", "B", near, 0.7)], seeds=5)
    assert shown(level)["", ""] == ["A / B", "10.0 to 10.2 s", "10.0 to 10.2 MB"]
    three = points([rows[0], ("1 s", "1.0", "B", near, 0.7), ("1 s", "1.0", "C", far, 0.7)], seeds=5)
    (one,) = comparisons(three, [], "algorithm", "seconds_to_target", lower_is_better=True)
    assert (one.leaders, one.tied, one.next) == (("A", "B"), ["B"], "C")  # none is first and next


def test_who_reaches_it_in_some_runs_only_cannot_lead():
    rows = [("1 s", "1.0", "A", [NAN, 5.0], 0.8), ("1 s", "1.0", "B", [20.0, 20.0], 0.7)]
    assert shown(points(rows))["", ""] == ["B", "20.0 s", "20.0 MB"]
    assert shown(points([rows[0], ("1 s", "1.0", "B", NAN, 0.7)]))["", ""] == ["nobody", "A in 1 of 2 runs"]


def test_where_most_runs_meet_the_target_at_the_first_score_that_counts_nobody_is_first():
    frame = points([("1 s", "1.0", "A", [3.0, 5.0], 0.8), ("1 s", "1.0", "B", [20.0, 20.0], 0.7)])
    late = frame.assign(target_at_first=[1.0, 1.0, 1.0, 0.0])
    assert shown(late)["", ""] == ["not ranked", "3 of 4 runs at the first score that counts"]
    assert shown(late.assign(target_at_first=[1.0, 0.0, 1.0, 0.0]))["", ""][0] == "A"  # not more than half
    (one,) = comparisons(late, [], "algorithm", "score", lower_is_better=False)
    assert one.leaders == ("A",)  # scores are not censored


def test_a_single_algorithm_is_described_by_its_figures():
    rows = [row for row in SWEEP if row[2] == "A" and row[1] != "0.1"]
    found = grid(points(rows), [LATENCY, PART], "accuracy")
    assert found.title == "Time and bytes to 70 % accuracy"
    assert shown(points(rows))["0.3", "latency 1 s"] == ["10.0 s", "10.0 MB"]
    assert "share" not in found.note
    lone = points([("1 s", "1.0", "A", 9.0, 0.9)], seeds=1)
    assert shown(lone) == {("", ""): ["9.00 s", "9.00 MB"]}
    assert grid(lone, [], "accuracy").note.startswith("A single run each")


def test_where_one_algorithm_was_run_the_protocols_are_compared():
    frame = points([("1 s", "1.0", "A", seconds, 0.8) for seconds in (5.0, 9.0)])
    frame["protocol"] = ["sync", "sync", "deadline", "deadline"]
    assert compared(frame, ["protocol"]) == "protocol"
    assert shown(frame, ["protocol"])["", ""] == ["sync", "5.00 s", "5.00 MB"]


def test_without_a_target_scores_speak_and_without_scores_times_and_bytes():
    frame = points(SWEEP, target=NAN).assign(seconds_to_target=NAN, target_on="")
    assert grid(frame, [LATENCY, PART], "accuracy").title == "Highest accuracy at the end"
    assert shown(frame)["1.0", "latency 1 s"] == ["B", "95.0 %"]
    bare = frame[frame["algorithm"] == "A"].assign(score=NAN, am=NAN, fm=NAN, periods=NAN)
    assert grid(bare, [LATENCY, PART], "score").title == "Time and bytes"
    assert shown(bare)["1.0", "latency 1 s"] == ["10.0 s", "1.00 MB"]


def test_the_section_shows_the_question_the_cautions_the_grid_and_how_to_read_it():
    found = grid(points(SWEEP), [LATENCY, PART], "accuracy")
    page = answer_section("Who <is> first?", [], ["Rounds ran short"], found, "Scored: accuracy.", "")
    assert page.index("Who &lt;is&gt; first?") < page.index("Rounds ran short") < page.index("<table>")
    assert "<td><strong>A</strong><br>10.0\u00a0s, 10.0\u00a0MB</td>" in page  # no line ends before a unit
    assert page.count('<th scope="row">') == 3
    assert page.index("</table>") < page.index("Means over 2 seeds") < page.index("Scored: accuracy.")


@given(st.lists(st.lists(st.floats(0, 1), min_size=5, max_size=5), min_size=2, max_size=4))
def test_the_leader_has_the_best_mean_and_those_tied_are_not_significantly_behind(scores):
    frame = points([("1 s", "1.0", name, 1.0, list(own)) for name, own in zip("ABCD", scores, strict=False)], seeds=5)
    (one,) = comparisons(frame, [], "algorithm", "score", lower_is_better=False)
    means = frame.groupby("algorithm")["score"].mean()
    assert means[one.leaders[0]] == pytest.approx(means.max())
    for name in set(means.index) - {*one.leaders}:
        apart = (
            frame[frame["algorithm"] == one.leaders[0]]["score"].to_numpy()
            - frame[frame["algorithm"] == name]["score"].to_numpy()
        )
        half = 2.7764451052 * apart.std(ddof=1) / 5**0.5
        assert apart.mean() - half > -1e-12
    assert one.next not in one.leaders


def test_values_in_words():
    values = ["10 ms", "1 s", "2 s"]
    assert listed(["10 ms", "2 s"], values) == "10 ms and 2 s"
    assert listed(values, values) == "10 ms to 2 s"


def test_rounds_that_ran_short_are_warned_of():
    frame = points(SWEEP, asked=164.0, updates=40.0, wanted=2000.0)
    (words,) = cautions(frame, frame.assign(status="done"), [LATENCY, PART])
    assert words.startswith("Rounds ran short in every run: on average 8 % (4.1 of 50.0 per update) of the clients")
    some = frame.assign(wanted=[2000.0 if part == "1.0" else 164.0 for part in frame[PART]])
    (words,) = cautions(some, frame.assign(status="done"), [LATENCY, PART])
    assert "in 8 of 24 runs" in words
    assert "latency 10 ms, participation 1.0" in words
    assert cautions(frame.assign(wanted=NAN), frame.assign(status="done"), [LATENCY]) == []


def test_failed_points_and_unequal_periods_are_warned_of():
    frame = points(SWEEP, asked=1.0, updates=1.0, wanted=1.0)
    status = ["failed", "stalled", *["done"] * (len(frame) - 2)]
    assert cautions(frame, frame.assign(status=status), []) == [
        "Of 24 runs, 1 failed and is missing here and 1 stalled and is shown with what it had reached: see What "
        "was run."
    ]
    uneven = frame.assign(periods=[3.0, *[5.0] * (len(frame) - 1)])
    assert "after 3 to 5 periods" in cautions(uneven, frame.assign(status="done"), [])[0]
    assert cautions(uneven, frame.assign(status="done"), [], fixed=True) == []  # on one test all the same
