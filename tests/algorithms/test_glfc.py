"""GLFC on graphs: weights and relations by hand, prototypes that are found again, and which models travel when."""

import pytest
import torch
import torch.nn.functional as F
from camps import community
from contexts import within
from learnlab import drawn_task, inverted
from past_classes import marks

from algorithms.glfc import GLFC, bce, herded
from fedsim.core import wire
from fedsim.data.graph import graph_of
from fedsim.learn.algorithm import Job, Reply
from fedsim.learn.continual import prototypes, replay
from fedsim.learn.engine import joining, tree
from fedsim.learn.models.gcn import GCN

FEATURES, CLASSES = 20, 4
NUMBERS = FEATURES * 8 + 8 + 8 * CLASSES + CLASSES
ENCODER = FEATURES * 128 + 128 + 128 * 128 + 128 + 128 * 64 + 64 + 64 * CLASSES + CLASSES


def made(seed=0, **options):
    task = drawn_task(GCN(hidden=8, dropout=0.0), FEATURES, CLASSES, seed)
    return within(GLFC(**{"rebuild_steps": 10, **options}), task)


def rows(labels):
    y = torch.tensor(labels)
    return graph_of(torch.zeros(len(y), 3), torch.zeros(2, 0), y, torch.ones(len(y), dtype=torch.bool))


def test_a_node_weighs_by_its_gap_over_the_mean_of_its_group():
    logits = torch.zeros(3, CLASSES)
    logits[1, 1], logits[2, 2] = torch.tensor(0.75).logit(), torch.tensor(0.9).logit()
    graph = rows([0, 1, 2])
    (weights,) = made().weights([(graph, logits)], marks(2))
    assert weights.tolist() == pytest.approx([4 / 3, 2 / 3, 1])
    (weights,) = made().weights([(graph, logits)], marks())
    assert weights.tolist() == [1, 1, 1]  # no class is old


def test_exemplars_and_the_period_share_a_groups_mean():
    first, second = torch.zeros(1, CLASSES), torch.zeros(1, CLASSES)
    second[0, 1] = torch.tensor(0.75).logit()
    one, other = made().weights([(rows([0]), first), (rows([1]), second)], marks(2))
    assert [float(one), float(other)] == pytest.approx([4 / 3, 2 / 3])


def test_without_an_old_model_the_loss_is_that_of_compensated_gradients():
    own, graph = made(), community([0, 1], 0)
    params = tree.stack([own.start()["model"]])
    buffer = joining.union([replay.empty(graph)])
    data = joining.union([graph])
    given = {"buffer": buffer, "earlier": marks()}
    logits = own.task.forward(params, data)
    expected = bce(logits, F.one_hot(graph["y"], CLASSES).float())[graph["train"]].mean()
    torch.testing.assert_close(own.loss(params, data, given), expected.view(1))
    old = {**given, "earlier": marks(0), "old": params}
    past = F.one_hot(graph["y"], CLASSES).float()
    past[:, 0] = torch.sigmoid(logits[:, 0])
    (weight,) = own.weights([(data, logits)], marks(0))
    both = (weight * bce(logits, F.one_hot(graph["y"], CLASSES).float()) + bce(logits, past)) / 2
    torch.testing.assert_close(own.loss(params, data, old), both[graph["train"]].mean().view(1))


@pytest.mark.parametrize("uniform", [None, 0.5])
def test_labels_and_nodes_follow_from_the_gradients(uniform):
    gamma = made(uniform=uniform).start()["encoder"]
    if uniform is not None:
        assert all(-0.5 <= float(w.min()) < -0.4 and 0.4 < float(w.max()) <= 0.5 for w in gamma.values() if w.dim() > 1)
    x, y = torch.rand(CLASSES, FEATURES, generator=torch.Generator().manual_seed(1)), torch.arange(CLASSES)
    sent = prototypes.gradients(gamma, x, y)
    assert [prototypes.label_of(one) for one in sent] == y.tolist()
    assert [int(one["w4"].sum(1).argmin()) for one in sent] == y.tolist()  # as published
    torch.testing.assert_close(torch.stack([inverted(one) for one in sent]), x, rtol=1e-3, atol=1e-4)


@pytest.mark.long
def test_reconstructed_gradients_match_in_most_draws():
    good = 0
    for seed in range(10):
        own, drawn = made(seed, rebuild_steps=250, restarts=0), torch.Generator().manual_seed(seed)
        sent = prototypes.gradients(own.start()["encoder"], torch.rand(1, FEATURES, generator=drawn), torch.tensor([1]))
        good += len(own.rebuilt(own.start(), sent)["y"])  # of relative squared distance below 1 %
    assert good >= 8


def test_each_prototype_is_perturbed_by_its_own_loss_alone():
    """By hand: 50 steps of 0.1 on each node's mean over outputs, however many classes the period has."""
    own, data = made(), community([0, 1, 2], 0)
    model = tree.stack([own.start()["model"]])
    job = Job(0, "train", 0, {}, data, {}, 0)
    found, y = own.prototypes(job, model)
    assert y.tolist() == [0, 1, 2]
    nodes = replay.class_rows(data)
    z = replay.embedding(own.task, model, data)
    for label, x in zip(y.tolist(), found, strict=True):
        nearest = nodes[label][herded(z[nodes[label]], 1)]
        moved = data["x"][nearest].clone().requires_grad_(True)
        for _ in range(50):
            logits = own.task.forward(model, graph_of(moved, torch.zeros(2, 0), torch.tensor([0])))
            said, right = logits.sigmoid(), F.one_hot(torch.tensor([label]), CLASSES)
            loss = -(right * said.log() + (1 - right) * (1 - said).log()).mean()
            moved = (moved - 0.1 * torch.autograd.grad(loss, moved)[0]).detach().requires_grad_(True)
        torch.testing.assert_close(x, moved[0].detach(), rtol=1e-4, atol=1e-5)


def test_herding_brings_the_mean_nearest():
    z = torch.randn(9, 3, generator=torch.Generator().manual_seed(0))
    chosen = herded(z, 4).tolist()
    for count in range(1, 5):
        before = z[chosen[: count - 1]].sum(0)
        apart = {
            i: float(((before + z[i]) / count - z.mean(0)).norm()) for i in range(9) if i not in chosen[: count - 1]
        }
        assert chosen[count - 1] == min(apart, key=apart.get)
    assert sorted(herded(z, 20).tolist()) == list(range(9))


# ---- what travels


def play(own, periods):
    """One client's rounds, each in a period: the replies, and the states before and after."""
    state, memory, replies, states = own.start(), {}, [], [own.start()]
    for number, period in enumerate(periods):
        data = community([period, period + 1], period)
        job = Job(0, "train", period, own.download(state, 0, "train"), data, memory, number)
        like, work = wire.size(own.upload_like(job)), own.work(job)
        fit = next(work)
        try:
            work.send(tree.transform(lambda leaf: leaf + 0.1, fit.start))
        except StopIteration as end:
            upload = end.value
        assert wire.size(upload) == like
        replies.append((Reply(0, number, job.download, upload), fit.given))
        state = own.update(state, [replies[-1][0]], "train")
        states.append(state)
    return replies, states


def test_each_best_model_travels_once_and_the_right_one_is_the_old_one(monkeypatch):
    own = made()
    scores = iter([0.5, 0.7, 0.6, 0.4, 0.4])

    def scored(self, state):
        score = next(scores)
        if score < state["score"]:
            return state
        return {**state, "score": score, "second": {"number": state["updates"], "model": state["model"]}}

    monkeypatch.setattr(GLFC, "scored", scored)
    replies, states = play(own, [0, 0, 0, 1, 1])
    best = [(s.get("first") and s["first"]["number"], s["second"] and s["second"]["number"]) for s in states]
    assert best == [(None, None), (None, 1), (None, 2), (None, 2), (2, 4), (2, 5)]  # a tie keeps the newer one
    olds = [given.get("old") for _, given in replies]
    assert olds[:3] == [None, None, None]  # `first` of the first period
    assert olds[3] is states[2]["model"]  # `second`, in the first job of a period
    assert olds[4] is states[2]["model"]  # by then it is `first`
    sizes = [wire.array_bytes(reply.download) for reply, _ in replies]
    model = 4 * NUMBERS
    assert sizes == [model + 4 * ENCODER, 2 * model, 2 * model, model, 2 * model]


def test_an_upload_is_fedavgs_and_the_encoder_once_a_class_and_period():
    replies, states = play(made(), [0, 0, 1])
    sizes = [wire.array_bytes(reply.upload) for reply, _ in replies]
    assert sizes == [4 * (NUMBERS + 2 * ENCODER), 4 * NUMBERS, 4 * (NUMBERS + 2 * ENCODER)]
    assert set(states[-1]["proxies"]["y"].tolist()) <= {1, 2}
    assert replies[2][1]["earlier"].tolist() == [True, True, False, False]
    assert sorted(replies[2][1]["buffer"]["y"].tolist()) == [0, 1]


def test_the_prototype_is_the_perturbed_node_nearest_to_the_mean():
    own, data = made(), community([0, 1], 3)
    params = tree.stack([own.start()["model"]])
    x, y = own.prototypes(Job(0, "train", 0, {}, data, {}, 0), params)
    assert y.tolist() == [0, 1]
    z = own.task.embed(params, joining.union([data]))
    for label, moved in zip(y.tolist(), x, strict=True):
        own_rows = (data["train"] & (data["y"] == label)).nonzero().squeeze(1)
        nearest = own_rows[(z[own_rows] - z[own_rows].mean(0)).norm(dim=1).argmin()]
        assert 0 < float((moved - data["x"][nearest]).norm()) < 2.5
        said = own.task.forward(params, graph_of(moved[None], torch.zeros(2, 0), torch.zeros(1)))
        before = own.task.forward(params, graph_of(data["x"][nearest][None], torch.zeros(2, 0), torch.zeros(1)))
        target = F.one_hot(torch.tensor([label]), CLASSES).float()
        assert float(bce(said, target)) < float(bce(before, target))
