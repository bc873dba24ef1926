"""FedProto's formulas by hand: means by numbers of nodes, the pull to them, and what travels."""

import pytest
import torch
from vanishing import CLASSES, HIDDEN, bound, stream, through

from algorithms.fed_proto import FedProto
from algorithms.fedavg import FedAvg
from fedsim.core import wire
from fedsim.learn.algorithm import Reply
from fedsim.learn.engine import tree


def static(client, seed, without=None):
    """A graph whose nodes of one class do not train."""
    graph = stream(client, seed, periods=1)[0]
    return graph if without is None else {**graph, "train": graph["train"] & (graph["y"] != without)}


def told(client, classes, prototypes, counts):
    sent = {
        "classes": torch.tensor(classes, dtype=torch.int32),
        "prototypes": torch.tensor(prototypes),
        "counts": torch.tensor(counts, dtype=torch.int32),
    }
    return Reply(client, 0, {}, sent)


def rows_of(*values):
    return [[float(value)] * HIDDEN for value in values]


def test_global_prototypes_are_means_by_numbers_of_nodes_of_those_who_have_the_class():
    algorithm = bound(FedProto())
    replies = [told(0, [0, 1], rows_of(1, 2), [30, 1]), told(1, [1], rows_of(6), [3])]
    state = algorithm.update(algorithm.start(), replies, "train")
    assert state["prototypes"][:, 0].tolist() == pytest.approx([1.0, (2 + 18) / 4, 0.0])
    assert state["known"].tolist() == [1, 1, 0]
    state = algorithm.update(state, [told(1, [2], rows_of(7), [5])], "train")
    assert state["prototypes"][:, 0].tolist() == pytest.approx([1.0, 5.0, 7.0])  # what nobody tells of stays
    sent = algorithm.download(state, 1, "train")
    assert sent["classes"].tolist() == [0, 1, 2]
    assert algorithm.mass(replies[0]) == 31


def test_the_loss_adds_squared_distances_over_the_classes_that_both_have():
    graph, algorithm = static(0, 0, without=1), bound(FedProto(weight=0.7))
    params = tree.stack([algorithm.task.init()])
    table = torch.randn(1, CLASSES, HIDDEN, generator=torch.Generator().manual_seed(1))
    known = torch.tensor([[1.0, 1.0, 0.0]])
    more = algorithm.loss(params, graph, {"prototypes": table, "known": known}) - algorithm.task.loss(params, graph)
    own = algorithm.task.embed(params, graph)[graph["train"] & (graph["y"] == 0)].mean(0)
    torch.testing.assert_close(more, 0.7 * (own - table[0, 0]).square().mean().reshape(1), rtol=1e-4, atol=1e-6)
    params = tree.transform(lambda leaf: leaf.requires_grad_(True), params)
    pull = algorithm.loss(params, graph, {"prototypes": table, "known": known}) - algorithm.task.loss(params, graph)
    grad = torch.autograd.grad(pull.sum(), params["layer1"]["weight"])[0]
    assert float(grad.abs().max()) > 1e-3


def test_the_first_round_is_cross_entropy_alone():
    streams = [[static(client, 0)] for client in range(2)]
    plain, pulled = (bound(FedProto(weight=weight)) for weight in (0.0, 5.0))
    one, two = (through(algorithm, streams, rounds=1)[1] for algorithm in (plain, pulled))
    assert all(
        torch.equal(a, b) for a, b in zip(tree.leaves(one[0]["local"]), tree.leaves(two[0]["local"]), strict=True)
    )
    one, two = (through(algorithm, streams, rounds=2)[1] for algorithm in (plain, pulled))
    assert not torch.equal(one[0]["local"]["layer1"]["weight"], two[0]["local"]["layer1"]["weight"])


@pytest.mark.parametrize("average", [False, True])
def test_what_travels_to_the_byte(average):
    streams = [[static(0, 0)], [static(1, 0, without=2)]]
    algorithm = bound(FedProto(average=average))
    state, memories, history = through(algorithm, streams, rounds=3)
    floats = 4 * tree.count(state["model"])
    for number, replies in enumerate(history):
        for reply, classes in zip(replies, (3, 2), strict=True):
            known, with_model = (3 if number else 0), average or number == 0
            assert wire.array_bytes(reply.download) == known * (4 * HIDDEN + 4) + with_model * floats
            assert wire.array_bytes(reply.upload) == classes * (4 * HIDDEN + 4 + 4) + average * floats
    assert algorithm.predictor(state, 0, memories[0]) is (state["model"] if average else memories[0]["local"])


def test_without_a_pull_and_with_averages_it_is_federated_averaging():
    streams = [[static(client, 0)] for client in range(2)]
    one, _, _ = through(bound(FedProto(weight=0.0, average=True)), streams, rounds=3)
    two, _, _ = through(bound(FedAvg()), streams, rounds=3)
    for a, b in zip(tree.leaves(one["model"]), tree.leaves(two["model"]), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("seed", [0, 1])
def test_the_pull_brings_the_clients_prototypes_together(seed):
    streams = [[static(client, seed)] for client in range(3)]

    def apart(weight):
        _, _, history = through(bound(FedProto(weight=weight), seed=seed), streams, rounds=6, seed=seed)
        rows = torch.stack([reply.upload["prototypes"] for reply in history[-1]])
        return float((rows - rows.mean(0)).square().sum() / rows.square().sum())

    assert apart(1.0) < 0.5 * apart(0.0)


@pytest.mark.parametrize("average", [False, True])
def test_among_peers_prototypes_are_averaged_over_those_that_have_them(average):
    algorithm = bound(FedProto(average=average))
    one = algorithm.start()
    sent = [{"samples": 1, "update": tree.zeros_like(one["model"])} if average else {}] * 2
    states = [
        algorithm.update(one, [Reply(0, 0, {"model": one["model"]}, {**told(0, *own).upload, **more})], "train")
        for own, more in zip((([0, 1], rows_of(1, 2), [1, 1]), ([1], rows_of(6), [9])), sent, strict=True)
    ]
    mixed = algorithm.mix(states[0], [algorithm.share(state) for state in states], [1.0, 3.0])
    assert mixed["prototypes"][:, 0].tolist() == pytest.approx([1.0, (2 + 18) / 4, 0.0])
    assert mixed["known"].tolist() == [1, 1, 0]
    assert ("model" in algorithm.share(states[0])) is average
    assert mixed["met"] == {0}
