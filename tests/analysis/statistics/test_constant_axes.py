"""Axes along which nothing changes are left out of the panels, and said once."""

import itertools

import pandas as pd
import pytest

from analysis.axes import short
from analysis.charts import totals
from analysis.charts.heat_maps import heat
from analysis.report.budgets_section import leaders
from analysis.statistics.constant_axes import drawn_once, every, flat

LATENCIES, SHARES, METHODS = ("10 ms", "100 ms", "1 s"), ("0.1", "1.0"), ("fedavg", "power")
AXES = ["network.latency", "protocol.participation"]


def sweep(value, n=2):
    rows = [
        (latency, share, method, value(latency, share, method), n)
        for latency, share, method in itertools.product(LATENCIES, SHARES, METHODS)
    ]
    return pd.DataFrame(rows, columns=[*AXES, "algorithm", "value", "n"])


def by_share(latency, share, method):
    return 1e6 * float(share) * (2 if method == "power" else 1)


def test_an_axis_that_changes_nothing_is_said_once():
    frame = drawn_once(sweep(by_share), AXES, ["algorithm"], ["value", "n"])
    assert frame[AXES[0]].unique().tolist() == ["10 ms"]
    assert set(frame[AXES[1]]) == set(SHARES)
    assert frame.attrs["left_out"] == ". The same at every latency (10 ms to 1 s)"


def test_a_change_that_cannot_be_seen_is_named():
    def nearly(latency, share, method):
        return by_share(latency, share, method) * (1.001 if latency == "1 s" else 1)

    told = drawn_once(sweep(nearly), AXES, ["algorithm"], ["value", "n"]).attrs["left_out"]
    assert told == ". The same, to within 0.5 %, at every latency (10 ms to 1 s)"


@pytest.mark.parametrize(
    "value",
    [
        lambda latency, share, method: by_share(latency, share, method) * (1.1 if latency == "1 s" else 1),
        lambda latency, share, method: (
            None if (latency, method) == ("1 s", "power") else by_share(latency, share, method)
        ),
    ],
)
def test_an_axis_that_changes_something_stays(value):
    frame = sweep(value).astype({"value": "float64"})
    assert set(drawn_once(frame, AXES, ["algorithm"], ["value", "n"])[AXES[0]]) == set(LATENCIES)


def test_what_was_not_run_is_not_said_to_be_the_same():
    frame = sweep(by_share)
    frame = frame[(frame[AXES[0]] == "10 ms") | (frame[AXES[1]] == "1.0")]
    assert not flat(frame, AXES[0], ["algorithm", AXES[1]], ["value"])
    assert "left_out" not in drawn_once(frame, AXES, ["algorithm"], ["value"]).attrs


def test_bytes_have_no_panel_for_each_latency():
    frame = sweep(by_share).rename(columns={"value": "bytes"}).assign(direction="up", total_sd=0.0)
    spec = totals.stacked_bytes(frame.assign(total=frame["bytes"]), "direction", AXES)
    assert "row" not in spec["facet"]
    assert spec["facet"]["column"]["sort"] == ["participation 0.1", "participation 1.0"]
    assert spec["title"]["subtitle"].endswith(". The same at every latency (10 ms to 1 s)")
    assert "network.latency" not in str(spec["datasets"])


def test_a_heat_map_has_one_place_along_an_axis_that_changes_nothing():
    frame = sweep(lambda latency, share, method: float(share) / 2).rename(columns={"value": "score"})
    spec = heat(frame, "score", (AXES[0], AXES[1]), [], None)
    assert {(row["x"], row["y"]) for row in spec["datasets"]["rows"]} == {("any", "0.1"), ("any", "1.0")}
    assert "The same at every latency (10 ms to 1 s)" in spec["title"]["subtitle"]


def test_equal_leaders_everywhere_are_one_bar():
    rows = [(latency, begins, ends, method) for latency in LATENCIES for begins, ends, method in (
        (1e3, 2e4, "fedavg, participation 0.1"), (2e4, float("inf"), "fedavg, participation 1.0"))]  # fmt: skip
    frame = pd.DataFrame(rows, columns=[AXES[0], "from", "to", "method"])
    frame = frame.assign(cost="moved", algorithm="fedavg", score=0.5, n=2, next="", next_score=0.1)
    spec = leaders(frame, "accuracy")
    assert {row["condition"] for row in spec["datasets"]["rows"]} == {"all runs"}
    assert spec["encoding"]["color"]["scale"]["domain"] == ["fedavg"]  # the colour is the algorithm's,
    assert spec["encoding"]["opacity"]["scale"]["domain"] == [
        "participation 0.1",
        "participation 1.0",
    ]  # not the choice's


def test_many_values_are_named_by_their_ends():
    frame = pd.DataFrame({"network.latency": [f"{i} ms" for i in range(1, 10)]})
    assert every("network.latency", frame) == "latency (1 ms to 9 ms)"
    names = pd.DataFrame({"data.dataset": [f"set {letter}" for letter in "abcdefgh"]})
    assert every("data.dataset", names) == "dataset (8 values)"
    assert short("network.latency") == "latency"
