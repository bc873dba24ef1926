"""A run ends with the event at which a budget is used up, whatever the protocol, and its books balance there."""

import pandas as pd
import pytest

from fedsim import simulate
from fedsim.clock import budget
from fedsim.core.errors import UserError
from fedsim.scenario.measure import Measure, Until

BASE = {
    "name": "budgets",
    "clients": {"count": 6, "speed": "1 GFLOP/s"},
    "network": {"latency": "lognormal(40 ms, 0.5)", "uplink": "lognormal(8 Mbit/s, 0.5)", "downlink": "40 Mbit/s"},
    "algorithm": {"name": "traffic", "down": "200 kB", "up": "100 kB", "operations": 5e8},
}
PROTOCOLS = {
    "sync": {"name": "sync", "rounds": 50, "participation": 1.0},
    "deadline": {"name": "deadline", "rounds": 50, "clients": 3, "over": 1.5, "wait": "2 s"},
    "buffered": {"name": "buffered", "rounds": 100, "clients": 4, "buffer": 2},
    "one_shot": {"name": "one_shot"},
    "hierarchical": {"name": "hierarchical", "rounds": 30, "clients": 2, "edge_rounds": 2},
}
TREE = {"name": "tree", "edges": 2, "uplink": "50 Mbit/s", "downlink": "50 Mbit/s", "latency": "5 ms"}


def ran(folder, protocol, until, **changes):
    network = BASE["network"] | ({"topology": TREE} if protocol == "hierarchical" else {})
    scenario = {**BASE, "network": network, "protocol": PROTOCOLS[protocol], "measure": {"until": until}}
    return simulate(scenario, out=folder, progress=False, **changes)


def moved(transfers, direction):
    ends = {"bytes_up": transfers["src"] >= 0, "bytes_down": transfers["dst"] >= 0}
    mine = ends.get(direction, ends["bytes_up"] | ends["bytes_down"])
    return transfers[mine]


@pytest.mark.long
@pytest.mark.parametrize("direction", ["bytes", "bytes_up", "bytes_down"])
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_byte_budget_is_used_up_at_the_end_and_not_before(tmp_path, protocol, direction):
    """What had ended before the last event is less than the budget, what moved in all at least as much."""
    result = ran(tmp_path, protocol, {direction: "500 kB"})
    assert result.runs["status"].tolist() == ["done"]  # the ledger has closed
    end, rows = float(result.runs["sim_seconds"].iloc[0]), moved(result.transfers, direction)
    assert rows["wire_bytes"].sum() >= 500_000
    assert rows[rows["arrived"] < end - 1]["wire_bytes"].sum() < 500_000
    assert {"cut", "lost"} >= set(rows[rows["arrived"] == end]["fate"]) - {"delivered", "late", "discarded"}


@pytest.mark.parametrize("protocol", ["sync", "deadline", "buffered"])
def test_updates_are_a_budget(tmp_path, protocol):
    result = ran(tmp_path, protocol, {"updates": 4})
    assert result.runs["updates"].tolist() == [4]
    assert result.updates["time"].iloc[-1] == result.runs["sim_seconds"].iloc[0]


def test_the_first_budget_to_be_used_up_ends_the_run(tmp_path):
    alone = ran(tmp_path / "a", "sync", {"updates": 3})
    time = float(alone.runs["sim_seconds"].iloc[0])
    for folder, until, updates in [
        ("b", {"updates": 3, "time": f"{time / 2!r} s", "bytes": "1 GB"}, 1),
        ("c", {"updates": 3, "time": f"{time * 2!r} s", "bytes": "1 GB"}, 3),
    ]:
        found = ran(tmp_path / folder, "sync", until)
        assert found.runs["updates"].tolist() == [updates]
        assert found.runs["sim_seconds"].iloc[0] == pytest.approx(time if updates == 3 else time / 2)


@pytest.mark.parametrize(("later", "updates"), [("bytes", 4), ("time", 4), ("time alone", 4), ("neither", 50)])
def test_with_all_the_last_budget_to_be_used_up_ends_the_run(tmp_path, later, updates):
    """Four rounds by one budget, two by the other; `all` of one budget is that budget, and the protocol's end stays."""
    steps = ran(tmp_path / "a", "sync", "1 h").updates["time"].tolist()
    two, four = (f"{(steps[count - 1] + steps[count]) / 2!r} s" for count in (2, 4))  # in the middle of the next round
    until = {
        "bytes": {"time": two, "updates": 4}, "time": {"time": four, "updates": 2},
        "time alone": {"time": four}, "neither": {"time": two, "updates": 51},
    }[later]  # fmt: skip
    found = ran(tmp_path / "b", "sync", {**until, "when": "all"})
    assert found.updates["time"].tolist() == steps[:updates]
    end = float(found.runs["sim_seconds"].iloc[0])
    if later == "bytes":
        assert end == steps[3]
    elif later == "time":
        assert float(four[:-2]) <= end < steps[4]
    elif later == "time alone":
        assert end == float(four[:-2])


def test_with_all_of_two_budgets_beside_time_the_last_one_counts(tmp_path):
    result = ran(tmp_path, "sync", {"updates": 4, "bytes": "1 kB", "when": "all"})
    assert result.runs["updates"].tolist() == [4]
    assert result.updates["time"].iloc[-1] == result.runs["sim_seconds"].iloc[0]


@pytest.mark.long
@pytest.mark.parametrize("until", [{"bytes_up": "700 kB"}, {"updates": 3}, {"time": "1500 ms"}])
def test_the_end_is_the_same_however_a_cohort_moves(tmp_path, until):
    """Keeping views has every ask go by itself; without them a cohort is a wave where it can be."""
    tables = []
    for views in (False, True):
        found = ran(tmp_path / str(views), "sync", until, measure__views=views)
        rows = found.transfers.sort_values(["src", "dst", "sent"], ignore_index=True)
        tables.append((rows.drop(columns="run"), found.updates.drop(columns="run")))
    for one, other in zip(*tables, strict=True):
        pd.testing.assert_frame_equal(one, other, rtol=1e-12)


def test_every_budget_has_a_meter_and_says_how_it_is_written():
    assert set(budget.METERS) | {"time", "when"} == set(Until.model_fields)
    for until in ("10 min", {"bytes": "10 MB"}, {"updates": 40, "time": "10 min"}, {"updates": 4, "when": "all"}):
        measure = Measure(until=until)
        assert measure.model_dump(mode="json")["until"] == until
        assert Measure(until=measure.model_dump(mode="json")["until"]) == measure


@pytest.mark.parametrize(
    ("until", "message"),
    [
        (50, "50 has no unit: write '50 s' or '50 ms'"),
        ({"bytes": 10}, "10 has no unit: write '10 B' or '10 kB'"),
        ({"bytes_up": "0 B"}, "'0 B': must be more than 0"),
        ({}, "names no budget; there are time, updates, bytes, bytes_up, bytes_down"),
        ({"when": "all"}, "names no budget; there are time, updates, bytes, bytes_up, bytes_down"),
        ({"byte": "3 B"}, "byte"),
    ],
)
def test_budgets_that_make_no_sense_are_refused(tmp_path, until, message):
    with pytest.raises(UserError, match=message):
        ran(tmp_path, "sync", until)
