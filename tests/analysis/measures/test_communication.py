import pandas as pd
from hypothesis import given, settings
from hypothesis import strategies as st

from analysis.measures import communication as c

COLUMNS = ["sent", "arrived", "src", "dst", "kind", "version", "nbytes", "wire_bytes", "fate"]
ROWS = [
    (0.0, 1.0, -1, 0, "train", 0, 100, 110, "delivered"),
    (0.0, 2.0, -1, 1, "train", 0, 100, 115, "delivered"),
    (1.0, 3.0, 0, -1, "train", 0, 80, 90, "delivered"),
    (2.0, 4.0, 1, -1, "embed", 0, 50, 20, "cut"),
    (2.0, 5.0, 1, -1, "train", 0, 80, 85, "late"),
    (2.0, 2.5, -1, 2, "train", 0, 100, 0, "lost"),
]
TABLE = pd.DataFrame(ROWS, columns=COLUMNS)


def rows_of(frame):
    return [tuple(row) for row in frame.itertuples(index=False)]


def test_totals_by_hand():
    assert c.totals(TABLE) == {
        "bytes_up": 80, "bytes_down": 200, "bytes_peer": None, "bytes_wasted": 140, "bytes_moved": 420
    }  # fmt: skip


def test_no_message_is_zero_bytes_but_without_a_server_nothing_goes_up():
    none = {"bytes_up": 0, "bytes_down": 0, "bytes_peer": None, "bytes_wasted": 0, "bytes_moved": 0}
    assert c.totals(TABLE.iloc[:0]) == none
    peers = pd.DataFrame([(0.0, 1.0, 0, 1, "share", 0, 10, 12, "delivered")], columns=COLUMNS)
    among = {"bytes_up": None, "bytes_down": None, "bytes_peer": 10, "bytes_wasted": 2, "bytes_moved": 12}
    assert c.totals(peers) == among
    assert c.totals(peers.assign(fate="cut")) == {**among, "bytes_peer": 0, "bytes_wasted": 12}
    assert c.totals(pd.concat([TABLE, peers])) == {
        "bytes_up": 80, "bytes_down": 200, "bytes_peer": 10, "bytes_wasted": 142, "bytes_moved": 432
    }  # fmt: skip
    assert rows_of(c.booked(peers)) == [("share", "peer", "delivered", 1, 10, 12, 2)]


def test_bytes_by_step_direction_and_fate_and_by_client():
    assert rows_of(c.booked(TABLE)) == [
        ("embed", "up", "cut", 1, 0, 20, 20),
        ("train", "down", "delivered", 2, 200, 225, 25),
        ("train", "down", "lost", 1, 0, 0, 0),
        ("train", "up", "delivered", 1, 80, 90, 10),
        ("train", "up", "late", 1, 0, 85, 85),
    ]
    assert rows_of(c.by_client(TABLE)) == [
        (0, "down", 1, 100, 110, 10),
        (0, "up", 1, 80, 90, 10),
        (1, "down", 1, 100, 115, 15),
        (1, "up", 2, 0, 105, 105),
        (2, "down", 1, 0, 0, 0),
    ]


def test_durations_are_those_of_what_was_delivered():
    assert rows_of(c.durations(TABLE)) == [("down", 1.0), ("down", 2.0), ("up", 2.0)]
    assert c.durations(TABLE).index.tolist() == [0, 1, 2]
    assert c.durations(TABLE.iloc[3:]).empty


def wasted(transfers):
    return c.wasted_parts(c.booked(transfers).assign(run="p"), ["run"]).iloc[0, 1:].to_dict()


def test_wasted_bytes_by_cause():
    assert wasted(TABLE) == {"late": 85, "discarded": 0, "broken": 20}
    refused = TABLE.assign(fate=TABLE["fate"].replace("late", "discarded"))
    assert wasted(refused) == {"late": 0, "discarded": 85, "broken": 20}
    assert c.totals(refused) == c.totals(TABLE)
    assert c.wasted_parts(c.booked(TABLE.iloc[:0]).assign(run=""), ["run"]).empty


def test_bytes_over_time_count_what_has_ended():
    assert c.moved_by(TABLE, [0.5, 1.0, 2.4, 3.0, 9.0]).tolist() == [0, 110, 225, 315, 420]
    assert c.moved_by(TABLE, [9.0], "up").tolist() == [195]


@given(
    st.lists(
        st.tuples(
            st.floats(0, 100),
            st.integers(-1, 3),
            st.integers(-1, 3),
            st.sampled_from(["train", "share"]),
            st.integers(0, 10**9),
            st.integers(0, 10**9),
            st.sampled_from(["delivered", "late", "discarded", "cut", "lost"]),
        ),
        min_size=1,
    )
)
@settings(deadline=None)
def test_every_view_adds_up_to_what_moved(rows):
    frame = pd.DataFrame([(0.0, a, s, d, k, 0, n, w, f) for a, s, d, k, n, w, f in rows], columns=COLUMNS)
    moved = c.totals(frame)["bytes_moved"]
    for view in (c.booked, c.by_client):
        sums = view(frame)
        assert sums["wire"].sum() == moved
        assert (sums["payload"] + sums["wasted"] == sums["wire"]).all()
    booked = c.booked(frame)
    overhead = booked.loc[booked["fate"] == "delivered", "wasted"].sum()  # is not wasted
    parts = c.wasted_parts(booked.assign(run="p"), ["run"]).drop(columns="run")  # no row where nothing was
    assert parts.to_numpy().sum() + overhead == c.totals(frame)["bytes_wasted"]
    assert c.moved_by(frame, [100.0]) == moved
    assert sum(c.moved_by(frame, [50.0], way)[0] for way in ("up", "down", "peer")) == c.moved_by(frame, [50.0])[0]


def test_an_edge_aggregator_stands_between_the_clients_and_the_server():
    hops = [(-1, -2), (-2, 3), (3, -2), (-2, -1), (-1, 3), (3, -1), (3, 4)]
    moved = pd.DataFrame([(src, dst, "delivered", 10, 12) for src, dst in hops])
    moved.columns = ["src", "dst", "fate", "nbytes", "wire_bytes"]
    assert c.directions(moved).tolist() == ["down", "down", "up", "up", "down", "up", "peer"]
    sent = c.totals(moved)
    assert (sent["bytes_up"], sent["bytes_down"], sent["bytes_peer"], sent["bytes_wasted"]) == (30, 30, 10, 14)
    booked = c.by_client(moved)
    assert {(row.client, row.direction): row.payload for row in booked.itertuples()} == {
        (-2, "down"): 10, (-2, "up"): 10, (3, "down"): 20, (3, "up"): 20, (3, "peer"): 10,
    }  # fmt: skip
