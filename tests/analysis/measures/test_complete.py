"""From when a curve's test stops growing, and that targets count from there on only."""

import math

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analysis.measures.each_period import each_period, mean_reached
from analysis.measures.forgetting import usable
from analysis.measures.frontier import curve, over_all_periods, reach, scored

COLUMNS = ["time", "version", "client", "period", "seen", "model", "split", "metric", "value", "weight"]
TRANSFERS = pd.DataFrame({
    "sent": [0.0, 1.0], "arrived": [0.5, 2.5], "src": -1, "dst": 0, "kind": "train", "version": 0, "nbytes": 90,
    "wire_bytes": [100, 7], "fate": "delivered",
})  # fmt: skip


@st.composite
def runs(draw):
    """Scores of a run: at each scoring every client with data is scored on all that it has met, and on what came."""
    clients, scorings = draw(st.integers(1, 4)), draw(st.integers(1, 7))
    steps = [draw(st.lists(st.integers(0, 1), min_size=scorings, max_size=scorings)) for _ in range(clients)]
    tested = draw(st.lists(st.booleans(), min_size=clients, max_size=clients))
    rows = []
    for at in range(scorings):
        version = draw(st.integers(max(0, at - 1), at + 1))  # a restart may take versions back
        for client in range(clients):
            seen = sum(steps[client][: at + 1])
            for period in range(seen + 1):  # the last one is prequential
                value, weight = draw(st.sampled_from([0.0, 0.25, 0.5, 0.75, 1.0])), draw(st.integers(1, 5))
                if tested[client]:
                    rows.append((float(at), version, client, period, seen, value, weight))
    frame = pd.DataFrame(rows, columns=["time", "version", "client", "period", "seen", "value", "weight"])
    frame = frame.astype(dict.fromkeys(frame, "int64") | {"time": "float64", "value": "float64"})
    return frame.assign(model="global", split="test", metric="accuracy")[COLUMNS]


def by_hand(rows):
    """Return each scoring's time, mean number of periods met, and whether everybody has met all, row by row."""
    met = {}
    for row in rows.itertuples():
        if row.period < row.seen:
            met.setdefault(row.time, {})[row.client] = row.seen
    last = {}
    for seen in met.values():
        last.update(seen)
    return [(time, sum(seen.values()) / len(seen), seen == last) for time, seen in sorted(met.items())]


@given(runs(), st.sampled_from([0.0, 0.3, 0.6, 0.9, 1.0]))
@settings(max_examples=60, deadline=None)
def test_complete_and_reach(rows, target):
    points = curve(rows, TRANSFERS, "global")
    told = by_hand(rows)
    assert points["time"].tolist() == [time for time, _, _ in told]
    assert points["periods"].tolist() == pytest.approx([periods for _, periods, _ in told])
    assert points["complete"].tolist() == [whole for _, _, whole in told]
    if len(points):
        assert points["complete"].iloc[-1]  # after the last scoring the test grows no more
        assert points["complete"].is_monotonic_increasing
    good = [row for row in points.to_dict("records") if row["complete"] and row["score"] >= target]
    found = reach(points, target)
    assert (found is None) == (not good)
    if found is not None:
        assert (found.seconds, found.moved, found.periods) == (good[0]["time"], good[0]["moved"], good[0]["periods"])
        earlier = reach(points, target - 0.3)
        assert earlier is not None
        assert earlier.seconds <= found.seconds


@given(st.lists(runs(), min_size=1, max_size=3))
@settings(max_examples=30, deadline=None)
def test_runs_in_one_frame_know_nothing_of_one_another(several):
    rows = pd.concat([usable(one, "global", "accuracy", "test").assign(place=n) for n, one in enumerate(several)])
    together = scored(rows, by=["place"])
    for place, one in enumerate(several):
        alone = scored(usable(one, "global", "accuracy", "test"))
        mine = together[together["place"] == place].drop(columns="place").reset_index(drop=True)
        pd.testing.assert_frame_equal(mine, alone)


@given(runs(), st.randoms())
@settings(max_examples=30, deadline=None)
def test_the_order_of_rows_and_a_client_without_data_change_nothing(rows, random):
    order = list(range(len(rows)))
    random.shuffle(order)
    pd.testing.assert_frame_equal(curve(rows.iloc[order], TRANSFERS, "global"), curve(rows, TRANSFERS, "global"))
    nobody = rows.assign(client=99, seen=0, period=0).drop_duplicates()
    more = pd.concat([rows, nobody], ignore_index=True)
    pd.testing.assert_frame_equal(curve(more, TRANSFERS, "global"), curve(rows, TRANSFERS, "global"))


@given(runs())
@settings(max_examples=30, deadline=None)
def test_a_single_period_is_complete_once_everybody_has_it(rows):
    single = rows[rows["period"] == 0].assign(seen=rows["seen"].clip(upper=1))
    points = curve(single, TRANSFERS, "global")
    clients = single[single["seen"] == 1].groupby("time")["client"].nunique()
    assert points["complete"].tolist() == (clients == clients.max()).tolist()
    assert set(points["periods"]) <= {1.0}


def table(rows):
    """Scores from (time, client, period, seen, value), all of weight 1."""
    full = [(t, int(t), c, p, s, "global", "test", "accuracy", v, 1) for t, c, p, s, v in rows]
    return pd.DataFrame(full, columns=COLUMNS)


ARRIVALS = pd.DataFrame(
    [(0.0, 0, 0, 0), (1.0, 1, 0, 1), (2.0, 0, 1, 2), (4.0, 1, 1, 4)], columns=["time", "client", "period", "version"]
)


def test_each_period_runs_from_its_arrivals_by_hand():
    scores = table([
        (0.5, 0, 0, 1, 1.0),  # client 1 has nothing yet
        (2.0, 0, 0, 1, 0.8), (2.0, 1, 0, 1, 0.6),
        (3.0, 0, 0, 2, 0.0), (3.0, 0, 1, 2, 0.9), (3.0, 1, 0, 1, 0.0),  # of period 1 only client 0's part is known
        (5.0, 0, 0, 2, 0.0), (5.0, 0, 1, 2, 0.9), (5.0, 1, 0, 2, 0.0), (5.0, 1, 1, 2, 0.3),
    ])  # fmt: skip
    found = each_period(scores, ARRIVALS, TRANSFERS, 0.6, "global")
    # period 0: from (0 + 1) / 2 on until 2; 100 bytes by then, of which client 1 missed those before second 1
    # period 1: from (2 + 4) / 2 on until 5; 107 bytes by then, 100 and 107 before the arrivals
    assert found.values.tolist() == [[0, 1.5, 50.0, 1.0, 1.0], [1, 2.0, 3.5, 2.0, 1.0]]
    told = mean_reached(found)
    assert told == (1.75, 26.75, 1.5, 1.0)
    never = each_period(scores, ARRIVALS, TRANSFERS, 0.65, "global")
    assert never["seconds"].isna().tolist() == [False, True]
    assert mean_reached(never) is None


def test_where_only_the_latest_period_is_scored_the_last_one_is_the_complete_test():
    scores = table([(1.0, 0, 0, 1, 0.9), (2.0, 0, 0, 1, 0.9), (3.0, 0, 1, 2, 0.3), (4.0, 0, 1, 2, 0.6)])
    points = curve(scores, TRANSFERS, "global")
    assert points["complete"].tolist() == [False, False, True, True]
    assert reach(points, 0.5).seconds == 4.0
    arrivals = ARRIVALS[ARRIVALS["client"] == 0]
    assert each_period(scores, arrivals, TRANSFERS, 0.5, "global")["seconds"].tolist() == [1.0, 2.0]
    assert each_period(scores, arrivals, TRANSFERS, 0.7, "global")["seconds"].isna().tolist() == [False, True]


def test_without_scores_there_is_nothing():
    empty = table([])
    points = curve(empty, TRANSFERS, "global")
    named = ["time", "version", "score", "met", "periods", "complete", "fixed", "up", "down", "moved"]
    assert [*points.columns] == named
    assert reach(points, 0.0) is None
    found = each_period(empty, ARRIVALS, TRANSFERS, 0.5, "global")
    assert [*found.columns] == ["period", "seconds", "bytes", "periods", "at_first"]
    assert mean_reached(found) is None
    assert [*over_all_periods(empty, "global", "accuracy").columns] == ["time", "version", "whole"]


def test_the_score_over_all_periods_is_pooled_over_clients_and_averaged_over_periods():
    rows = [(1.0, 1, 0, 0, 1, 0.8, 3), (1.0, 1, 1, 0, 0, 0.4, 1), (1.0, 1, 0, 1, 1, 0.2, 2)]  # client 1 has no data yet
    frame = pd.DataFrame(rows, columns=["time", "version", "client", "period", "seen", "value", "weight"])
    frame = frame.assign(model="global", split="all_periods", metric="accuracy")
    (found,) = over_all_periods(frame, "global", "accuracy").values.tolist()
    assert found == pytest.approx([1.0, 1, (0.7 + 0.2) / 2])
    assert curve(frame.assign(split="test"), TRANSFERS, "global")["score"].tolist() == pytest.approx([0.8])
    assert math.isnan(over_all_periods(frame, "local", "accuracy")["whole"].mean())
