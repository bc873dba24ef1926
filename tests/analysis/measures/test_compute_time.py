import pandas as pd
import pytest

from analysis.measures.compute_time import COLUMNS, compute_seconds, compute_times
from analysis.report.sections import compute_time

SPANS = [  # client, start, end, what
    (0, 0.0, 2.0, "train"), (1, 1.0, 5.0, "train"), (0, 2.0, 12.0, "offline"), (1, 5.0, 5.0, "left"),
    (2, 0.0, 7.0, "mix"), (-1, 5.0, 5.5, "serve"), (-2, 4.0, 4.3, "serve"),
]  # fmt: skip


def spans(rows=SPANS):
    return pd.DataFrame(rows, columns=["client", "start", "end", "what"])


def updates(*folded):
    return pd.DataFrame({"folded": folded}).assign(step="train")


def test_seconds_by_hand():
    found = compute_seconds(spans(), updates(2, 0, 1))  # an update that folded nothing has computed nothing
    assert found == pytest.approx(
        {"client_seconds": 3.0, "server_seconds": 0.4, "client_total": 6.0, "server_total": 0.8}
    )


def test_exchanges_of_masking_are_no_updates_and_a_restart_is_no_computing():
    counts = pd.concat([updates(2, 2), updates(4).assign(step="keys")])
    down = spans([*SPANS, (-1, 6.0, 9.0, "down")])
    assert compute_seconds(down, counts)["server_seconds"] == pytest.approx(0.4)


def test_what_nobody_computed_is_not_zero():
    clients = compute_seconds(spans(SPANS[:5]), updates(1))
    assert (clients["client_seconds"], clients["server_seconds"], clients["server_total"]) == (3.0, None, None)
    assert set(compute_seconds(spans([]), updates()).values()) == {None}


def sweep(seconds):
    """A point for each (latency, algorithm, seed, seconds a job)."""
    points = pd.DataFrame(seconds, columns=["latency", "algorithm", "seed", "job"]).assign(
        real_seconds=9.0, followed=""
    )
    points["run"] = [f"p{i}" for i in points.index]
    tables = {f"p{i}": spans([(0, 1.0, 1.0 + job, "train")]) for i, job in enumerate(points["job"])}
    return points, tables


def times(points, tables, axes=()):
    """The table of a sweep whose points have made one update each."""
    found = pd.DataFrame([compute_seconds(tables[point], updates(1)) for point in points["run"]])
    return compute_times(points, found, [*axes])


def test_algorithms_are_ranked_in_each_condition():
    rows = [("1 s", "slow", "0", 4.0), ("1 s", "slow", "1", 6.0), ("1 s", "fast", "0", 1.0), ("1 s", "fast", "1", 1.0)]
    frame = times(*sweep([*rows, ("2 s", "slow", "0", 2.0)]), ["latency"])
    assert frame[["latency", "rank", "algorithm", "n"]].to_numpy().tolist() == [
        ["1 s", 1, "fast", 2], ["1 s", 2, "slow", 2], ["2 s", 1, "slow", 1],
    ]  # fmt: skip
    assert frame["client_seconds"].tolist() == [1.0, 5.0, 2.0]
    assert frame["client_seconds_sd"].tolist()[:2] == pytest.approx([0.0, 2**0.5])
    assert frame["server_seconds"].isna().all()
    html = compute_time(frame, ["latency"])
    assert "5.00 s (4.00 to 6.00 s)" in html
    assert "per server update</th>" not in html  # a column that tells nothing is left out


def test_the_server_counts_in_the_rank():
    points, tables = sweep([("1 s", "a", "0", 1.0), ("1 s", "b", "0", 2.0)])
    tables["p0"] = pd.concat([tables["p0"], spans([(-1, 2.0, 5.0, "serve")])])
    assert times(points, tables)["algorithm"].tolist() == ["b", "a"]


def test_runs_without_computing_are_left_out():
    points, tables = sweep([("1 s", "a", "0", 1.0)])
    assert times(points, {name: rows.iloc[:0] for name, rows in tables.items()}).empty


def test_real_time_is_that_of_points_that_were_trained():
    rows = [("1 s", "a", 0, 2.0), ("1 s", "a", 1, 4.0), ("2 s", "a", 0, 2.0)]
    points = pd.DataFrame(rows, columns=["latency", "algorithm", "seed", "job"])
    points = points.assign(real_seconds=[9.0, 1.0, 1.0], followed=["", "another", "another"])
    found = pd.DataFrame(dict.fromkeys(COLUMNS, points["job"]))
    frame = compute_times(points, found, ["latency"])
    assert frame["real_seconds"].tolist()[0] == 9.0
    assert frame["real_seconds"].isna().tolist() == [False, True]
    assert "real time per trained run" in compute_time(frame, ["latency"])
