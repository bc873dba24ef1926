import math

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.axes import best_end, is_numeric, number, ordered, short
from analysis.measures.robustness import areas, crossed, levels, rows_along, shares
from analysis.quantity import BYTES, COUNT, MISSING, PERCENT, SECONDS, show

AXIS = "protocol.participation"


def points(scores, axis=AXIS, algorithm="power", seed="0"):
    rows = [{"algorithm": algorithm, axis: place, "seed": seed, "score": score} for place, score in scores.items()]
    return pd.DataFrame(rows)


def test_shares_and_area_by_hand():
    rows = shares(points({"0.5": 0.6, "1.0": 0.8, "0.0": 0.2}), AXIS, [])
    assert rows["x"].tolist() == [0.0, 0.5, 1.0]
    assert rows["share"].tolist() == pytest.approx([0.25, 0.75, 1.0])
    assert set(rows["reference"]) == {"1.0"}
    assert areas(rows, [])["area"].tolist() == pytest.approx([(0.25 + 0.75) / 4 + (0.75 + 1.0) / 4])


def test_area_is_over_the_range_that_was_run():
    rows = shares(points({"0.2": 0.4, "0.4": 0.8}), AXIS, [])
    assert areas(rows, [])["area"].tolist() == pytest.approx([0.75])


def test_latency_refers_to_the_lowest():
    rows = shares(points({"1 s": 0.3, "10 ms": 0.6}, "network.latency"), "network.latency", [])
    assert set(rows["reference"]) == {"10 ms"}
    assert rows["share"].tolist() == pytest.approx([1.0, 0.5])


def test_other_axes_and_seeds_are_kept_apart():
    frame = pd.concat(
        [points({"0.5": 0.4, "1.0": 0.8}, seed=seed).assign(latency=place) for seed in "01" for place in ("a", "b")]
    )
    frame.loc[frame["latency"] == "b", "score"] = 0.5
    found = areas(shares(frame, AXIS, ["latency"]), ["latency"])
    assert found.groupby("latency")["area"].unique().map(list).to_dict() == {"a": [0.75], "b": [1.0]}
    assert len(found) == 4


def test_without_a_reference_there_is_no_share():
    assert shares(points({"0.5": 0.4, "1.0": float("nan")}), AXIS, [])["share"].isna().all()
    zero = shares(points({"0.5": 0.4, "1.0": 0.0}), AXIS, [])
    assert zero["share"].isna().all()
    assert areas(zero, [])["area"].isna().all()


def test_replicates_are_kept_apart_and_shares_refer_to_their_own():
    frame = pd.concat(
        points({"0.5": best / 2 + gain, "1.0": best}, seed=seed).assign(**{"data.split.numpy_seed": order})
        for order, best, gain in (("1", 0.4, 0.0), ("2", 0.8, 0.2))
        for seed in "01"
    )
    rows = shares(frame, AXIS, [])
    assert rows.groupby(["data.split.numpy_seed", AXIS])["share"].unique().map(list).to_dict() == {
        ("1", "0.5"): [0.5], ("1", "1.0"): [1.0], ("2", "0.5"): [pytest.approx(0.75)], ("2", "1.0"): [1.0],
    }  # fmt: skip
    assert len(areas(rows, [])) == 4


def test_levels_are_means_with_intervals_over_the_orders():
    frame = pd.concat(
        points({"20 %": score, "1.0": score + 0.1}, seed=seed).assign(**{"data.split.numpy_seed": order})
        for order, mean in (("1", 0.3), ("2", 0.5), ("3", 0.4), ("4", 0.4), ("5", 0.4))
        for seed, score in (("0", mean - 0.1), ("1", mean + 0.1))
    )
    rows = levels(frame, AXIS, [], "score").set_index("x")
    half = 2.7764451052 * (0.005 / 5) ** 0.5
    assert rows.loc[0.2, ["mean", "low", "high"]].tolist() == pytest.approx([0.4, 0.4 - half, 0.4 + half])
    assert rows.loc[1.0, "mean"] == pytest.approx(0.5)
    assert rows.loc[1.0, ["n", "replicates"]].tolist() == [10, "5 orders x 2 seeds"]
    few = levels(frame[frame["data.split.numpy_seed"] < "3"], AXIS, [], "score").set_index("x")
    assert few.loc[0.2, ["low", "high"]].isna().all()
    assert few.loc[0.2, "units"] == pytest.approx([0.3, 0.5])
    assert few.loc[0.2, ["lowest", "highest"]].tolist() == pytest.approx([0.3, 0.5])
    assert levels(frame.assign(score=float("nan")), AXIS, [], "score").empty


def union(*places):
    """A row for each (participation, latency, algorithm)."""
    return pd.DataFrame(places, columns=[AXIS, "latency", "algorithm"])


def test_a_line_needs_two_values_of_its_axis_in_the_same_condition():
    frame = union(("1.0", "a", "p"), ("0.2", "a", "p"), ("1.0", "b", "p"), ("1.0", "b", "q"), ("0.2", "a", "q"))
    assert rows_along(frame, AXIS, ["latency"]).index.tolist() == [0, 1]
    assert rows_along(frame, "latency", [AXIS]).index.tolist() == [0, 2]
    assert rows_along(frame, AXIS, []).index.tolist() == [0, 1, 2, 3, 4]


def test_a_heat_map_needs_all_pairs():
    product = [(share, latency) for share in ("0.2", "1.0") for latency in ("1 s", "2 s")]
    whole = union(*((*place, "p") for place in product))
    assert len(crossed(whole, (AXIS, "latency"), [])) == 4
    assert crossed(whole.iloc[:3], (AXIS, "latency"), []).empty
    assert crossed(whole.iloc[:2], (AXIS, "latency"), []).empty  # one value of one axis is no map
    other = union(*((*place, "q") for place in product[1:]))
    assert set(crossed(pd.concat([whole, other], ignore_index=True), (AXIS, "latency"), [])["algorithm"]) == {"p"}


def test_an_axis_of_names_is_refused():
    with pytest.raises(ValueError, match=r"axis protocol: 'sync' is not a number"):
        shares(points({"sync": 0.4}, "protocol"), "protocol", [])


@given(st.floats(0.01, 1.0), st.lists(st.floats(0, 1), min_size=2, max_size=6, unique=True))
def test_an_algorithm_that_loses_nothing_has_area_one(score, places):
    frame = points({repr(place): score for place in places})
    rows = shares(frame, AXIS, [])
    assert rows["share"].tolist() == pytest.approx([1.0] * len(places))
    assert areas(rows, [])["area"].tolist() == pytest.approx([1.0])


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("10 ms", 0.01), ("1 s", 1.0), ("2 min", 120.0), ("0.3", 0.3), ("30 %", 0.3), ("5e-4", 5e-4), ("5 Mbit/s", 5e6),
        ("2 GFLOP/s", 2e9), ("1 GiB", 2.0**30), ("0.5/s", 0.5), ("1 per hour", 1 / 3600), ("20 updates", 20.0),
        ("sync", None), ("lognormal(5 Mbit/s, 1.0)", None), ("3 parsecs", None), ("", None),
    ],
)  # fmt: skip
def test_numbers_of_axes(text, value):
    assert number(text) == (value if value is None else pytest.approx(value))


def test_order_names_and_ends_of_axes():
    assert ordered(["1 s", "10 ms", "100 ms", "10 ms"]) == ["10 ms", "100 ms", "1 s"]
    assert ordered(["lognormal(1 s, 1)", "lognormal(50 ms, 1)"]) == ["lognormal(50 ms, 1)", "lognormal(1 s, 1)"]
    assert ordered(["sync", "deadline"]) == ["deadline", "sync"]
    assert (is_numeric(["1 s", "10 ms"]), is_numeric(["1 s", "fast"]), is_numeric(["1 s"])) == (True, False, False)
    assert (short("network.latency"), short("network.effects.0.rate")) == ("latency", "effects.0.rate")
    assert (best_end(AXIS, ["0.1", "1.0"]), best_end("network.latency", ["1 s", "10 ms"])) == ("1.0", "10 ms")


@pytest.mark.parametrize(
    ("value", "units", "sd", "shown"),
    [
        (1234567.0, BYTES, None, "1.23 MB"), (950.0, BYTES, 0.0, "950 ± 0 B"), (90.0, SECONDS, None, "1.50 min"),
        (0.5, SECONDS, None, "500 ms"), (0.1234, PERCENT, 0.01, "12.3 ± 1.0 %"), (-0.02, PERCENT, None, "−2.0 %"),
        (24.0, COUNT, 0.0, "24 ± 0"), (24.5, COUNT, 0.70710678, "24.5 ± 0.7"), (0.0, BYTES, 0.0, "0 ± 0 B"),
        (2e-6, SECONDS, None, "2.00 µs"), (0.0, SECONDS, None, "0.00 s"),
        (None, BYTES, None, MISSING), (math.nan, BYTES, 1.0, MISSING), (3.0, BYTES, math.nan, "3.00 B"),
    ],
)  # fmt: skip
def test_quantities_for_people(value, units, sd, shown):
    assert show(value, units, sd) == shown
