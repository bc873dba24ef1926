import numpy as np
import pandas as pd
import pytest

from analysis.charts import heat_maps, totals
from analysis.charts.drawing import draw
from analysis.charts.panels import MOST_COLUMNS, colour, dash, with_panels
from analysis.charts.score_curves import score_against


def curves(places, algorithms=("fedavg", "power")):
    rows = [
        {
            "algorithm": name,
            "latency": latency,
            "share": share,
            "time": time,
            "score": time / 100 + place / 50,
            "low": -0.1,
            "high": 1,
            "n": 3,
        }
        for place, (latency, share) in enumerate(places)
        for name in algorithms
        for time in (10.0, 90.0)
    ]
    return pd.DataFrame(rows)


def panels(spec):
    return [(row["column"], row["row"]) for row in spec["datasets"]["rows"]]


def test_panels_are_the_axes_that_vary():
    places = [(a, c) for a in ("1 s", "10 ms") for c in "uv"]
    frame = pd.DataFrame(places, columns=["a", "c"]).assign(b="x", algorithm="p")
    shown = with_panels(frame, ["a", "b", "c"])
    assert shown["column"].tolist() == ["a 1 s", "a 1 s", "a 10 ms", "a 10 ms"]
    assert shown["row"].tolist() == ["c u", "c v"] * 2
    assert with_panels(frame, ["b"])[["column", "row"]].to_numpy().tolist() == [["", ""]] * 4
    shown = with_panels(frame, ["c"], column="algorithm")
    assert (shown["column"].tolist(), shown["row"].tolist()) == (["p"] * 4, ["c u", "c v"] * 2)


def test_panels_stand_in_the_order_of_their_numbers():
    spec = score_against(curves([("1 s", "1.0"), ("10 ms", "0.1"), ("100 ms", "1.0")]), "time", ["latency"], "auc", 0.5)
    assert spec["facet"]["column"]["sort"] == ["latency 10 ms", "latency 100 ms", "latency 1 s"]
    assert spec["title"]["subtitle"].startswith("Mean and range over 3 replicates")
    assert spec["resolve"]["scale"] == {"x": "independent"}


def test_a_union_of_grids_has_no_empty_panel():
    spec = score_against(curves([("1 s", "1.0"), ("10 ms", "0.1")]), "time", ["latency", "share"], "auc", None)
    assert set(panels(spec)) == {("latency 1 s, share 1.0", ""), ("latency 10 ms, share 0.1", "")}
    assert spec["facet"]["column"]["sort"] == ["latency 10 ms, share 0.1", "latency 1 s, share 1.0"]
    assert "row" not in spec["facet"]


def test_a_value_that_is_missing_has_a_panel_with_a_name():
    spec = score_against(curves([("", "1.0"), ("10 ms", "1.0")]), "time", ["latency"], "auc", None)
    assert set(panels(spec)) == {("latency –", ""), ("latency 10 ms", "")}


def test_many_values_of_one_axis_wrap():
    places = [(f"{latency} ms", "1.0") for latency in range(1, MOST_COLUMNS + 3)]
    spec = score_against(curves(places), "time", ["latency"], "auc", None)
    assert spec["columns"] == MOST_COLUMNS


def test_units_suit_the_numbers_and_bands_stay_above_zero():
    spec = score_against(curves([("1 s", "1.0")]), "time", ["latency"], "auc", None)
    titles = [layer["encoding"]["x"]["title"] for layer in spec["layer"] if "x" in layer["encoding"]]
    assert set(titles) == {"simulated time (min)"}
    assert {row["low"] for row in spec["datasets"]["rows"]} == {0.0}
    assert max(row["x"] for row in spec["datasets"]["rows"]) == pytest.approx(1.5)


def test_twenty_algorithms_are_still_told_apart():
    names = [f"a{i}" for i in range(20)]
    looks = list(
        zip(colour(names).to_dict()["scale"]["range"], map(str, dash(names).to_dict()["scale"]["range"]), strict=True)
    )
    assert len(set(looks)) == 20


def test_targets_reached_by_some_seeds_or_none(tmp_path):
    frame = pd.DataFrame(
        {
            "algorithm": ["a", "b", "c"], "n": 3, "reached": [3, 1, 0],
            "seconds_to_target": [10.0, 3600.0, np.nan], "seconds_to_target_sd": [1.0, np.nan, np.nan],
        }
    )  # fmt: skip
    spec = totals.to_target(frame, "seconds_to_target", [], 0.6)
    assert [row["note"] for row in spec["datasets"]["rows"]] == ["", "1 of 3 runs", "not reached"]
    svg = draw(spec, tmp_path / "figure")
    assert "1 of 3 runs" in svg
    assert ">simulated time to 60 %<" in svg  # on a scale from seconds to an hour, whose labels have their units
    assert all(f">{label}<" in svg for label in ("10 s", "1 min", "10 min", "1 h"))
    lone = frame.iloc[:1].assign(seconds_to_target=0.64)  # from 0 to 600 ms, in steps of 100
    assert "e+" not in draw(totals.to_target(lone, "seconds_to_target", [], 0.6), tmp_path / "lone")
    assert (tmp_path / "figure.pdf").stat().st_size > 1000


def test_a_trade_off_of_very_many_conditions_keeps_whom_nobody_beats():
    count = 3 * totals.MOST_MARKS
    cost = np.arange(1.0, count + 1)
    frame = pd.DataFrame({"algorithm": "a", "choice": "c", "score": 0.5, "n": 1, "sim_seconds": cost})
    frame["frontier"] = frame.index.isin([7, 11])
    spec = totals.trade_off(frame, "sim_seconds", "auc")
    drawn = spec["datasets"]["rows"]
    assert len(drawn) == totals.MOST_MARKS
    assert sum(row["frontier"] for row in drawn) == 2
    assert f"{totals.MOST_MARKS} of {count} marks" in spec["title"]["subtitle"]
    assert "marks are drawn" not in totals.trade_off(frame[:9], "sim_seconds", "auc")["title"]["subtitle"]


def test_a_heat_map_of_very_many_values_is_bounded():
    ways = [f"{i} ms" for i in range(1, 101)]
    frame = pd.DataFrame([(w, s, "a", i / 100, 1) for i, w in enumerate(ways) for s in ("0.1", "1.0")])
    frame.columns = ["latency", "share", "algorithm", "value", "n"]
    spec = heat_maps.heat(frame.rename(columns={"value": "score"}), "score", ("latency", "share"), [], None)
    drawn = {row["x"] for row in spec["datasets"]["rows"]}
    assert len(drawn) == heat_maps.MOST_CELLS
    assert {"1 ms", "100 ms"} <= drawn
    assert "left out" in spec["title"]["subtitle"]
