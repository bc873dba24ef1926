"""Incremental FedGCN: whole sums in the features' place, kept until something changes, and then told anew."""

import numpy as np
import pytest
import torch
from exchanging import Driven, adjacency, shared_out

from algorithms.dg_colearn import DGCoLearn
from fedsim.data.graph import Graph, Period
from fedsim.learn.models.roland import Roland


def fedgcn(privacy="paper", **options):
    return Driven(DGCoLearn(exchange="fedgcn", privacy=privacy), Roland(hidden=3, norm="sum"), **options)


def told(driven):
    """The sums (nodes, rows) that all clients have now, and the nodes that have any."""
    rows = [memory["received"]["x"] for memory in driven.memories if memory["received"]]
    return torch.cat([own for own, _ in rows]), torch.cat([sums for _, sums in rows])


def sent(driven, t):
    """The nodes that the corrections of a period were for."""
    return torch.cat([down["ids"] for at, step, _, down, _ in driven.messages if (at, step) == (t, "correct")])


@pytest.mark.parametrize("moving", [False, True])
@pytest.mark.parametrize("norm", ["sum", "mean", "sym"])
def test_whole_sums_are_those_of_now_whoever_was_told_them_when(norm, moving):
    driven = Driven(DGCoLearn(exchange="fedgcn"), Roland(hidden=3, norm=norm), moving=moving)
    kept = 0
    for t, snapshot in enumerate(driven.snapshots):
        driven.round(t)
        nodes, rows = told(driven)
        a, _ = adjacency(driven, t, norm)
        torch.testing.assert_close(rows, (a @ snapshot["x"])[nodes], rtol=0, atol=1e-9)
        assert set(driven.state["seen"].cut.border.nonzero().flatten().tolist()) <= set(nodes.tolist())
        assert len(sent(driven, t)) > 0
        kept += len(nodes) - len(sent(driven, t))
    assert kept > 0  # or all was told anew each time


def test_until_they_are_told_anew_sums_stay_in_training_and_in_later_graphs():
    driven = fedgcn(moving=False)
    driven.round(0)
    before = {int(v): row for v, row in zip(*told(driven), strict=True)}
    later = [driven.algorithm.sees(driven.memories[k], driven.periods[k][1].graph) for k in range(3)]
    for k in range(3):
        driven._ask(1, k, "train")
    kept = []
    for k in range(3):
        graph, trained = driven.periods[k][1].graph, driven.memories[k]["data"][3]
        for seen in (later[k], trained):
            kept.append(sum(node in before for node in seen["node"].tolist()))
            for node, x in zip(seen["node"].tolist(), seen["x"], strict=True):
                own = graph["x"][graph["node"] == node][0]
                torch.testing.assert_close(x.double(), before.get(node, own), rtol=0, atol=1e-5)
    assert min(sum(kept[::2]), sum(kept[1::2])) > 0


def without_cut_edges_of_one_node(driven, t):
    """Take a node's cut edges away from snapshot t on; return the node."""
    snapshots, owner = driven.algorithm.overview.snapshots, torch.from_numpy(driven.algorithm.overview.owners[t])
    source, target = snapshots[t]["edges"]
    node = int(source[owner[source] != owner[target]][0])
    for snapshot in snapshots[t:]:
        source, target = snapshot["edges"]
        gone = (owner[source] != owner[target]) & ((source == node) | (target == node))
        snapshot["changed"] = snapshot["changed"].clone()
        snapshot["changed"][source[gone]] = True
        snapshot["edges"] = snapshot["edges"][:, ~gone]
    return node


def test_a_node_that_is_no_more_at_the_cut_has_the_sum_that_is_left():
    driven = fedgcn(moving=False)
    node = without_cut_edges_of_one_node(driven, 1)
    for t in range(2):
        driven.round(t)
        nodes, rows = told(driven)
        a, _ = adjacency(driven, t, "sum")
        whole = (a @ driven.snapshots[t]["x"])[node]
        torch.testing.assert_close(rows[nodes == node][0], whole, rtol=0, atol=1e-9)
    assert not driven.state["seen"].cut.border[node]


def test_once_everything_is_one_clients_its_sums_are_told_a_last_time(monkeypatch):
    def merging(snapshots, clients, moving, rng):
        owned = shared_out(snapshots, clients, moving, rng)
        return [owned[0], *([np.sort(np.concatenate(own)), *[own[0][:0]] * (clients - 1)] for own in owned[1:])]

    monkeypatch.setattr("exchanging.shared_out", merging)
    driven = fedgcn(moving=False)
    assert driven.round(0) == driven.round(1) == ["train", "embed", "correct"]
    nodes, rows = driven.memories[0]["received"]["x"]
    a, _ = adjacency(driven, 1, "sum")
    torch.testing.assert_close(rows, (a @ driven.snapshots[1]["x"])[nodes], rtol=0, atol=1e-9)
    assert len(nodes) > 0
    assert driven.round(1) == ["train"]


def still(driven):
    """The same with a second snapshot that is the first one, where nothing has changed."""
    driven.snapshots[1] = {**driven.snapshots[0], "changed": torch.zeros_like(driven.snapshots[0]["changed"])}
    for own in driven.periods:
        own[1] = Period(1, Graph(**{**own[0].graph, "changed": torch.zeros_like(own[0].graph["changed"])}))
    return driven


def test_where_nothing_changes_nothing_is_told_again():
    driven = still(fedgcn(moving=False))
    assert driven.round(0) == ["train", "embed", "correct"]
    before = told(driven)
    assert driven.round(1) == ["train"]
    assert all(map(torch.equal, before, told(driven)))


def test_who_was_away_is_notified_when_it_is_back():
    driven = still(fedgcn(moving=False, absent={0: 2}))
    driven.round(0)
    assert driven.round(1) == ["train", "embed", "correct"]
    sums = {client: down["ids"] for t, step, client, down, _ in driven.messages if (t, step) == (1, "correct")}
    assert len(sums[2]) > 0
    assert torch.equal(driven.memories[2]["received"]["x"][0], sums[2].long())
