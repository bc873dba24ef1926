import math

import numpy as np
import pandas as pd
import pytest

from analysis.charts.drawing import draw
from analysis.charts.forest import MOST_PANELS, forest
from analysis.report.ranked_section import ranked
from analysis.statistics.ranking import ranking

ORDER, T4 = "data.split.numpy_seed", 2.7764451052
FIRST = {("1", "0"): 0.4, ("1", "1"): 0.6, ("2", "0"): 0.6, ("2", "1"): 0.8, ("3", "0"): 0.8, ("3", "1"): 1.0}
FIRST |= {(order, seed): am for order in "45" for seed, am in (("0", 0.6), ("1", 0.8))}
LESS = {"1": 0.10, "2": 0.12, "3": 0.08, "4": 0.10, "5": 0.10}  # by how much the second is lower, by order


def points(methods, **axes):
    """A row a run: methods map (order, seed) to the score; FM is half of it, AM the score plus 1."""
    rows = [
        {**axes, "algorithm": name, ORDER: order, "seed": seed, "am": am + 1, "fm": am / 2, "score": am}
        for name, found in methods.items()
        for (order, seed), am in found.items()
    ]
    return pd.DataFrame(rows)


def two():
    return {"low": {(o, s): am - LESS[o] for (o, s), am in FIRST.items()}, "high": FIRST}


def test_ranks_means_and_paired_differences_by_hand():
    first, second = ranking(points(two()), []).to_dict("records")
    half = T4 * math.sqrt(0.02 / 5)
    assert (first["rank"], first["algorithm"]) == (1, "high")
    assert (first["mean"], first["low"], first["high"]) == pytest.approx((0.7, 0.7 - half, 0.7 + half))
    assert (first["fm"], first["fm_low"]) == pytest.approx((0.35, 0.35 - half / 2))
    assert (first["n"], first["replicates"], first["difference"]) == (10, "5 orders x 2 seeds", 0.0)
    assert first["excludes_zero"] is None
    assert (second["rank"], second["algorithm"], second["pairs"]) == (2, "low", 10)
    apart = T4 * math.sqrt(0.0002 / 5)  # by order -0.10, -0.12, -0.08, -0.10, -0.10
    told = [second[name] for name in ("mean", "difference", "difference_low", "difference_high")]
    assert told == pytest.approx([0.6, -0.1, -0.1 - apart, -0.1 + apart])
    assert second["excludes_zero"] is True
    assert second["high"] > first["low"]  # though their own intervals overlap


def test_a_difference_that_may_be_zero_and_the_mean_rank():
    methods = two()
    methods["low"] |= {("3", "0"): 0.9, ("3", "1"): 1.1}  # by order +0.10; ranked above in two of ten
    first, second = ranking(points(methods), []).to_dict("records")
    assert (first["algorithm"], first["mean_rank"], second["mean_rank"]) == pytest.approx(("high", 12 / 10, 18 / 10))
    assert second["difference"] == pytest.approx(-0.064)
    assert second["excludes_zero"] is False


def test_ties_share_a_rank_and_partly_run_replicates_have_no_say_in_it():
    methods = {"a": {("1", "0"): 0.5, ("1", "1"): 0.9}, "b": {("1", "0"): 0.5}}
    rows = ranking(points(methods), []).set_index("algorithm")
    assert rows["mean_rank"].to_dict() == {"a": 1.5, "b": 1.5}
    assert rows["replicates"].to_dict() == {"a": "1 order x 2 seeds", "b": "1 order x 1 seed"}
    assert rows.loc["b", "pairs"] == 1
    assert math.isnan(rows.loc["b", "low"])


def test_conditions_are_ranked_apart_and_what_has_no_score_is_last():
    frame = pd.concat([points(two(), latency="1 s"), points({"high": {("1", "0"): 0.1}}, latency="2 s")])
    frame = pd.concat([frame, points({"none": {("1", "0"): np.nan}}, latency="1 s")], ignore_index=True)
    rows = ranking(frame, ["latency"])
    assert rows[["latency", "algorithm"]].to_numpy().tolist() == [
        ["1 s", "high"], ["1 s", "low"], ["1 s", "none"], ["2 s", "high"],
    ]  # fmt: skip
    assert rows["rank"].tolist() == pytest.approx([1, 2, math.nan, 1], nan_ok=True)
    assert rows["n"].tolist() == [10, 10, 0, 1]
    html = ranked(rows, ["latency"], "accuracy", "")
    assert html.count("<tr>") == 5  # a head and four methods
    assert ">yes<" in html


def test_the_forest_has_a_panel_a_condition_and_its_methods_by_rank(tmp_path):
    frame = pd.concat([points(two(), latency=f"{place} s") for place in range(MOST_PANELS + 1)])
    spec = forest(ranking(frame, ["latency"]), ["latency"], ["low", "high"], "AM")
    assert len({row["column"] for row in spec["datasets"]["rows"]}) == MOST_PANELS
    assert spec["title"]["subtitle"] == (
        f"Mean and 95 % interval over 5 orders x 2 seeds; the first {MOST_PANELS} of {MOST_PANELS + 1} conditions"
    )
    lone = forest(ranking(points(two()), []), [], ["low", "high"], "AM")
    svg = draw(lone, tmp_path / "forest")
    assert svg.index(">high<") < svg.index(">low<")
    single = ranking(points({"a": {("1", "0"): 0.5}}), [])
    assert forest(single, [], ["a"], "AM")["title"]["subtitle"] == ("1 order x 1 seed: nothing is known of the spread")


def test_few_replicates_are_dots_and_a_range():
    frame = ranking(points({name: {("1", seed): am for seed, am in own.items()} for name, own in (
        ("a", {"0": 0.39, "1": 0.26}), ("b", {"0": 0.2, "1": 0.1}),
    )}), [])  # fmt: skip
    assert frame["low"].isna().all()
    assert frame[["lowest", "highest"]].to_numpy().tolist() == [[0.26, 0.39], [0.1, 0.2]]
    spec = forest(frame, [], ["a", "b"], "AM")
    assert [row["unit"] for row in spec["datasets"]["rows"]] == [None, None, 0.39, 0.26, 0.2, 0.1]
    assert spec["title"]["subtitle"] == "Mean over 1 order x 2 seeds; hollow: each of them, too few for an interval"
    html = ranked(frame, [], "AM", "")
    assert "26.0 to 39.0" in html
    assert "interval</th>" not in html
