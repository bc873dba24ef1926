"""FedDGL's weights, losses, messages and limits, each against what the equations say."""

import math

import pytest
import torch
from vanishing import CLASSES, HIDDEN, bound, stream, through

from algorithms.fedavg import FedAvg
from algorithms.feddgl import FedDGL, sensitive
from fedsim.core import wire
from fedsim.core.errors import ScenarioError
from fedsim.learn.algorithm import Reply
from fedsim.learn.engine import layout, tree
from fedsim.learn.models.gcn import GCN

OFF = {"use_kd": False, "use_gp": False, "use_pa": False}


def static(client, seed, without=None):
    """A graph that does not change; its nodes of one class do not train."""
    graph = dict(stream(client, seed, periods=1)[0])
    del graph["node"]
    if without is not None:
        graph["train"] = graph["train"] & (graph["y"] != without)
    return graph


def told(algorithm, client, classes, prototypes, number=0.0):
    """A reply with these prototypes, whose model is the first one plus a number."""
    start = algorithm.start()["model"]
    update = tree.transform(lambda leaf: torch.full_like(leaf, number), start)
    sent = {"classes": torch.tensor(classes, dtype=torch.int32), "prototypes": prototypes, "update": update}
    return Reply(client, 0, {"model": start}, sent)


def sum_of(model):
    return sum(float(leaf.sum()) for leaf in tree.leaves(model))


def assert_same(one, other, **tolerance):
    for a, b in zip(tree.leaves(one), tree.leaves(other), strict=True):
        torch.testing.assert_close(a, b, **tolerance)


# ---- λ


def votes(algorithm, table, rows):
    return [algorithm.vote({"classes": torch.tensor(c, dtype=torch.int32), "prototypes": p}, table) for c, p in rows]


def shares(algorithm, found):
    state = {"votes": dict(enumerate(found)), "total": sum(found)}
    return [algorithm.share_of(state, client) for client in range(len(found))]


def test_shares_are_cosines_over_their_sum_and_those_of_absent_classes_do_not_count():
    table = torch.eye(4)[:3]
    rows = [
        ([0, 1], torch.tensor([[1.0, 1, 0, 0], [0, 1, 1, 0]])),
        ([2], torch.tensor([[0.0, 3, 4, 0]])),
        ([0], torch.tensor([[-2.0, 0, 0, 0]])),
        ([], torch.zeros(0, 4)),
    ]
    algorithm = FedDGL()
    found = votes(algorithm, table, rows)
    assert found == pytest.approx([2 / math.sqrt(4) / math.sqrt(2), 0.8, 1e-6, 1e-6])
    lambdas = shares(algorithm, found)
    assert sum(lambdas) == pytest.approx(1)
    assert lambdas[1] == pytest.approx(0.8 / sum(found))
    soft = shares(FedDGL(weigh="softmax", beta=0.5), votes(FedDGL(weigh="softmax", beta=0.5), table, rows))
    weights = [math.exp(0.5 * cosine) for cosine in (1 / math.sqrt(2), 0.8, -1.0, 0.0)]
    assert soft == pytest.approx([weight / sum(weights) for weight in weights])


@pytest.mark.parametrize("weigh", ["cosine", "softmax"])
def test_equal_cosines_give_equal_shares_and_a_scale_stops_at_one(weigh):
    assert shares(FedDGL(weigh=weigh), [0.7] * 5) == pytest.approx([0.2] * 5)
    assert shares(FedDGL(weigh=weigh, lambda_scale=3.0), [0.7] * 5) == pytest.approx([0.6] * 5)
    assert shares(FedDGL(weigh=weigh, lambda_scale=9.0), [0.7] * 5) == [1.0] * 5
    assert shares(FedDGL(), [1e-6] * 4) == pytest.approx([0.25] * 4)


def test_the_client_mixes_its_own_model_with_the_mean_and_the_server_predicts_with_the_same():
    algorithm = bound(FedDGL(epochs=2))
    rows = torch.randn(2, HIDDEN, generator=torch.Generator().manual_seed(0))
    replies = [told(algorithm, 0, [0, 1], rows, 1.0), told(algorithm, 1, [0, 1], rows, 3.0)]
    state = algorithm.update(algorithm.start(), replies, "train")
    first, count = sum_of(algorithm.start()["model"]), tree.count(state["model"])
    assert sum_of(state["model"]) == pytest.approx(first + 2 * count, rel=1e-4)
    share = algorithm.download(state, 0, "train")["share"]
    assert share == pytest.approx(0.5)
    mixed = [sum_of(algorithm.predictor(state, client, {})) for client in range(3)]
    assert mixed == pytest.approx([first + number * count for number in (1.5, 2.5, 2.0)], rel=1e-4)
    plain = bound(FedDGL(use_pa=False, epochs=2))
    state = plain.update(plain.start(), replies, "train")
    assert plain.predictor(state, 0, {}) is state["model"]
    assert "share" not in plain.download(state, 0, "train")


def test_among_peers_a_share_is_one_of_all_whose_models_were_averaged():
    algorithm = bound(FedDGL(epochs=2))
    rows = torch.randn(2, HIDDEN, generator=torch.Generator().manual_seed(0))
    states = [
        algorithm.update(algorithm.start(), [told(algorithm, client, [0, 1], rows, 4.0 * client)], "train")
        for client in range(2)
    ]
    assert [algorithm.share_of(state, client) for client, state in enumerate(states)] == [1.0, 1.0]
    mixed = algorithm.mix(states[0], [algorithm.share(state) for state in states], [1.0, 1.0])
    assert algorithm.share_of(mixed, 0) == pytest.approx(states[0]["total"] / sum(s["total"] for s in states))
    assert algorithm.share_of(mixed, 0) < 0.9
    first, count = sum_of(algorithm.start()["model"]), tree.count(mixed["model"])
    own = 2.0 * (1 - algorithm.share_of(mixed, 0)) * count
    assert sum_of(algorithm.predictor(mixed, 0, {})) == pytest.approx(first + own, rel=1e-3)
    assert set(bound(FedDGL(use_pa=False)).share(states[0])) == {"model"}


# ---- prototypes


def test_a_class_that_a_client_lacks_enters_nothing():
    graphs = [[static(0, 0, without=2)], [static(1, 0)]]
    algorithm = bound(FedDGL(epochs=2), GCN(hidden=HIDDEN, dropout=0.0), classes=4)
    state, _, history = through(algorithm, graphs, rounds=1)
    assert [reply.upload["classes"].tolist() for reply in history[0]] == [[0, 1], [0, 1, 2]]
    assert not state["table"][3].any()  # nobody has it
    assert state["table"][:3].any(1).all()
    other = {**state, "table": state["table"].index_fill(0, torch.tensor([2, 3]), 7.0)}
    assert algorithm.vote(history[0][0].upload, other["table"]) == algorithm.vote(history[0][0].upload, state["table"])
    params = tree.stack([state["model"]])
    losses = [
        algorithm.loss(params, graphs[0][0], {"held": nobody(algorithm, graphs[0][0]), "prototypes": s["table"][None]})
        for s in (state, other)
    ]
    assert torch.equal(*losses)


def nobody(algorithm, graph):
    return sensitive.nobody(algorithm.task, graph)


@pytest.mark.parametrize("sign", ["corrected", "literal"])
def test_the_pull_is_the_mean_over_own_classes_and_reaches_the_weights(sign):
    graph = static(0, 0, without=1)
    algorithm = bound(FedDGL(sign=sign, w_p=2.0))
    table = torch.randn(1, CLASSES, HIDDEN, generator=torch.Generator().manual_seed(3))
    params = tree.transform(lambda leaf: leaf.requires_grad_(True), tree.stack([algorithm.task.init()]))
    held = nobody(algorithm, graph)
    pulled = algorithm.loss(params, graph, {"held": held, "prototypes": table})
    plain = algorithm.loss(params, graph, {"held": held, "prototypes": None})
    torch.testing.assert_close(plain, algorithm.task.loss(params, graph))
    h, apart = algorithm.task.embed(params, graph).detach(), []
    for label in (0, 2):
        mean = h[graph["train"] & (graph["y"] == label)].mean(0)
        cosine = float(mean @ table[0, label] / mean.norm() / table[0, label].norm())
        apart.append(1 - cosine if sign == "corrected" else cosine)
    assert (pulled - plain).item() == pytest.approx(2 * sum(apart) / 2, rel=1e-3)
    grads = torch.autograd.grad((pulled - plain).sum(), list(params["layer1"].values()))
    assert all(float(grad.abs().max()) > 1e-4 for grad in grads)


def agreement(sign, seed):
    """The mean cosine between what clients sent last and the global prototypes of the same classes."""
    streams = [[static(client, seed)] for client in range(3)]
    algorithm = bound(FedDGL(sign=sign, epochs=20, rate=0.1, w_p=3.0), seed=seed)
    state, _, history = through(algorithm, streams, rounds=6, seed=seed)
    return sum(
        float(torch.cosine_similarity(r.upload["prototypes"], state["table"][r.upload["classes"].long()]).mean())
        for r in history[-1]
    ) / len(history[-1])


@pytest.mark.parametrize("seed", [0, 1])
def test_the_corrected_sign_brings_local_and_global_prototypes_together_in_a_run(seed):
    assert agreement("corrected", seed) > 0.7
    assert agreement("literal", seed) < 0.0


# ---- distillation


@pytest.mark.parametrize("reduce", ["mean", "sum"])
def test_the_distillation_is_cross_entropy_and_distance_of_unit_embeddings(reduce):
    graph = static(0, 0)
    algorithm = bound(FedDGL(reduce=reduce, gamma=0.3, w_kd=2.0))
    rows = torch.tensor([1, 5, 8])
    targets = torch.nn.functional.normalize(torch.randn(3, HIDDEN, generator=torch.Generator().manual_seed(1)), dim=1)
    held = sensitive.held(graph, rows, targets, whole=False)
    params = tree.stack([algorithm.task.init()])
    more = algorithm.loss(params, graph, {"held": held, "prototypes": None}) - algorithm.task.loss(params, graph)
    first, second = algorithm.task.init().values()
    h = torch.relu(graph["x"][rows] @ first["weight"] + first["bias"])
    logits = h @ second["weight"] + second["bias"]
    entropy = torch.nn.functional.cross_entropy(logits, graph["y"][rows], reduction="sum")
    far = (h / h.norm(dim=1, keepdim=True) - targets).norm(dim=1).sum()
    by_hand = 2.0 * (entropy + 0.3 * far) / (3 if reduce == "mean" else 1)
    torch.testing.assert_close(more, by_hand.reshape(1), rtol=1e-4, atol=1e-5)


def test_a_distance_of_zero_has_a_finite_gradient():
    graph, algorithm = static(0, 0), bound(FedDGL())
    params = tree.stack([algorithm.task.init()])
    row = torch.tensor([1])
    alone = sensitive.held(graph, row, torch.zeros(1, HIDDEN), whole=False)
    target = torch.nn.functional.normalize(algorithm.task.embed(params, alone), dim=1)
    held = sensitive.held(graph, row, target, whole=False)
    params = tree.transform(lambda leaf: leaf.clone().requires_grad_(True), params)
    loss = algorithm.loss(params, graph, {"held": held, "prototypes": None})
    grads = torch.autograd.grad(loss.sum(), list(tree.leaves(params)))
    assert all(bool(grad.isfinite().all()) for grad in grads)


# ---- messages


@pytest.mark.parametrize(
    ("options", "down", "up"),
    [
        ({}, {"model", "share", "prototypes"}, {"update", "classes", "prototypes"}),
        ({"use_gp": False}, {"model", "share"}, {"update", "classes", "prototypes"}),
        ({"use_pa": False}, {"model", "prototypes"}, {"update", "classes", "prototypes"}),
        ({"use_pa": False, "use_gp": False}, {"model"}, {"update"}),
    ],
)
def test_what_travels_is_what_the_equations_need_to_the_byte(options, down, up):
    streams = [stream(client, 0) for client in range(2)]
    algorithm = bound(FedDGL(epochs=2, **options))
    state, _, history = through(algorithm, streams, rounds=2)
    floats = 4 * tree.count(state["model"])
    assert set(history[0][0].download) == down - {"prototypes"}
    for number, replies in enumerate(history[1:], 1):
        classes = 3 if number < 2 else 2  # one class has lost its edges in the second period
        for reply in replies:
            assert (set(reply.download), set(reply.upload)) == (down, up)
            table = 4 * CLASSES * HIDDEN if "prototypes" in down else 0
            assert wire.array_bytes(reply.download) == floats + table
            assert isinstance(reply.download.get("share", 0.0), float)
            told = classes * (4 * HIDDEN + 4) if "classes" in up else 0
            assert wire.array_bytes(reply.upload) == floats + told


# ---- limits


@pytest.mark.parametrize("trained", ["present", "all"])
def test_one_client_with_nothing_switched_on_is_central_training(trained):
    own = stream(0, 0)
    algorithm = bound(FedDGL(**OFF, trained=trained))
    state, _, _ = through(algorithm, [own], rounds=3, steps=4)
    params = tree.transform(lambda leaf: leaf.unsqueeze(0).clone().requires_grad_(True), algorithm.task.init())
    optimiser = torch.optim.Adam(tree.leaves(params), lr=0.02)
    for graph in own:
        seen = graph if trained == "all" else {**graph, "train": graph["train"] & (layout.of(graph).degree > 1)}
        for _ in range(12):
            optimiser.zero_grad()
            algorithm.task.loss(params, seen).sum().backward()
            optimiser.step()
    assert_same(state["model"], tree.at(tree.transform(torch.detach, params), 0), rtol=1e-3, atol=1e-5)


def test_with_nothing_switched_on_it_is_federated_averaging_with_equal_weights():
    streams = [[static(client, 0)] for client in range(2)]
    for (graph,) in streams:
        graph["val"] = torch.zeros_like(graph["val"])
    assert int(streams[0][0]["train"].sum()) != int(streams[1][0]["train"].sum())
    plain = bound(FedDGL(**OFF))
    state, _, _ = through(plain, streams, rounds=2)
    equal, _, _ = through(bound(FedAvg()), streams, rounds=2)  # by all nodes: equal weights
    assert_same(state["model"], equal["model"], rtol=1e-5, atol=1e-6)
    on, _, _ = through(bound(FedDGL(epochs=2)), streams, rounds=2)
    assert abs(sum_of(on["model"]) - sum_of(state["model"])) > 1e-4


def test_it_refuses_a_model_without_embeddings():
    with pytest.raises(ScenarioError, match="hidden layer"):
        bound(FedDGL(), GCN(hidden=HIDDEN, layers=1)).start()
