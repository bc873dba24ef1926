"""Numbers that would exhaust the memory are refused at their key before anything is allocated."""

import copy
import os
from functools import partial

import pytest
from mutations import ROOT, at, places, small

from fedsim.core.errors import UserError
from fedsim.data.datasets.drawn_events import SHAPES
from fedsim.point.checks import check, memory
from fedsim.scenario.schema import Scenario

resource = pytest.importorskip("resource")  # not on Windows
ROOM = 3 * 2**30  # bytes that a check may take beside what the tests hold already
HUGE = (10**6, 10**9, 10**12)
TRAFFIC = {
    "name": "large", "clients": {"count": 4, "speed": "1 GFLOP/s"},
    "network": {"latency": "1 ms", "uplink": "1 Mbit/s", "downlink": "1 Mbit/s"},
    "protocol": {"name": "sync", "rounds": 1, "clients": 1},
    "algorithm": {"name": "traffic", "down": "1 kB", "up": "1 kB"},
}  # fmt: skip
LEARNED = TRAFFIC | {
    "algorithm": "fedavg", "model": {"name": "gcn", "hidden": 3}, "training": {"optimiser": "sgd", "lr": 0.1},
    "data": {"dataset": {"name": "synthetic", "nodes": 100, "classes": 2, "features": 8}, "partition": "random"},
}  # fmt: skip
MEETING = LEARNED | {
    "data": {
        "dataset": {"name": "meetings", "features": 2, "communities": 2, "members": 8, "seconds": 9},
        "partition": "random",
        "stream": {"name": "snapshots", "patch": 8, "scored": "events", "every": "1 updates"},
    },
    "task": "event_prediction", "model": {"name": "dygformer", "channel": 4},
}  # fmt: skip
CASES = [
    *[(MEETING, ("data", "dataset", name), 10**9) for name in ("communities", "members", "seconds")],
    (MEETING, ("model", "channel"), 10**6),
    (TRAFFIC, ("clients", "count"), 10**9),
    (LEARNED, ("model", "hidden"), 10**9),
    (LEARNED, ("data", "dataset", "nodes"), 10**9),
    (LEARNED, ("data", "dataset", "features"), 10**9),
]


def put(data, place, value):
    data = copy.deepcopy(data)
    at(data, place[:-1])[place[-1]] = value
    return data


def told(data):
    try:
        return [problem.key for problem in check.points([*Scenario.model_validate(data).points()])]
    except (UserError, ValueError) as error:
        return [str(error)]


@pytest.mark.parametrize(("data", "place", "value"), CASES, ids=lambda value: str(value)[-30:])
def test_a_number_that_needs_more_than_the_machine_has_is_refused_at_its_key(data, place, value, monkeypatch):
    monkeypatch.setattr(memory, "available", lambda: 16e9)
    assert told(data) == []
    assert told(put(data, place, value)) == [".".join(place)]


def test_drawn_events_are_refused_where_they_cannot_be_sorted(monkeypatch):
    assert {name: shape.events for name, shape in SHAPES.items()} == memory.EVENTS
    data = put(LEARNED, ("data", "dataset"), {"name": "drawn_events", "like": "tgbn_reddit"})
    data["data"]["stream"] = {"name": "snapshots", "steps": 10}
    monkeypatch.setattr(memory, "available", lambda: 4e9)
    assert told(data) == []
    monkeypatch.setattr(memory, "available", lambda: 2e9)
    assert told(data) == ["data.dataset.scale"]


def test_a_lack_of_memory_is_a_message():
    assert "clients.count" in memory.lacking(MemoryError("Unable to allocate 15 GiB"))
    assert memory.lacking(ValueError("no")) is None


@pytest.mark.long
@pytest.mark.parametrize("path", sorted((ROOT / "scenarios").glob("*.yaml"))[::20], ids=lambda path: path.stem)
def test_no_number_of_a_scenario_makes_its_check_run_out_of_memory(path):
    whole = small(path)
    numbers = [place for place in places(whole) if type(at(whole, place)) in (int, float)]
    for place in numbers:
        for value in HUGE:
            assert limited(partial(told, put(whole, place, value))) == 0, (place, value)


def limited(look):
    """Run in a child of limited memory; return its exit status."""
    child = os.fork()
    if not child:
        status = 1
        try:
            with open("/proc/self/statm", encoding="utf-8") as file:
                now = int(file.read().split()[0]) * resource.getpagesize()
            resource.setrlimit(resource.RLIMIT_AS, (now + ROOM, now + ROOM))
            resource.setrlimit(resource.RLIMIT_CPU, (20, 20))
            look()
            status = 0
        finally:
            os._exit(status)
    return os.waitpid(child, 0)[1]
