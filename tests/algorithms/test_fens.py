"""FENS: bytes of every exchange, frozen models, and an ensemble that knows what no single model does."""

from dataclasses import replace

import pytest
import torch
from camps import gap
from one_shots import (
    CLASSES,
    NUMBERS,
    accuracy,
    exchanged,
    made,
    of_classes,
    one_round,
    relabelled,
    skewed,
    without_training,
)

from algorithms.fedavg import FedAvg
from algorithms.fens import FENS
from algorithms.fens.ensemble import dequantised
from fedsim.core import wire
from fedsim.learn.algorithm import Job, Reply
from fedsim.learn.engine import tree

SMALL = NUMBERS + 8 * 4  # bytes of a model in eight bits


def aggregated(members, width):
    return members * CLASSES * width + width + width * CLASSES + CLASSES


def test_messages_have_the_bytes_of_the_formulas():
    algorithm, graphs = made(FENS(aggregator_rounds=3, width=5)), skewed(0)[0]
    _, history = one_round(algorithm, graphs)
    assert [step for step, _ in history] == ["models", "weigh", "weigh", "train"]
    moved = 0
    for number, (_, replies) in enumerate(history):
        downs = {wire.array_bytes(reply.download) for reply in replies}
        ups = {wire.array_bytes(reply.upload) for reply in replies}
        light = 4 * aggregated(4, 5)
        assert downs == {0 if number == 0 else light + (4 * SMALL if number == 1 else 0)}
        assert ups == {SMALL if number == 0 else light}
        assert all(number == 0 or isinstance(reply.upload["samples"], int) for reply in replies)  # takes 8 bytes
        moved += downs.pop() + ups.pop() + (8 if number else 0)
    assert moved == (4 + 1) * SMALL + 3 * (8 * aggregated(4, 5) + 8)


def test_models_are_sent_until_a_reply_shows_that_they_are_there():
    algorithm, (graphs, _) = made(FENS(aggregator_rounds=3)), skewed(0)
    memories = {}
    state, _ = exchanged(algorithm, algorithm.start(), graphs, memories, "models")
    for _ in range(2):
        assert algorithm.download(state, 1, "weigh")["members"] is state["members"]
    state, _ = exchanged(algorithm, state, {0: graphs[0]}, memories, "weigh")
    assert "members" not in algorithm.download(state, 0, "weigh")
    assert "members" in algorithm.download(state, 1, "weigh")
    state, _ = exchanged(algorithm, state, {0: graphs[0]}, memories, "models")  # a new round: other models
    assert len(algorithm.download(state, 0, "weigh")["members"]) == 1


def test_who_has_nothing_to_train_on_neither_sends_nor_is_sent_anything():
    algorithm, graphs = made(FENS(aggregator_rounds=2)), skewed(0)[0]
    graphs[1] = without_training(graphs[1])
    state, history = one_round(algorithm, graphs)
    for _, replies in history:
        assert (replies[1].download, replies[1].upload) == ({}, {})
    assert list(state["model"]["members"]) == ["0", "1", "2"]
    alone, _ = one_round(algorithm, {1: graphs[1]})
    assert gap(alone["model"], algorithm.start()["model"]) == 0


def test_members_stay_as_they_were_sent_and_the_last_exchange_makes_the_model():
    algorithm, graphs = made(FENS(aggregator_rounds=3)), skewed(0)[0]
    memories, state = {}, algorithm.start()
    first = state["model"]
    for step in algorithm.steps(state):
        assert gap(state["model"], first) == 0
        before = state
        state, replies = exchanged(algorithm, state, graphs, memories, step)
        assert (step in algorithm.prepares) == (step != "train")
        if step == "models":
            sent = [reply.upload["model"] for reply in replies]
        else:
            assert gap(state["aggregator"], before["aggregator"]) > 1e-3
    for place, model in enumerate(sent):
        assert gap(state["model"]["members"][str(place)], dequantised(model)) == 0
        step = max(float(leaf.max() - leaf.min()) for leaf in tree.leaves(memories[place]["local"])) / 255
        assert 0 < gap(state["model"]["members"][str(place)], memories[place]["local"]) <= 0.51 * step
    assert gap(state["model"]["aggregator"], state["aggregator"]) == 0


def test_the_aggregator_moves_by_the_mean_weighted_by_training_nodes():
    algorithm, graphs = made(FENS()), skewed(0)[0]
    state, _ = exchanged(algorithm, algorithm.start(), graphs, {}, "models")
    ones = tree.transform(torch.ones_like, state["aggregator"])
    replies = [
        Reply(0, 0, {}, {"update": ones, "samples": 3}),
        Reply(1, 0, {}, {"update": tree.scale(ones, 5.0), "samples": 1}, 0.5),
        Reply(2, 0, {}, {}),
    ]
    moved = tree.sub(algorithm.update(state, replies, "weigh")["aggregator"], state["aggregator"])
    assert gap(moved, tree.scale(ones, 0.75 + 0.25 * 0.5 * 5)) < 1e-5


def test_no_label_but_of_training_nodes_enters_what_is_sent():
    algorithm, graphs = made(FENS(aggregator_rounds=2)), skewed(1)[0]
    _, one = one_round(algorithm, graphs)
    _, other = one_round(algorithm, {c: relabelled(data) for c, data in graphs.items()})
    trained = {c: {**data, "y": (data["y"] + 1) % CLASSES} for c, data in graphs.items()}
    for data in trained.values():
        data.pop("layout", None)
    _, third = one_round(algorithm, trained)
    for (_, mine), (_, same), (_, others) in zip(one, other, third, strict=True):
        for a, b, c in zip(mine, same, others, strict=True):
            assert all(torch.equal(p, q) for p, q in zip(tree.leaves(a.upload), tree.leaves(b.upload), strict=True))
            assert (
                gap(tree.transform(torch.Tensor.float, a.upload), tree.transform(torch.Tensor.float, c.upload)) > 0.01
            )


@pytest.mark.long
@pytest.mark.parametrize("seed", range(3))
def test_the_ensemble_knows_what_neither_a_member_nor_the_mean_of_models_knows(seed):
    graphs, unseen = skewed(seed)
    algorithm = made(FENS(aggregator_rounds=10, aggregator_steps=30, width=16), seed)
    memories = {}
    state, _ = one_round(algorithm, graphs, memories, seed=seed, steps=30)
    reached = accuracy(algorithm, state["model"], unseen)
    members = [accuracy(algorithm, memories[c]["local"], unseen) for c in graphs]
    plain = made(FedAvg(), seed)
    averaged = accuracy(plain, one_round(plain, graphs, seed=seed, steps=30)[0]["model"], unseen)
    untrained = {**state["model"], "aggregator": algorithm.fresh(4, 1)}
    assert reached > max(members) + 0.2
    assert reached > accuracy(algorithm, untrained, unseen) + 0.2
    assert reached > averaged + 0.08


def test_the_aggregator_takes_its_own_number_of_steps_and_never_more_than_a_model():
    algorithm, graphs = made(FENS(aggregator_rounds=2, aggregator_steps=7)), skewed(0)[0]
    state, memories = algorithm.start(), {}
    state, _ = exchanged(algorithm, state, graphs, memories, "models")
    job = Job(0, "weigh", 0, algorithm.download(state, 0, "weigh"), graphs[0], dict(memories[0]), 0)
    assert next(algorithm.work(job)).steps == (0, 7)
    assert made(FENS(aggregator_steps=100)).taken == 30


def test_a_second_round_trains_the_models_further():
    algorithm, graphs = made(FENS(aggregator_rounds=1)), skewed(0)[0]
    memories = {}
    state, _ = one_round(algorithm, graphs, memories, steps=3)
    before = {c: memories[c]["local"] for c in graphs}
    again, history = one_round(algorithm, graphs, memories, state, steps=3, seed=1)
    assert gap(memories[0]["local"], before[0]) < 0.2  # three steps of 0.02: not begun anew
    assert gap(again["model"]["members"]["0"], state["model"]["members"]["0"]) > 0.01
    assert "members" in history[1][1][0].download


def test_both_models_can_be_scored_before_anything_is_trained():
    algorithm = made(FENS())
    state = algorithm.start()
    data = of_classes([0, 1, 2, 3], 3)
    assert algorithm.task.forward(tree.stack([algorithm.predictor(state, 0, {})]), data).shape == (40, CLASSES)
    assert algorithm.task.forward(tree.stack([algorithm.personal(state, 0, {})]), data).shape == (40, CLASSES)
    assert algorithm.common(state) is state["model"]


def test_the_clock_is_charged_the_aggregator_and_one_pass_through_all_models():
    algorithm, graphs = made(FENS(width=5, aggregator_steps=5)), skewed(0)[0]
    memories = {}
    state, _ = exchanged(algorithm, algorithm.start(), graphs, memories, "models")
    data, n = graphs[0], int(graphs[0]["train"].sum())
    job = Job(0, "weigh", 0, algorithm.download(state, 0, "weigh"), data, dict(memories[0]), 0)
    assert algorithm.effort(job) * algorithm.task.flops(data) == pytest.approx(3 * 2 * n * (4 * 4 * 5 + 5 * 4) * 5 / 30)
    assert algorithm.extra_steps(job) == pytest.approx(4 / 3)
    state, _ = exchanged(algorithm, state, graphs, memories, "weigh")
    later = replace(job, download=algorithm.download(state, 0, "weigh"), memory=dict(memories[0]))
    assert algorithm.extra_steps(later) == 0
    assert algorithm.extra_steps(replace(later, period=1)) == pytest.approx(4 / 3)
    assert algorithm.effort(replace(job, step="models")) == 1
    assert algorithm.effort(replace(job, download={})) == 0
