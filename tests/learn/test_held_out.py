"""The split held_out: models of all clients on the nodes that nobody owns."""

import json

import numpy as np
import pytest
import small_points
import torch
from sklearn.metrics import f1_score
from values import client_of, state_of

from fedsim.clock import partition_work
from fedsim.core.errors import ScenarioError
from fedsim.core.record import Recorder
from fedsim.data.time.temporal import Overview
from fedsim.learn.engine import tree
from fedsim.learner.scoring import set_aside
from fedsim.point.build import prepared
from fedsim.point.build.assemble import build

MEASURE = {"metrics": ["macro_f1", "accuracy"], "models": ["local", "global"], "splits": ["test", "held_out"]}
SKEW = {"name": "label_skew", "held": 0.3}
STATIC = {"data__stream": "static", "data__partition": SKEW, "measure": MEASURE}
DYNAMIC = {
    "data__dataset": {"name": "drifting", "nodes": 200, "edges": 600, "classes": 4, "snapshots": 5, "features": 4},
    "data__stream": {"name": "snapshots", "steps": 5, "every": "1 updates"},
    "data__partition": SKEW,
    "protocol": {"name": "sync", "rounds": 3, "participation": 1.0},
    "measure": MEASURE,
}


def made(**changes):
    scenario = small_points.scenario(**changes)
    data = json.dumps(scenario.data.model_dump(mode="json"))
    return prepared.periods_of(data, scenario.clients.count, scenario.seed, "nowhere", "cpu", ("held_out",))


def held_rows(folder):
    return [row for row in small_points.table(folder, "scores") if row["split"] == "held_out"]


@pytest.mark.parametrize("scored", ["ahead", "ahead_split", "split"])
@pytest.mark.parametrize("partition", [SKEW, {"name": "buckets", "slack": 5}])
def test_nobody_owns_in_any_snapshot_what_is_held_out(scored, partition):
    stream = {**DYNAMIC["data__stream"], "scored": scored}
    prepared = made(**{**DYNAMIC, "data__stream": stream, "data__partition": partition})
    ahead = 0 if scored == "split" else 2
    assert len(prepared.apart["held_out"]) == len(prepared.periods[0]) == 5 - ahead
    owned = {
        int(node)
        for own in prepared.periods
        for period in own
        for graph in (period.graph, *period.ahead)
        for node in graph["node"]
    }
    assert len(owned) > 100
    for t, graph in enumerate(prepared.apart["held_out"]):
        snapshot = prepared.overview.snapshots[t + ahead]
        nodes = graph["node"]
        assert graph["test"].all()
        assert len(nodes)
        assert not owned & set(nodes.tolist())
        assert snapshot["arrived"][nodes].all()
        assert torch.equal(graph["x"], snapshot["x"][nodes])
        inside = torch.isin(snapshot["edges"], nodes).all(0)
        assert torch.equal(nodes[graph["edges"]], snapshot["edges"][:, inside])


def test_a_static_graph_has_one_test_set_without_edges_to_clients():
    prepared = made(**STATIC)
    (graph,) = prepared.apart["held_out"]
    assert len(graph["y"]) == 160 - 5 * (112 // 5)
    assert sum(len(own[0].graph["y"]) for own in prepared.periods) == 160 - len(graph["y"])


@pytest.mark.parametrize("changes", [STATIC, DYNAMIC])
def test_each_clients_own_model_is_scored_as_by_hand(tmp_path, changes):
    built = build(small_points.scenario(**changes), tmp_path, recorder := Recorder())
    world, algorithm = built.world, built.learner.algorithm
    world.env.run(until=built.done)
    built.observer.score()
    held = made(**changes).apart["held_out"]
    seen = len(client_of(built, 0).seen)
    rows = [
        row
        for row in small_points.rows(recorder, "scores")
        if row["split"] == "held_out" and row["seen"] == seen and row["version"] == world.server.version
        if row["period"] < row["seen"]
    ]
    assert len(rows) == 5 * seen * 2 * 2
    task, different = algorithm.task, set()
    for row in rows:
        client = row["client"]
        choose = algorithm.personal if row["model"] == "local" else algorithm.predictor
        params = choose(state_of(built, client), client, client_of(built, client).memory)
        graph = held[row["period"]]
        guess = task.forward(tree.stack([params]), graph).argmax(1)
        by_hand = {
            "macro_f1": f1_score(graph["y"], guess, average="macro"),
            "accuracy": float((guess == graph["y"]).float().mean()),
        }
        assert row["value"] == pytest.approx(by_hand[row["metric"]], abs=1e-6)
        assert row["weight"] == len(graph["y"])
        if row["metric"] == "accuracy" and row["period"] == 0:
            different.add((row["model"], row["value"]))
    assert sum(model == "global" for model, _ in different) == 1
    assert sum(model == "local" for model, _ in different) > 1


def test_a_model_that_many_clients_share_is_computed_once(monkeypatch):
    prepared, calls = made(**STATIC), []
    monkeypatch.setattr(set_aside, "_alone", lambda *given: calls.append(given) or ([0.5], 7))
    first, second = {"w": torch.ones(1)}, {"w": torch.ones(1)}
    params = {0: first, 1: second, 2: first}
    clients, periods = np.array([0, 1, 2]), np.zeros(3, dtype=np.int64)
    known, graphs = set_aside.ScoreCache(), prepared.apart["held_out"]
    for _ in range(2):
        values, weights = known.scores(None, params, clients, periods, graphs, ["accuracy"])
        assert len(calls) == 2
        assert values["accuracy"].tolist() == [0.5] * 3
        assert weights.tolist() == [7] * 3
    known.scores(None, {**params, 1: {"w": torch.ones(1)}}, clients[1:], periods[1:], graphs, ["accuracy"])
    assert len(calls) == 3
    known.scores(None, params, clients, periods, graphs, ["accuracy"])
    assert len(calls) == 4  # the second had been forgotten


def test_the_summary_may_tell_of_it(tmp_path):
    measure = {**MEASURE, "splits": ["held_out", "test"]}
    row = small_points.run_in(tmp_path / "point", **{**STATIC, "measure": measure})
    last = [
        one["value"]
        for one in held_rows(tmp_path / "point")
        if (one["version"], one["model"], one["metric"]) == (5, "local", "macro_f1")
    ]
    assert row["score"] == pytest.approx(np.mean(last))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({**STATIC, "data__stream": small_points.PLAIN["data"]["stream"]}, "the streams 'static' and"),
        ({**STATIC, "data__partition": "random"}, "every labelled node has an owner; take a partition"),
        ({**STATIC, "measure": {"splits": ["held_out"]}}, "add 'test' or 'val'"),
        (
            {
                **DYNAMIC,
                "task": "link_prediction",
                "data__partition": "random",
                "data__stream": {**DYNAMIC["data__stream"], "scored": "links"},
                "measure": {"metrics": ["auc"], "splits": ["test", "held_out"]},
            },
            "needs task: node_classification",
        ),
    ],
)
def test_where_there_is_no_such_test_one_line_says_so(tmp_path, changes, message):
    with pytest.raises(ScenarioError) as caught:
        small_points.run_in(tmp_path / "point", **changes)
    (problem,) = caught.value.problems
    assert problem.key == "measure.splits"
    assert message in problem.message


def test_no_node_trains_that_tests_where_shares_divide_what_lies_ahead():
    stream = {**DYNAMIC["data__stream"], "scored": "ahead_split"}
    split = {"train": 0.7, "val": 0.2, "test": 0.1}
    prepared = made(**{**DYNAMIC, "data__stream": stream, "data__split": split})
    masks = {"train": set(), "val": set(), "test": set()}
    for own in prepared.periods:
        for period in own:
            for name, graph in zip(masks, (period.graph, *period.ahead), strict=True):
                masks[name] |= set(graph["node"][graph[name]].tolist())
                assert not any(graph[other].any() for other in masks if other != name)
    assert all(masks.values())
    assert not masks["train"] & masks["val"]
    assert not masks["test"] & (masks["train"] | masks["val"])


def test_a_partition_tells_how_evenly_edges_and_labels_are_divided():
    assert partition_work.variation(np.array([1, 3])) == pytest.approx(0.5)
    assert np.isnan(partition_work.variation(np.zeros(3, dtype=int)))
    owner, labels = np.array([0, 0, 0, 0, 1, 1, -1]), np.array([0, 1, 2, 3, 3, -1, 4])
    assert partition_work.entropy(owner, labels) == pytest.approx((2 + 0) / 2)
    assert np.isnan(partition_work.entropy(np.array([-1, 0]), np.array([1, -1])))
    overview = made(**DYNAMIC).overview
    source, target = overview.owners[2][overview.snapshots[2]["edges"].numpy()]
    own = [int(((source == client) & (target == client)).sum()) // 2 for client in range(5)]
    assert partition_work.edges_within(overview, 2, 5).tolist() == own
    assert sum(own) + partition_work.described(overview, 2, 5, 0.0).cut == len(source) // 2


def test_a_partition_tells_how_labels_are_skewed():
    owner, labels = np.array([0, 0, 0, 0, 1, 1, -1]), np.array([0, 1, 2, 2, 3, -1, 4])
    assert partition_work.majority(owner, labels) == pytest.approx((3 / 4 + 1) / 2)
    assert partition_work.majority(np.array([-1, 0]), np.array([1, -1])) == -1
    prepared = made(**DYNAMIC)
    row = partition_work.described(prepared.overview, 4, 5, 0.0)
    shares = []
    for client in range(5):
        mine = prepared.overview.snapshots[4]["y"].numpy()[prepared.overview.owners[4] == client]
        shares.append(np.sort(np.bincount(mine))[-2:].sum() / len(mine))
    assert row.majority == pytest.approx(np.mean(shares))
    assert row.unowned == 200 - row.nodes == len(prepared.apart["held_out"][-1]["y"])
    assert isinstance(prepared.overview, Overview)
