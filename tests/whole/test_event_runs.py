"""Whole runs of a model of pairs on streams of events: what travels, what is scored, and what is refused before."""

import pytest
import small_points

from fedsim.core.record import SERVER
from fedsim.point.checks import check

DATA = {
    "dataset": {"name": "meetings", "communities": 3, "members": 16, "group": 4, "seconds": 30},
    "partition": "louvain",
    "stream": {"name": "snapshots", "patch": 120, "scored": "events", "every": "1 updates"},
}
EVENTS = {
    "data": DATA,
    "task": {"name": "event_prediction", "batch": 6},
    "model": {"name": "dygformer", "hidden": 6, "channel": 2, "time": 4, "length": 4, "padded": 3},
    "clients": {"count": 3, "speed": "1 MFLOP/s"},
    "protocol": {"name": "sync", "rounds": 5, "participation": 1.0},
    "measure": {"metrics": ["average_precision", "auc"], "models": ["global", "local"], "splits": ["test", "val"]},
}
DRIFTING = {"name": "drifting", "nodes": 90, "edges": 200, "classes": 3, "features": 6}


def tables(folder, **changes):
    return small_points.run_tables(folder, **(EVENTS | changes))


def scores(found):
    return {
        (row["version"], row["client"], row["period"], row["model"], row["split"], row["metric"]): row["value"]
        for row in found["scores"]
        if row["client"] >= 0
    }


def test_every_client_is_scored_on_its_later_events_and_trains_on_those_it_holds(tmp_path):
    found = tables(tmp_path / "run")
    tested = [row for row in found["scores"] if row["split"] == "test" and row["client"] >= 0]
    together = {row["weight"] for row in found["scores"] if row["split"] == "test" and row["client"] < 0}
    assert together == {3 * 2 * 5 * 8}  # of all clients' predictions
    # patches of 5 seconds, six of them, the last two only score; 16 nodes have 8 events a second
    assert {row["period"] for row in tested} == {0, 1, 2, 3}
    assert {row["weight"] for row in tested} == {2 * 5 * 8}
    assert {row["client"] for row in tested} == {0, 1, 2}
    assert all(0 <= row["value"] <= 1 for row in tested)
    assert len({row["value"] for row in tested}) > 10


@pytest.mark.parametrize("algorithm", ["d_fedgnn", {"name": "fed_gcn", "hops": 0}])
def test_an_algorithm_that_asks_nothing_of_a_model_runs_with_pairs(tmp_path, algorithm):
    assert len({row["value"] for row in tables(tmp_path / "run", algorithm=algorithm)["scores"]}) > 10


def test_a_period_is_validated_by_what_tests_the_one_before(tmp_path):
    found = tables(tmp_path / "run")
    values = scores(found)
    last = max(row["version"] for row in found["scores"])
    for client in range(3):
        for period in range(3):
            one = (last, client, period, "global", "test", "auc")
            other = (last, client, period + 1, "global", "val", "auc")
            assert values[one] == values[other]


def test_local_training_sends_nothing_and_ends_elsewhere(tmp_path):
    shared, alone = tables(tmp_path / "shared"), tables(tmp_path / "alone", algorithm="local")
    assert not alone["transfers"]
    first = {key: value for key, value in scores(alone).items() if key[0] == 0}
    assert first == {key: value for key, value in scores(shared).items() if key[0] == 0 and key in first}
    assert scores(alone) != scores(shared)


@pytest.mark.parametrize("algorithm", ["fedavg", "local"])
def test_one_by_one_clients_learn_what_they_learn_together(tmp_path, algorithm):
    together = tables(tmp_path / "union", algorithm=algorithm)
    one_by_one = tables(tmp_path / "loop", algorithm=algorithm, cohort="loop")
    assert together["transfers"] == one_by_one["transfers"]
    ours, theirs = scores(together), scores(one_by_one)
    assert ours.keys() == theirs.keys()
    gaps = [abs(ours[key] - theirs[key]) for key in ours]
    assert sum(gaps) / len(gaps) < 0.01  # constant features make ties, which rounding may break in another way
    assert sorted(gaps)[len(gaps) * 9 // 10] < 1e-6


def test_a_message_of_the_published_size_is_4_35_megabytes(tmp_path):
    data = DATA | {"dataset": DATA["dataset"] | {"features": 172}}
    changes = {
        "data": data, "model": "dygformer", "task": {"name": "event_prediction", "batch": 1},
        "clients": {"count": 1, "speed": "1 TFLOP/s"}, "protocol": {"name": "sync", "rounds": 1, "participation": 1.0},
        "measure": {"metrics": ["auc"], "models": ["global"], "splits": ["test"]},
    }  # fmt: skip
    found = tables(tmp_path / "run", **changes)
    down, up = (next(row["nbytes"] for row in found["transfers"] if row[end] == SERVER) for end in ("src", "dst"))
    floats = 4 * (1_027_522 + 59_513)
    assert floats < down < floats + 3000
    assert round(down / 1e6, 2) == round(up / 1e6, 2) == 4.35


def problems(**changes):
    return [str(problem) for problem in check.points([small_points.point(**(EVENTS | changes))], whole=True)]


def test_what_fits_is_not_refused():
    assert not problems()
    assert not problems(algorithm="local")


LINKS = DATA | {"stream": {"name": "snapshots", "steps": 5, "scored": "links", "every": "1 updates"}}
ON_EVENTS = {"metrics": ["auc"], "models": ["global"]}


@pytest.mark.parametrize(
    ("changes", "key", "words"),
    [
        ({"algorithm": "fed_proto"}, "algorithm", "take fedavg or local"),
        ({"algorithm": "dg_colearn"}, "algorithm", "take fedavg or local"),
        ({"algorithm": "power"}, "algorithm", "take fedavg or local"),
        ({"model": {"name": "gcn", "hidden": 4}}, "model", "take dygformer"),
        ({"task": "link_prediction"}, "task", "take task: event_prediction"),
        ({"task": "link_prediction", "model": "gcn"}, "data.stream.scored", "take task: event_prediction"),
        ({"data": LINKS}, "data.stream", "needs events and their seconds"),
        ({"data": DATA | {"keep": {"fanout": 3}}}, "data.keep.fanout", "reads events"),
        ({"measure": ON_EVENTS | {"splits": ["train"]}}, "measure.splits", "take test or val"),
        ({"measure": ON_EVENTS | {"splits": ["test", "across"]}}, "measure.splits", "take test or val"),
        ({"measure": ON_EVENTS | {"splits": ["test", "all_pairs"]}}, "measure.splits", "take test or val"),
    ],
    ids=str,
)
def test_what_does_not_fit_is_refused_before_the_run(changes, key, words):
    (problem,) = problems(**changes)
    assert problem.startswith((f"{key}:", f"{key} "))
    assert words in problem


def test_data_whose_edges_last_are_refused_when_they_are_loaded(tmp_path):
    with pytest.raises(Exception, match="in this data set edges last"):
        tables(tmp_path / "run", data=DATA | {"dataset": DRIFTING})
