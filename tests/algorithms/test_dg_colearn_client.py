"""The client's half of DG-CoLearn: which layer's rows it sends, whose states wait for whom, what comes too late."""

import numpy as np
import pytest
import torch
from exchanging import LINEAR, Driven, adjacency

from algorithms.dg_colearn import DGCoLearn
from fedsim.learn.algorithm import Job
from fedsim.learn.continual import snapshots
from fedsim.learn.continual.snapshots import forwarded
from fedsim.learn.engine import tree
from fedsim.learn.models.roland import Roland


def finished(driven, job):
    """What the work of a step that trains nothing returns."""
    with pytest.raises(StopIteration) as stop:
        next(driven.algorithm.work(job))
    return stop.value.value


def states_of(driven, client):
    """A client's nodes and their states after its last period."""
    memory = driven.memories[client]
    seen = driven.algorithm.sees(memory, memory["graph"])
    rows = driven.algorithm.task.model.remember(tree.stack([memory["local"]]), seen)
    return dict(zip(memory["graph"]["node"].tolist(), rows, strict=True))


def test_each_of_three_layers_is_corrected_by_the_output_of_the_one_before():
    roland = Roland(hidden=3, norm="mean", layers=3, **{**LINEAR, "activation": "relu"})
    driven = Driven(DGCoLearn(exchange="layerwise", retrain="full"), roland)
    assert driven.round(0) == ["train", "embed", "layer2", "layer3", "correct"]
    (a, _), h, expected = adjacency(driven, 0, "mean"), driven.snapshots[0]["x"], []
    for i in (1, 2, 3):
        layer = driven.memories[0]["local"][f"layer{i}"]
        h = torch.relu(a @ h @ layer["weight"] + layer["bias"])
        expected.append(h)
    for client in range(3):
        for node, row in states_of(driven, client).items():
            torch.testing.assert_close(row, torch.cat(expected, 1)[node], rtol=0, atol=1e-9)


@pytest.mark.parametrize("exchange", ["exact", "layerwise", "full_graph", "fedgcn"])
def test_one_client_exchanges_nothing_even_where_everything_is_asked_for(exchange):
    driven = Driven(DGCoLearn(exchange=exchange, privacy="strict", schedule=2), clients=1)
    for t in range(3):
        assert driven.round(t) == ["train"]


@pytest.mark.parametrize("exchange", ["fedgcn", "paper"])
def test_corrections_that_follow_the_next_period_are_about_the_last(exchange):
    driven = Driven(DGCoLearn(exchange=exchange, retrain="full"))
    driven.round(0)
    graphs = [[period.graph for period in own[:2]] for own in driven.periods]
    for _, step, client, sent, _ in driven.messages:
        if step == "correct":
            known = driven.memories[client]["received"]
            job = Job(client, step, 1, sent, graphs[client][1], {**driven.memories[client], "received": None}, 0)
            finished(driven, job)
            for key, (nodes, rows) in known.items():
                assert torch.equal(job.memory["received"][key][0], nodes)
                assert torch.equal(job.memory["received"][key][1], rows)
    assert any(not torch.equal(before["node"], after["node"]) for before, after in graphs)


def test_states_wait_at_the_server_for_an_owner_that_is_away_the_newest_of_each_node():
    driven = Driven(DGCoLearn(exchange="none"), Roland(hidden=3, norm="sum", **{**LINEAR, "keep": 0.5}))
    driven.round(0)
    owners, away = driven.algorithm.overview.owners, 0
    driven.absent = dict.fromkeys(range(1, 4), away)
    sent = {}
    for t in (1, 2, 3):
        for _ in range(2):
            driven.round(t)
        for at, _, _, _, upload in driven.messages:
            if at == t and "left" in upload:
                sent |= zip(upload["left"]["ids"].tolist(), upload["left"]["states"], strict=True)
    periods_of_left = {t for t, _, _, _, upload in driven.messages if "left" in upload}
    waiting = driven.state["moved"][away]
    assert {v for v in sent if owners[3][v] == away} <= set(waiting["ids"].tolist())
    assert len(periods_of_left) > 1
    for node, row in zip(waiting["ids"].tolist(), waiting["states"], strict=True):
        assert torch.equal(row, sent[node])
    driven.absent = {}
    driven.round(3)
    nodes, rows = driven.memories[away]["states"]
    for node, row in zip(waiting["ids"].tolist(), waiting["states"], strict=True):
        assert torch.equal(rows[nodes == node][0], row)


def test_of_two_rows_that_wait_for_a_client_the_later_one_counts():
    waiting = {1: {"ids": torch.tensor([3, 5], dtype=torch.int32), "states": torch.tensor([[1.0], [2.0]])}}
    left = {"ids": torch.tensor([5, 6, 7], dtype=torch.int32), "states": torch.tensor([[7.0], [8.0], [9.0]])}
    found = forwarded(waiting, left, np.array([0, 0, 0, 1, 0, 1, 2, -1]))
    assert {client: (rows["ids"].tolist(), rows["states"].tolist()) for client, rows in found.items()} == {
        1: ([3, 5], [[1.0], [7.0]]),
        2: ([6], [[8.0]]),
    }


def test_states_left_before_the_first_epoch_go_with_the_training_and_once():
    driven = Driven(DGCoLearn(schedule=1), Roland(hidden=3, norm="sum", **{**LINEAR, "keep": 0.5}))
    driven.round(0)
    for _ in range(2):
        driven.round(1)
    told = [(step, upload["left"]["ids"].tolist()) for t, step, _, _, upload in driven.messages if "left" in upload]
    owners = driven.algorithm.overview.owners
    gone = [v for v in range(60) if owners[0][v] not in (-1, owners[1][v])]
    assert {step for step, _ in told} == {"train"}
    assert sorted(node for _, ids in told for node in ids) == gone != []


def test_what_was_sent_of_a_node_is_forgotten_with_it_so_that_it_is_sent_when_it_comes_back():
    driven = Driven(DGCoLearn())
    driven.round(0)
    before = [memory["sent"][0] for memory in driven.memories]
    lost = 0
    for client, sent in enumerate(before):
        driven._ask(1, client, "train")
        own = driven.periods[client][1].graph["node"]
        kept = sent[torch.isin(sent, own)]
        assert torch.equal(driven.memories[client]["sent"][0], kept)
        lost += len(sent) - len(kept)
    assert lost > 0


def test_on_a_later_graph_what_its_change_does_not_reach_keeps_the_states_it_has():
    driven = Driven(DGCoLearn(exchange="none"), moving=False)
    driven.round(0)
    kept = reached = 0
    for memory, periods in zip(driven.memories, driven.periods, strict=True):
        now, later = memory["graph"], periods[1].graph
        seen = driven.algorithm.sees(memory, later)
        there = torch.isin(later["node"], now["node"])
        stays = ~snapshots.near(later, 2) & there
        assert torch.equal(seen["halo"], stays)
        after = driven.algorithm.task.model.remember(tree.stack([memory["local"]]), seen)
        assert torch.equal(after[stays], seen["state"][stays])
        kept, reached = kept + int(stays.sum()), reached + int((~stays & there).sum())
    assert kept > 0
    assert reached > 0
