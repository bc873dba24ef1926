import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.measures.frontier import curve, on_grid, pareto, reach
from analysis.measures.summarise import summarise
from analysis.statistics.spread import mean_curves, over_replicates
from fedsim.core.record import ArrivalRow, Recorder, ScoreRow, SpanRow, TransferRow, UpdateRow


def tables(model="global"):
    """Two updates at seconds 2 and 4; scores 0.5 and then (0.6 + 0.8) / 2; 100 and 80 bytes down and up each."""
    recorder = Recorder()
    for version, start in ((1, 0.0), (2, 2.0)):
        recorder.add(TransferRow(start, start + 1, -1, 0, "train", version - 1, 100, 120, "delivered"))
        recorder.add(TransferRow(start + 1, start + 2, 0, -1, "train", version - 1, 80, 90, "delivered"))
        recorder.add(SpanRow(0, start + 1, start + 1 + 0.25 * version, "train"))
        recorder.add(UpdateRow(start + 2, version, "train", 2, 1, 1, 0, version - 1.0))
    for client, value, weight in ((0, 0.7, 10), (1, 0.3, 10), (2, 1.0, 0)):
        recorder.add(ScoreRow(2.0, 1, client, 0, 1, model, "test", "accuracy", value, weight))
    recorder.add(ScoreRow(4.0, 2, 0, 0, 2, model, "test", "accuracy", 0.6, 30))
    recorder.add(ScoreRow(4.0, 2, 0, 1, 2, model, "test", "accuracy", 0.8, 1))
    recorder.add(ScoreRow(4.0, 2, 0, 2, 2, model, "test", "accuracy", 0.0, 9))  # prequential
    for time, period, version in ((0.0, 0, 0), (2.0, 1, 1), (4.0, 2, 2)):
        recorder.add(ArrivalRow(time, 0, period, version))
    recorder.add(ArrivalRow(0.0, 1, 0, 0))
    return recorder.tables()


def test_curve_and_summary_by_hand():
    found = tables()
    frames = {name: table.to_pandas() for name, table in found.items()}
    points = curve(frames["scores"], frames["transfers"], "global")
    assert points["score"].tolist() == pytest.approx([0.5, 0.7])
    assert points[["time", "version", "up", "down", "moved"]].to_numpy().tolist() == [
        [2.0, 1, 90, 120, 210],
        [4.0, 2, 180, 240, 420],
    ]
    assert (reach(points, 0.5), reach(points, 0.6), reach(points, 0.71), reach(points, None)) == (
        (4.0, 420, 2.0, 1.0),  # before, client 0 had met only one of its two periods: when counting begins
        (4.0, 420, 2.0, 1.0),
        None,
        None,
    )
    assert points[["periods", "complete"]].to_numpy().tolist() == [[1.0, False], [2.0, True]]
    expected = {
        "metric": "accuracy", "score": pytest.approx(0.7), "periods": 2.0, "am": pytest.approx(0.7),
        "la": pytest.approx(0.65), "fm": pytest.approx(-0.1),
        "prequential": 0.0, "bytes_up": 160, "bytes_down": 200, "bytes_peer": None,
        "bytes_wasted": 60, "updates": 2,
        "updates_per_period": 1.0, "staleness": 0.5, "asked": 4, "folded": 2, "lost": 2,
        "late": 0, "wanted": None, "refused": 0,
        "worst_decile": pytest.approx(0.3), "score_jain": pytest.approx(0.897427, rel=1e-5),
        "took_part": 0.5, "upload_jain": 0.5, "client_seconds": 0.375, "server_seconds": None, "epsilon": None,
        "target": 0.6,
        "target_on": "met_periods", "seconds_to_target": 4.0, "bytes_to_target": 420, "periods_at_target": 2.0,
        "target_at_first": 1.0, "arrivals": 1, "recovery_seconds": 2.0, "recovery_at_first": 1, "never_recovered": 0,
    }  # fmt: skip
    for form in (found, frames):
        row = summarise(form, "global", "accuracy", 0.6)
        assert row == expected
        assert list(row) == list(expected)


def test_where_only_the_latest_period_is_scored_the_mean_over_periods_is_told_beside_the_last():
    recorder = Recorder()
    for client, values, weight in ((0, (0.4, 0.8, 0.6), 3), (1, (0.8, 0.4, 0.2), 1)):
        for period, value in enumerate(values):
            at = 2.0 * period
            recorder.add(
                ScoreRow(at, 2 * period, client, period, period + 1, "global", "test", "accuracy", 0.0, weight)
            )
            recorder.add(
                ScoreRow(
                    at + 1, 2 * period + 1, client, period, period + 1, "global", "test", "accuracy", value, weight
                )
            )
    found = recorder.tables()
    row = summarise(found, "global", "accuracy", None)
    assert (row["score"], row["la"]) == (pytest.approx(0.5), pytest.approx((0.5 + 0.7 + 0.5) / 3))
    assert (row["am"], row["fm"]) == (None, None)
    first = found["scores"].to_pandas().query("period == 0")
    row = summarise({**found, "scores": first}, "global", "accuracy", None)
    assert (row["score"], row["am"], row["la"]) == (pytest.approx(0.5), pytest.approx(0.5), None)


def test_no_other_model_stands_in_for_the_headline():
    found = tables(model="local")
    row = summarise(found, "global", "accuracy", 0.6)
    assert [row[key] for key in ("score", "am", "la", "fm", "seconds_to_target", "bytes_to_target")] == [None] * 6
    assert row["bytes_up"] == 160


def test_empty_tables_say_nothing():
    found = Recorder().tables()
    row = summarise(found, "global", "accuracy", None)
    given = {key for key, value in row.items() if value is not None}
    assert given == {"metric", "bytes_up", "bytes_down", "bytes_wasted"}


def test_the_last_score_holds_until_the_next():
    points = pd.DataFrame({"time": [1.0, 3.0], "score": [0.2, 0.6]})
    held = on_grid(points, "time", np.array([0.5, 1.0, 2.9, 3.0, 9.0]))
    assert np.isnan(held).tolist() == [True, False, False, False, False]
    assert held[1:].tolist() == [0.2, 0.2, 0.6, 0.6]


def test_mean_curve_of_two_seeds():
    curves = pd.DataFrame(
        {"algorithm": "power", "run": ["a", "a", "b"], "time": [0.0, 10.0, 2.0], "score": [0.2, 0.4, 0.6]}
    )
    mean = mean_curves(curves, ["algorithm"], "time")
    assert (mean["time"].iloc[0], mean["time"].iloc[-1]) == (2.0, 10.0)
    assert (mean["score"].iloc[0], mean["score"].iloc[-1]) == (pytest.approx(0.4), pytest.approx(0.5))
    assert (mean["low"].iloc[-1], mean["high"].iloc[-1]) == (0.4, 0.6)  # the range: two seeds have no deviation
    assert set(mean["n"]) == {2}
    more = [curves.assign(run=curves["run"] + str(i), score=curves["score"] + i / 10) for i in range(3)]
    mean = mean_curves(pd.concat(more), ["algorithm"], "time")
    ends = [0.4, 0.5, 0.6, 0.6, 0.7, 0.8]
    assert mean["high"].iloc[-1] - mean["score"].iloc[-1] == pytest.approx(np.std(ends, ddof=1))
    assert set(mean["n"]) == {6}


def test_over_replicates_leaves_missing_figures_out():
    points = pd.DataFrame({"algorithm": ["a", "a", "b"], "score": [0.2, 0.4, np.nan]})
    rows = over_replicates(points, ["algorithm"], ["score"])
    assert rows["n"].tolist() == [2, 1]
    assert rows["score"].tolist()[0] == pytest.approx(0.3)
    assert rows["score_sd"].tolist()[0] == pytest.approx(0.1 * 2**0.5)
    assert rows.loc[1, ["score", "score_sd"]].isna().all()


def test_frontier_by_hand():
    points = pd.DataFrame({"score": [0.5, 0.7, 0.6, 0.7, np.nan], "cost": [1.0, 2.0, 3.0, 2.0, 0.5]})
    assert pareto(points, "cost").tolist() == [True, True, False, True, False]


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=1, max_size=20))
def test_everything_off_the_frontier_is_beaten_by_something_on_it(pairs):
    points = pd.DataFrame(pairs, columns=["score", "cost"], dtype="float64")
    best = pareto(points, "cost")
    assert best.any()
    for _, row in points[~best].iterrows():
        over = points[best & (points["score"] >= row["score"]) & (points["cost"] <= row["cost"])]
        assert ((over["score"] > row["score"]) | (over["cost"] < row["cost"])).any()
    for _, row in points[best].iterrows():
        assert not ((points["score"] > row["score"]) & (points["cost"] <= row["cost"])).any()
