import pandas as pd

from analysis.measures.one_update import MOST_CLIENTS, one_update, timeline

UPDATES = [(10.0, 1, 2), (14.0, 2, 2), (15.0, 3, 0), (30.0, 4, 2)]  # lengths 10, 4, (nothing folded) and 15


def told(transfers, spans, updates=UPDATES):
    return one_update(
        pd.DataFrame(transfers, columns=["sent", "arrived", "src", "dst", "fate"]),
        pd.DataFrame(spans, columns=["client", "start", "end", "what"]),
        pd.DataFrame(updates, columns=["time", "version", "folded"]),
    )


def test_the_update_of_median_length_client_by_client():
    # of 4, 10 and 15 seconds the median is the first update, from 0 to 10
    moves = [
        (0.0, 1.0, -1, 0, "delivered"), (3.0, 5.0, 0, -1, "delivered"), (0.0, 2.0, -1, 1, "delivered"),
        (8.0, 12.0, 1, -1, "late"), (11.0, 12.0, -1, 2, "delivered"),
    ]  # fmt: skip
    worked = [(0, 1.0, 3.0, "train"), (1, 2.0, 8.0, "train"), (7, 0.0, 9.0, "train"), (0, 5.0, 5.0, "left")]
    frame = told(moves, [*worked, (1, -1.0, 0.5, "offline")])
    stretches = sorted(map(tuple, frame[["client", "what", "start", "end"]].to_numpy().tolist()))
    assert stretches == [
        (0, "download", 0.0, 1.0), (0, "train", 1.0, 3.0), (0, "upload", 3.0, 5.0), (0, "waiting", 5.0, 10.0),
        (1, "download", 0.0, 2.0), (1, "offline", 0.0, 0.5), (1, "train", 2.0, 8.0), (1, "upload", 8.0, 10.0),
    ]  # fmt: skip
    assert frame["seconds"].tolist() == (frame["end"] - frame["start"]).tolist()
    assert set(frame["version"]) == {1}


def test_times_count_from_the_update_before():
    frame = told([(13.0, 15.0, -1, 0, "delivered"), (16.0, 25.0, 0, -1, "delivered")], [], [(14.0, 1, 1), (28.0, 2, 1)])
    assert set(frame["version"]) == {2}
    assert frame[["what", "start", "end"]].to_numpy().tolist() == [
        ["download", 0.0, 1.0], ["upload", 2.0, 11.0], ["waiting", 11.0, 14.0],
    ]  # fmt: skip


def test_nothing_is_told_of_a_run_that_folded_nothing():
    assert told([(0.0, 1.0, -1, 0, "delivered")], [], [(5.0, 1, 0)]).empty


def test_of_very_many_clients_some_are_drawn_last_ones_on_top():
    count = 3 * MOST_CLIENTS
    moves = [(0.0, 1.0 + client, -1, client, "delivered") for client in range(count)]
    spec = timeline(told(moves, [], [(500.0, 1, 1)]).assign(condition=""), [""])
    drawn = [row["who"] for row in spec["datasets"]["rows"]]
    assert len(drawn) == MOST_CLIENTS
    assert drawn[-1] == f"client {count - 1}"
    busy = {row["who"]: row["busy"] for row in spec["datasets"]["rows"]}
    assert max(busy, key=busy.get) == f"client {count - 1}"
    assert spec["encoding"]["y"]["sort"] == {"field": "busy", "op": "max", "order": "descending"}
    assert f"at most {MOST_CLIENTS} clients" in spec["title"]["subtitle"]
