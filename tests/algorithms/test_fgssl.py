"""FGSSL: FedAvg where nothing is compared, both distances in the loss, and views drawn from the job's seed."""

from dataclasses import replace

import pytest
import torch
from camps import gap
from one_shots import NUMBERS, accuracy, exchanged, made, of_classes, one_round, relabelled, skewed

from algorithms import fgssl as views
from algorithms.fedavg import FedAvg
from algorithms.fgssl import FGSSL
from fedsim.core import wire
from fedsim.core.errors import ScenarioError
from fedsim.data.graph import graph_of
from fedsim.learn.algorithm import Job
from fedsim.learn.engine import tree
from fedsim.learn.engine.optimiser import in_training
from fedsim.learn.models.gcn import GCN

NOTHING = {"weak_edges": 0.0, "weak_features": 0.0, "strong_edges": 0.0, "strong_features": 0.0}


def test_messages_are_those_of_averaging():
    algorithm, graphs = made(FGSSL()), skewed(0)[0]
    _, replies = exchanged(algorithm, algorithm.start(), graphs, {}, "train", steps=2)
    for reply in replies:
        assert wire.array_bytes(reply.download) == wire.array_bytes(reply.upload) == 4 * NUMBERS
        assert isinstance(reply.upload["samples"], int)


def test_with_nothing_compared_it_is_averaging():
    graphs, memories = skewed(0)[0], [{}, {}]
    plain, own = made(FedAvg()), made(FGSSL(contrast=0.0, distil=0.0))
    assert (
        gap(*(one_round(one, graphs, known)[0]["model"] for one, known in zip((plain, own), memories, strict=True)))
        == 0
    )
    assert own.effort(Job(0, "train", 0, {}, graphs[0], {}, 0)) == 1


def test_the_loss_is_the_sum_of_its_parts_and_the_global_model_does_not_drop():
    data = of_classes([0, 1, 2], 4)
    received = tree.stack([made(FGSSL(), seed=1).task.init()])
    parts = {}
    for name, options in {
        "both": {}, "contrast": {"distil": 0.0}, "distil": {"contrast": 0.0}, "none": {"contrast": 0.0, "distil": 0.0}
    }.items():  # fmt: skip
        algorithm = made(FGSSL(**{"contrast": 0.7, "distil": 0.3, **options}), model=GCN(hidden=8, dropout=0.5))
        params = tree.stack([algorithm.task.init()])
        parts[name] = float(algorithm.loss(params, in_training(data, 5, 0), {"received": received}))
    extra = parts["contrast"] + parts["distil"] - 2 * parts["none"]
    assert parts["contrast"] > parts["none"] + 0.1
    assert parts["distil"] > parts["none"] + 1e-4
    assert parts["both"] - parts["none"] == pytest.approx(extra, rel=1e-3)


def test_without_dropping_anything_the_parts_are_those_of_the_plain_embeddings():
    algorithm, data = made(FGSSL(contrast=0.7, distil=0.3, tau=0.2, **NOTHING)), of_classes([0, 1, 2], 4)
    params = tree.stack([algorithm.task.init()])
    received = tree.stack([made(FGSSL(), seed=1).task.init()])
    own, known, rows = algorithm.task.embed(params, data), algorithm.task.embed(received, data), data["train"]
    expected = algorithm.task.loss(params, data)
    expected = expected + 0.7 * views.semantic_distance(own[rows], known[rows], data["y"][rows], 0.2)
    expected = expected + 0.3 * views.structural_distance(own, known, data["edges"], rows, 0.1)
    torch.testing.assert_close(algorithm.loss(params, in_training(data, 5, 0), {"received": received}), expected)


def test_the_trained_model_sees_the_strong_view_and_the_global_one_the_weak(monkeypatch):
    seen = []
    monkeypatch.setattr(views, "view", lambda graph, *shares: seen.append(shares[:2]) or graph)
    asked = []
    algorithm, data = made(FGSSL()), of_classes([0, 1], 4)
    monkeypatch.setattr(type(algorithm.task), "embed", lambda self, params, graph: asked.append(
        (params, "seed" in graph)) or self.model.embed(params, graph))  # fmt: skip
    params, received = tree.stack([algorithm.task.init()]), tree.stack([algorithm.task.init()])
    algorithm.loss(params, in_training(data, 5, 0), {"received": received})
    assert seen == [(0.8, 0.5), (0.3, 0.3)]
    assert asked[0][0] is params
    assert asked[1][0] is received
    assert [dropping for _, dropping in asked] == [True, False]


def test_views_are_drawn_from_the_jobs_seed_anew_in_each_step():
    algorithm, data = made(FGSSL()), of_classes([0, 1], 4)
    params = tree.stack([algorithm.task.init()])
    losses = [
        float(algorithm.loss(params, in_training(data, seed, step), {"received": params}))
        for seed, step in ((5, 0), (5, 0), (5, 1), (6, 0))
    ]
    assert losses[0] == losses[1]
    assert len(set(losses)) == 3


def test_labels_of_nodes_that_are_not_trained_are_never_read():
    algorithm, graphs = made(FGSSL()), skewed(1)[0]
    _, one = exchanged(algorithm, algorithm.start(), graphs, {}, "train", steps=3)
    hidden = {c: relabelled(data) for c, data in graphs.items()}
    _, other = exchanged(algorithm, algorithm.start(), hidden, {}, "train", steps=3)
    assert all(gap(a.upload["update"], b.upload["update"]) == 0 for a, b in zip(one, other, strict=True))


def after_a_round(seed, data, **options):
    """The embeddings of the trained model and of the one that was received, after one round of one client."""
    algorithm = made(FGSSL(**{"contrast": 0.0, "distil": 0.0, **options}), seed, model=GCN(hidden=16, dropout=0.0))
    first = algorithm.start()["model"]
    model = one_round(algorithm, {0: data}, seed=seed, steps=30)[0]["model"]
    return [algorithm.task.embed(tree.stack([one]), data) for one in (model, first)]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("views_are", "most"), [({}, 0.95), (NOTHING, 0.9)])
def test_the_contrast_draws_nodes_towards_their_class_in_the_global_models_eyes(seed, views_are, most):
    data = of_classes([0, 1, 2, 3], seed, n=60)
    rows, far = data["train"], {}
    for contrast in (0.0, 5.0):
        own, known = after_a_round(seed, data, contrast=contrast, **views_are)
        far[contrast] = float(views.semantic_distance(own[rows], known[rows], data["y"][rows], 0.1))
    assert far[5.0] < most * far[0.0]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("views_are", "most"), [({}, 0.9), (NOTHING, 0.2)])
def test_distilling_keeps_how_neighbours_are_distributed(seed, views_are, most):
    data, far = of_classes([0, 1, 2, 3], seed, n=60), {}
    for distil in (0.0, 10.0):
        own, known = after_a_round(seed, data, distil=distil, **views_are)
        far[distil] = float(views.structural_distance(own, known, data["edges"], data["train"], 0.1))
    assert far[10.0] < most * far[0.0]


@pytest.mark.long
def test_over_several_rounds_it_learns_no_less_than_averaging():
    reached = {"fgssl": 0.0, "fedavg": 0.0}
    for seed in range(3):
        graphs, unseen = skewed(seed)
        for name, algorithm in (("fgssl", made(FGSSL(), seed)), ("fedavg", made(FedAvg(), seed))):
            state, memories = algorithm.start(), {}
            for number in range(6):
                state, _ = one_round(algorithm, graphs, memories, state, steps=5, seed=10 * seed + number)
            reached[name] += accuracy(algorithm, state["model"], unseen) / 3
    assert reached["fgssl"] > 0.6
    assert reached["fgssl"] > reached["fedavg"] - 0.02


def test_the_clock_is_charged_the_views_and_the_distances():
    algorithm, data = made(FGSSL()), of_classes([0, 1], 4)
    n, edges = int(data["train"].sum()), data["edges"].shape[1]
    steps = algorithm.effort(Job(0, "train", 0, {}, data, {}, 0))
    assert (steps - 2 - 1 / 3) * algorithm.task.flops(data) == pytest.approx(3 * 2 * 8 * (n * n + 2 * edges))


def test_what_it_cannot_compare_is_refused():
    with pytest.raises(ScenarioError, match="2 or more"):
        made(FGSSL(), model=GCN(layers=1)).start()
    algorithm = made(FGSSL())
    lonely = graph_of(torch.randn(3, 12), torch.zeros(2, 0), torch.arange(3), torch.ones(3) > 0)
    memories = {}
    state, _ = exchanged(algorithm, algorithm.start(), {0: lonely}, memories, "train", steps=2)
    assert all(bool(leaf.isfinite().all()) for leaf in tree.leaves(state["model"]))
    assert gap(memories[0]["local"], state["model"]) < 1e-6
    assert replace(algorithm, contrast=0.0).compares
