"""DG-CoLearn on later snapshots: what clients exchange to predict there completes the sums of the whole graph."""

import pytest
import small_points
import torch
from exchanging import LINEAR, Driven, adjacency

from algorithms.dg_colearn import DGCoLearn
from fedsim.core import wire
from fedsim.learn.engine import tree
from fedsim.learn.job import Sight
from fedsim.learn.models.roland import Roland

NOW, LATER = 0, 2
WAYS = ("exchanged_up", "exchanged_down")


def driven(moving=True, norm="sum", activation="none", **options):
    """Clients after two rounds of the present snapshot; `options` are the algorithm's."""
    model = Roland(hidden=3, norm=norm, **{**LINEAR, "activation": activation})
    found = Driven(DGCoLearn(**options), model, moving=moving)
    found.round(NOW)
    found.round(NOW)
    return found


def seen(run, period=LATER):
    """What all clients see of that snapshot, under the server's model."""
    sights = [
        Sight(k, period, own[period].graph, run.state["model"], run.state, run.memories[k])
        for k, own in enumerate(run.periods)
    ]
    return run.algorithm.sees_all(sights)


def states(run, graph):
    return run.algorithm.task.model.remember(tree.stack([run.state["model"]]), graph)


def centralised(run, norm, activation):
    """Two layers on the whole later graph: the states (N, 2H)."""
    params, (a, local) = run.state["model"], adjacency(run, LATER, norm)
    first = activation(a @ run.snapshots[LATER]["x"] @ params["layer1"]["weight"] + params["layer1"]["bias"])
    second = a @ first @ params["layer2"]["weight"] + params["layer2"]["bias"]
    if run.algorithm.exchange == "exact":  # r goes through the first weight without its bias
        n = run.graph.nodes
        second -= ((a - local) @ params["layer1"]["bias"].expand(n, 3)) @ params["layer2"]["weight"]
    return torch.cat([first, activation(second)], 1)


@pytest.mark.parametrize("norm", ["sum", "mean", "sym"])
@pytest.mark.parametrize("privacy", ["paper", "strict"])
@pytest.mark.parametrize(("exchange", "activation"), [("layerwise", "relu"), ("exact", "none")])
def test_a_later_graph_is_scored_as_by_a_central_model(norm, privacy, exchange, activation):
    run = driven(norm=norm, activation=activation, exchange=exchange, retrain="full", privacy=privacy)
    whole = centralised(run, norm, torch.relu if activation == "relu" else lambda h: h)
    without = 0.0
    for k, one in enumerate(seen(run)):
        own = run.periods[k][LATER].graph
        torch.testing.assert_close(states(run, one.graph), whole[own["node"]], rtol=0, atol=1e-9)
        bare = states(run, run.algorithm.sees(run.memories[k], own))
        without = max(without, float((bare - whole[own["node"]]).abs().max()))
    assert without > 0.1  # or the exchange would have had nothing to do


def test_incremental_clients_get_the_same_sums_where_a_change_reaches():
    full, part = (driven(exchange="exact", retrain=each) for each in ("full", "incremental"))
    kept = 0
    for one, other in zip(seen(full), seen(part), strict=True):
        near = ~other.graph["halo"]
        kept += int((~near).sum())
        torch.testing.assert_close(
            states(full, one.graph)[near, :3], states(part, other.graph)[near, :3], rtol=0, atol=1e-9
        )
    assert kept > 0


def test_the_exchange_is_billed_to_the_byte():
    run = driven(moving=False, exchange="exact")
    cut = run.state["seen"].at(LATER).cut
    server = run.state["seen"].ahead(LATER)
    for k, one in enumerate(seen(run)):
        ids = server.nodes(k, server.due & cut.border).int()
        x = run.snapshots[LATER]["x"][ids.long()]
        sent, row = run.memories[k]["sent"], dict[int, torch.Tensor]()
        row = dict(zip(sent[0].tolist(), sent[1], strict=True))
        new = torch.tensor(
            [v not in row or not torch.equal(row[v], one) for v, one in zip(ids.tolist(), x, strict=True)]
        )
        up = {"ids": ids, "fresh": ids[new], "h0": x[new], "turn": 0, "h1": x}
        assert one.up == wire.size(up)
        told = server.nodes(k, server.around & cut.border).int()
        rows = run.snapshots[LATER]["x"][told.long()]
        asks = {"period": LATER, "ids": ids, "heard": 0}
        assert one.down == wire.size(asks) + wire.size({"period": LATER, "ids": told, "delta1": rows, "far": rows})


def test_hiding_the_cut_costs_more_and_no_exchange_nothing():
    plain, strict, layers = (
        sum(one.up + one.down for one in seen(driven(**options)))
        for options in ({}, {"privacy": "strict"}, {"exchange": "layerwise"})
    )
    assert 0 < plain < strict
    assert layers > 0
    assert [(one.up, one.down) for one in seen(driven(exchange="none"))] == [(0, 0)] * 3
    assert [(one.up, one.down) for one in seen(driven(), NOW)] == [(0, 0)] * 3


@pytest.mark.parametrize("exchange", ["exact", "paper", "layerwise", "full_graph", "fedgcn"])
def test_scoring_leaves_no_trace(exchange):
    run = driven(exchange=exchange)
    memories = [dict(memory) for memory in run.memories]
    rows = dict(run.state["seen"].rows)
    seen(run)
    for before, after in zip(memories, run.memories, strict=True):
        assert before.keys() == after.keys()
        assert all(before[key] is after[key] for key in before)
    assert all(rows[key] is run.state["seen"].rows[key] for key in rows)


def test_fedgcn_renews_the_whole_sums_that_are_outdated():
    run = driven(exchange="fedgcn", retrain="full", moving=False)
    a, _ = adjacency(run, LATER, "sum")
    sums = a @ run.snapshots[LATER]["x"]
    border = run.state["seen"].at(LATER).cut.border
    for k, one in enumerate(seen(run)):
        own = run.periods[k][LATER].graph["node"]
        at = border[own]
        assert at.any()
        torch.testing.assert_close(one.graph["x"][at], sums[own][at], rtol=0, atol=1e-9)


def test_who_has_never_worked_takes_no_part():
    run = driven()
    run.memories[1] = {}
    found = seen(run)
    assert (found[1].up, found[1].down) == (0, 0)
    assert found[1].graph is run.periods[1][LATER].graph
    assert found[0].up > 0


@pytest.mark.long
def test_bills_are_beside_the_scores_and_not_in_the_traffic(tmp_path):
    data = {"name": "drifting", "nodes": 80, "edges": 120, "classes": 3, "features": 5, "snapshots": 5}
    shared = {
        "data__dataset": data, "data__partition": "random", "clients__count": 3,
        "data__stream": {"name": "snapshots", "steps": 5, "every": "2 updates"},
        "model": {"name": "roland", "hidden": 4, "norm": "sum"},
        "algorithm": {"name": "dg_colearn", "rounds": 2},
        "protocol": {"name": "sync", "rounds": 6, "participation": 1.0},
    }  # fmt: skip
    traffic = []
    for splits in (["test", "val"], ["train"]):
        folder = tmp_path / splits[0]
        small_points.run_in(folder, **shared, measure={"metrics": ["accuracy"], "splits": splits})
        rows = small_points.table(folder, "scores")
        traffic.append(small_points.table(folder, "transfers"))
        bills = [row for row in rows if row["metric"] in WAYS]
        assert {row["split"] for row in bills} == set(splits)
        assert {(row["client"], row["metric"]) for row in bills} == {(k, way) for k in range(3) for way in WAYS}
        assert all(row["value"] > 0 and row["weight"] == 1 for row in bills)
        if splits == ["train"]:  # only when a period has just arrived is it later than what the client has worked on
            assert all(row["period"] == row["seen"] for row in bills)
    assert traffic[0] == traffic[1]
