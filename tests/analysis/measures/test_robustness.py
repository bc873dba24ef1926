import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.axes import best_end, is_numeric, number, ordered, short
from analysis.measures.robustness import areas, changes, crossed, levels, readings, rows_along
from analysis.quantity import BYTES, COUNT, MISSING, PERCENT, SECONDS, show

AXIS = "protocol.participation"


def points(scores, axis=AXIS, algorithm="power", seed="0"):
    rows = [{"algorithm": algorithm, axis: place, "seed": seed, "score": score} for place, score in scores.items()]
    return pd.DataFrame(rows)


def curve(place, scores, cost=1.0, pace=1.0, algorithm="power", seed="0", **more):
    """A run's curve: an update a score, each of which takes so many bytes and seconds."""
    updates = np.arange(1, len(scores) + 1)
    name = f"{algorithm} {place} {seed} {more}"
    rows = {"algorithm": algorithm, AXIS: place, "seed": seed, "run": name, "version": updates, "moved": cost * updates}
    rows |= {"time": pace * updates, "score": scores, "met": scores, "periods": 1.0, "complete": True, "fixed": False}
    return pd.DataFrame(rows | {"chance": 0.1} | more)


def read(rows, budget):
    """The scores at a budget by place and algorithm, with the budget."""
    chosen = rows[rows["budget"] == budget]
    assert chosen["spent"].nunique() == 1
    return chosen.set_index([AXIS, "algorithm"])["score"].to_dict(), chosen["spent"].iloc[0]


def test_scores_are_read_off_at_what_all_have_spent():
    full, few = [0.5, 0.6, 0.7], [0.1, 0.2, 0.3, 0.4, 0.45, 0.5, 0.52, 0.53, 0.54, 0.55, 0.56]
    curves = pd.concat([curve("1.0", full, 100.0, 2.0), curve("0.1", few, 10.0, 0.7)])
    rows = readings(curves, AXIS, [])
    assert rows["x"].tolist() == [1.0, 0.1] * 3
    assert read(rows, "rounds") == ({("1.0", "power"): 0.7, ("0.1", "power"): 0.3}, 3.0)
    assert read(rows, "bytes") == ({("1.0", "power"): 0.5, ("0.1", "power"): 0.56}, 110.0)
    assert read(rows, "time") == ({("1.0", "power"): 0.7, ("0.1", "power"): 0.53}, 6.0)
    # another method with a smaller budget moves all that it is compared with, in its own condition only
    short = pd.concat(
        [curve("1.0", [0.9], 60.0, algorithm="fedavg"), curve("0.1", [0.8] * 3, 60.0, algorithm="fedavg")]
    )
    both = pd.concat([curves, short]).assign(data="a")
    rows = readings(pd.concat([both, curves.assign(data="b", run=curves["run"] + "b")]), AXIS, ["data"])
    assert read(rows[rows["data"] == "b"], "bytes")[1] == 110.0
    scores, spent = read(rows[rows["data"] == "a"], "bytes")
    assert spent == 60.0
    assert scores["0.1", "power"] == 0.5
    assert math.isnan(scores["1.0", "power"])  # its first score came for 100 bytes


def test_runs_that_spend_nothing_set_no_budget_and_are_read_at_their_ends():
    curves = pd.concat([curve(place, [0.2, 0.4], cost) for place, cost in (("1.0", 5.0), ("0.1", 0.0))])
    assert read(readings(curves, AXIS, []), "bytes") == ({("1.0", "power"): 0.4, ("0.1", "power"): 0.4}, 10.0)


def test_protocols_share_bytes_and_time_but_not_rounds():
    slow, sync = (
        pd.concat([curve(place, [0.1, 0.2, 0.3, 0.4], cost, protocol=name) for place in ("1.0", "0.1")])
        for name, cost in (("deadline", 3.0), ("sync", 1.0))
    )
    sync = sync[sync["version"] < 3]
    rows = readings(pd.concat([slow, sync]), AXIS, ["protocol"])
    assert rows.groupby(["budget", "protocol"])["spent"].first().to_dict() == {
        ("rounds", "deadline"): 4.0, ("rounds", "sync"): 2.0, ("bytes", "deadline"): 2.0, ("bytes", "sync"): 2.0,
        ("time", "deadline"): 2.0, ("time", "sync"): 2.0,
    }  # fmt: skip
    assert rows[rows["budget"] == "time"]["score"].tolist() == [0.2] * 4


def test_one_exchange_is_compared_at_equal_rounds_only():
    rows = readings(pd.concat([curve("1.0", [0.4], 9.0, 9.0), curve("0.1", [0.3])]), AXIS, [])
    assert set(rows["budget"]) == {"rounds"}


def test_scores_on_a_growing_test_count_once_all_has_arrived():
    early = curve("1.0", [0.9, 0.5]).assign(complete=[False, True], periods=[1.0, 2.0])
    rows = readings(pd.concat([early, curve("0.1", [0.8, 0.4]).assign(complete=[False, True])]), AXIS, [])
    assert read(rows, "rounds")[0] == {("1.0", "power"): 0.5, ("0.1", "power"): 0.4}


def read_off(scores, algorithm="power", seeds="0", budget="rounds", chance=0.1):
    """Readings of the same scores for each seed, by place."""
    frame = pd.concat(points(scores, algorithm=algorithm, seed=seed) for seed in seeds)
    return frame.assign(budget=budget, spent=9.0, x=[number(place) for place in frame[AXIS]], chance=chance)


def test_area_over_the_logarithm_by_hand():
    found = areas(read_off({"0.01": 0.2, "0.1": 0.4, "1.0": 0.8}), AXIS, []).iloc[0]
    assert found["mean"] == pytest.approx(((0.2 + 0.4) / 2 + (0.4 + 0.8) / 2) / 2)
    assert found["lost"] == pytest.approx(0.6)
    assert found["fails"] == "0.01 and 0.1"  # half of the gain of 70 points over 10 % is at 45 %
    assert areas(read_off({"0.01": 0.5, "0.1": 0.4, "1.0": 0.5}), AXIS, []).iloc[0]["fails"] == ""


def test_area_over_a_short_range_is_over_the_axis_itself():
    assert areas(read_off({"0.2": 0.4, "0.4": 0.8, "1.0": 0.8}), AXIS, [])["mean"].tolist() == pytest.approx(
        [(0.2 * 0.6 + 0.6 * 0.8) / 0.8]
    )


def test_areas_have_intervals_over_replicates_and_leave_out_those_that_lack_a_value():
    each = {seed: {"0.1": 0.1 * int(seed), "10.0": 0.1 * int(seed)} for seed in "12345"}
    rows = pd.concat(read_off(scores, seeds=seed) for seed, scores in each.items())
    lacking = read_off({"0.1": 0.9, "10.0": float("nan")}, seeds="6")
    found = areas(pd.concat([rows, lacking]), AXIS, []).iloc[0]
    half = 2.7764451052 * (0.025 / 5) ** 0.5
    assert found[["mean", "low", "high"]].tolist() == pytest.approx([0.3, 0.3 - half, 0.3 + half])
    assert found["n"] == 5


def test_who_changes_order_and_where():
    shift = {seed: 0.001 * int(seed) for seed in "12345"}
    rows = pd.concat(
        read_off({place: score + shift[seed] * sign for place, score in scores.items()}, algorithm, seed)
        for seed in shift
        for algorithm, sign, scores in (
            ("a", 1, {"0.01": 0.2, "0.1": 0.5, "1.0": 0.9}),
            ("b", -1, {"0.01": 0.4, "0.1": 0.5, "1.0": 0.8}),
        )
    )
    found = changes(rows, AXIS, [])
    assert found[["algorithm", "rival", AXIS]].to_numpy().tolist() == [["a", "b", "0.01"]]  # nobody can tell at 0.1
    half = 2.7764451052 * (0.00001 / 5) ** 0.5  # differences are 0.1 + 2 shifts, whose variance is 4 * 2.5e-6
    assert found.iloc[0][["lead", "lead_low", "lag", "lag_high"]].tolist() == pytest.approx(
        [0.106, 0.106 - half, 0.194, 0.194 + half]
    )
    assert changes(rows[rows["seed"] < "5"], AXIS, []).empty  # four cannot tell


def test_levels_are_means_with_intervals_over_the_orders():
    frame = pd.concat(
        points({"20 %": score, "1.0": score + 0.1}, seed=seed).assign(**{"data.split.numpy_seed": order})
        for order, mean in (("1", 0.3), ("2", 0.5), ("3", 0.4), ("4", 0.4), ("5", 0.4))
        for seed, score in (("0", mean - 0.1), ("1", mean + 0.1))
    )
    frame = frame.assign(budget="rounds", x=[number(place) for place in frame[AXIS]])
    rows = levels(frame, AXIS, []).set_index("x")
    half = 2.7764451052 * (0.005 / 5) ** 0.5
    assert rows.loc[0.2, ["mean", "low", "high"]].tolist() == pytest.approx([0.4, 0.4 - half, 0.4 + half])
    assert rows.loc[1.0, "mean"] == pytest.approx(0.5)
    assert rows.loc[1.0, ["n", "replicates"]].tolist() == [10, "5 orders x 2 seeds"]
    few = levels(frame[frame["data.split.numpy_seed"] < "3"], AXIS, []).set_index("x")
    assert few.loc[0.2, ["low", "high"]].isna().all()
    assert few.loc[0.2, "units"] == pytest.approx([0.3, 0.5])
    assert few.loc[0.2, ["lowest", "highest"]].tolist() == pytest.approx([0.3, 0.5])
    assert levels(frame.assign(score=float("nan")), AXIS, []).empty


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


@given(st.floats(0.0, 1.0), st.lists(st.floats(0.01, 1), min_size=2, max_size=6, unique=True))
def test_the_area_of_a_score_that_does_not_change_is_that_score(score, places):
    found = areas(read_off({repr(place): score for place in places}), AXIS, []).iloc[0]
    assert (found["mean"], found["lost"]) == (pytest.approx(score), 0.0)


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
    assert (short("protocol.name"), short("name")) == ("protocol", "name")
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
