"""Curves say when periods arrived, from when on they can be compared, and what a single score is."""

import numpy as np
import pandas as pd
import pytest

from analysis.charts.drawing import draw
from analysis.charts.score_curves import score_against
from analysis.statistics.spread import mean_curves


def course(point, arrivals, last=10, algorithm="fedavg", score=0.5):
    """A point scored at every second, which has met a further period from each arrival on."""
    times = np.arange(1.0, last + 1)
    periods = [1.0 + sum(time >= at for at in arrivals) for time in times]
    return pd.DataFrame(
        {"run": point, "algorithm": algorithm, "time": times, "moved": times * 1e5, "score": score,
         "periods": periods, "complete": np.array(periods) > len(arrivals), "met": times / 100}
    )  # fmt: skip


def layers(spec):
    return {str(layer.get("transform", [{}])[0].get("filter", "")): layer for layer in spec["layer"]}


def test_replicates_meet_periods_together_in_the_mean():
    curves = pd.concat([course("a", [3, 6]), course("b", [5, 6])])
    means = mean_curves(curves, ["algorithm"], "time").set_index("time")
    assert means["periods"].iloc[[0, -1]].tolist() == [1.0, 3.0]
    between = means.loc[3.1:4.9, "periods"]
    assert set(between) == {1.5}
    assert means["complete"].dtype == bool
    assert means.index[means["complete"]].min() == pytest.approx(6, abs=10 / 80)


def test_a_rule_marks_each_arrival_and_dots_what_came_before_the_last():
    spec = score_against(mean_curves(course("a", [3, 6]), ["algorithm"], "time"), "time", [], "accuracy", 0.7)
    rows = pd.DataFrame(spec["datasets"]["rows"])
    marked = rows.dropna(subset="arrives")
    assert marked["arrives"].tolist() == [2, 3]
    assert marked["x"].tolist() == pytest.approx([3, 6], abs=10 / 80)
    assert rows.loc[rows["before"], "x"].max() == rows.loc[rows["after"], "x"].min()  # the two parts join
    parts = layers(spec)
    assert parts["datum.before"]["mark"]["strokeDash"] == [2, 3]
    assert {"datum.after", "datum.arrives != null", "datum.place == 0"} <= parts.keys()
    note = spec["title"]["subtitle"]
    assert "a vertical rule marks the arrival of a period" in note
    rule = parts["datum.arrives != null"]
    assert rule["mark"]["type"] == "rule"
    assert {"x", "color"} == rule["encoding"].keys()  # over the whole height
    assert "Dotted until all 3 periods have arrived" in note
    assert "dashed: the target, 70.0 %" in note
    assert spec["description"].startswith(f"Accuracy against simulated time. {note}. Last scores: fedavg: 50.0 %")


def test_a_single_period_is_neither_marked_nor_dotted():
    spec = score_against(mean_curves(course("a", []), ["algorithm"], "time"), "time", [], "accuracy", None)
    assert layers(spec).keys() == {"", "datum.after"}
    assert "period" not in spec["title"]["subtitle"]


def test_curves_that_do_not_tell_of_periods_are_drawn_as_they_are():
    bare = course("a", [3]).drop(columns=["periods", "complete", "met"])
    spec = score_against(mean_curves(bare, ["algorithm"], "time"), "time", [], "accuracy", None)
    assert layers(spec).keys() == {"", "datum.after"}


def test_a_single_score_is_a_point_among_curves(tmp_path):
    curves = pd.concat([course("a", []), course("b", [], last=1, algorithm="ghost", score=0.3)])
    spec = score_against(mean_curves(curves, ["algorithm"], "time"), "time", [], "accuracy", None)
    rows = pd.DataFrame(spec["datasets"]["rows"])
    assert rows[rows["lone"]][["algorithm", "x", "score"]].values.tolist() == [["ghost", 1.0, 0.3]]
    alone = [layer for layer in spec["layer"] if layer.get("transform", [{}])[0].get("filter") == "datum.lone"]
    assert {layer["mark"]["type"] for layer in alone} == {"point", "rule"}
    assert "a single score is a dot" in spec["title"]["subtitle"]
    assert 'class="mark-symbol role-mark layer_' in draw(spec, tmp_path / "figure")


def test_a_curve_on_the_fixed_test_is_solid_throughout_and_carries_the_target():
    spec = score_against(
        mean_curves(course("a", [3, 6]).assign(complete=True), ["algorithm"], "time"), "time", [], "accuracy", 0.7
    )
    assert layers(spec).keys() == {"", "datum.after", "datum.arrives != null", "datum.place == 0"}
    assert "Dotted" not in spec["title"]["subtitle"]


def test_the_score_over_what_has_been_met_has_a_chart_of_its_own():
    curves = pd.concat([course("a", [3]), course("b", [3])]).assign(complete=True)  # the score is on the fixed test
    means = mean_curves(curves, ["algorithm"], "time", "met")
    assert means["score"].iloc[-1] == pytest.approx(0.1)
    spec = score_against(means, "time", [], "accuracy", 0.7, met=True)
    assert spec["title"]["text"] == "Accuracy over the periods met so far against simulated time"
    note = spec["title"]["subtitle"]
    assert "target" not in note  # none counts on it
    assert "Dotted until all 2 periods have arrived" in note
    assert layers(spec).keys() == {"", "datum.before", "datum.after", "datum.arrives != null"}
