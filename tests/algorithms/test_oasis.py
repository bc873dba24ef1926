"""OASIS, reconstructed: its distances against closed forms, bytes of the formula, and a student of two teachers."""

import math
from dataclasses import replace

import pytest
import torch
from camps import gap
from one_shots import (
    CLASSES,
    FEATURES,
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
from pydantic import TypeAdapter

from algorithms.ghost import Ghost
from algorithms.oasis import Oasis, codebook, transport
from fedsim.core import wire
from fedsim.core.errors import ScenarioError
from fedsim.core.seeds import integer
from fedsim.data.graph import graph_of
from fedsim.learn.algorithm import Job, Reply
from fedsim.learn.engine import tree
from fedsim.learn.engine.optimiser import Adam, descend, in_training
from fedsim.learn.models.gat import GAT
from fedsim.learn.synthetic.pseudo_graphs import knn_flops, stand_in

GENERATOR = (64 + CLASSES) * 64 + 64 + 64 * 128 + 128 + 128 * 256 + 256 + 256 * FEATURES + FEATURES
QUICK = Oasis(codes=6, server_epochs=3, teacher_steps=4)


# ---- the distances


def test_the_distance_of_two_gaussians_is_the_closed_form():
    one = torch.tensor([[1.0]]).double()
    first, second = (torch.zeros(1).double(), one), (torch.full((1,), 3.0).double(), 4 * one)
    assert float(transport.between(first, second)) == pytest.approx(10)
    g = torch.Generator().manual_seed(0)
    mean, wide = torch.randn(2, 3, generator=g).double(), torch.rand(2, 3, generator=g).double() + 0.1
    gaussians = [(m, torch.diag(w)) for m, w in zip(mean, wide, strict=True)]
    expected = (mean[0] - mean[1]).square().sum() + (wide[0].sqrt() - wide[1].sqrt()).square().sum()
    assert float(transport.between(*gaussians)) == pytest.approx(float(expected))


def test_transport_of_equal_answers_costs_nothing_and_of_two_classes_what_is_moved():
    c = 0.7
    cost = torch.tensor([[0.0, c], [c, 0.0]])
    p, q = torch.tensor([[0.8, 0.2]]), torch.tensor([[0.5, 0.5]])
    assert float(transport.divergence(p, p, cost)) == pytest.approx(0, abs=1e-6)
    for epsilon in (0.05, 0.01, 0.005):
        found = transport.divergence(p.double(), q.double(), cost.double(), epsilon, 500)
        assert float(found) == pytest.approx(0.3 * c, abs=epsilon / 2)


def test_the_gradient_of_the_divergence_is_that_of_its_value():
    g = torch.Generator().manual_seed(1)
    cost = transport.costs(torch.randn(4, 5, generator=g).double(), 1.0)
    z, target = torch.randn(1, 4, generator=g).double(), torch.softmax(torch.randn(1, 4, generator=g).double(), 1)

    def value(z):
        return transport.divergence(target, torch.softmax(z, 1), cost, 0.2, 200).sum()

    own = z.clone().requires_grad_(True)
    (grad,) = torch.autograd.grad(value(own), own)
    for i in range(4):
        step = 1e-5 * torch.eye(4).double()[i]
        assert float(grad[0, i]) == pytest.approx(float(value(z + step) - value(z - step)) / 2e-5, abs=1e-7)


def test_the_cost_of_two_classes_rises_with_the_angle_of_their_rows():
    cost = transport.costs(torch.tensor([[2.0, 0.0], [0.0, 3.0], [-1.0, 0.0]]), kappa=1.0)
    one, two = 1 - math.exp(-1), 1 - math.exp(-2)
    torch.testing.assert_close(cost, torch.tensor([[0, one, two], [one, 0, one], [two, one, 0]]))


def lessons(algorithm, seed=0):
    graphs, state = skewed(seed)[0], algorithm.start()
    _, replies = exchanged(algorithm, state, graphs, {}, "train", steps=4)
    return state, replies, [algorithm.lesson(state, reply) for reply in replies]


def test_a_student_that_is_its_teacher_has_neither_distance():
    algorithm = made(QUICK)
    _, replies, (lesson, *_) = lessons(algorithm)
    own, other = (tree.stack([reply.upload["teacher"]]) for reply in replies[:2])
    plain = made(replace(QUICK, lambda_k=0.0, lambda_s=0.0))
    for weights in ({"lambda_k": 100.0, "lambda_s": 0.0}, {"lambda_k": 0.0, "lambda_s": 100.0}):
        heavy = made(replace(QUICK, **weights))
        same, apart = (
            float(heavy.distilling(one, lesson, lesson.graph) - plain.distilling(one, lesson, lesson.graph))
            for one in (own, other)
        )
        assert abs(same) < 1e-4
        assert apart > 10 * abs(same)
        assert apart > 1e-4


def test_without_both_distances_the_student_learns_from_labels_alone():
    algorithm = made(replace(QUICK, lambda_k=0.0, lambda_s=0.0))
    state, replies, found = lessons(algorithm)
    order = algorithm.random("order", 0)
    turns = [i for _ in range(3) for i in torch.randperm(4, generator=order).tolist()]
    seed = integer(0, "oasis", "drop", 0)
    plain, _ = descend(
        state["model"],
        lambda params, step: algorithm.task.loss(params, in_training(found[turns[step]].graph, seed, step)),
        Adam(1e-2, 4e-4),
        12,
    )
    assert gap(algorithm.update(state, replies, "train")["model"], plain) < 1e-6
    assert gap(made(QUICK).update(state, replies, "train")["model"], plain) > 1e-4


# ---- the client


def test_nothing_goes_down_and_generator_codes_and_teacher_go_up():
    algorithm, graphs = made(QUICK), skewed(0)[0]
    graphs[1] = without_training(graphs[1])
    state, ((step, replies),) = one_round(algorithm, graphs, steps=4)
    assert step == "train"
    assert all(reply.download == {} for reply in replies)
    full = 4 * (GENERATOR + 6 * 8 + NUMBERS) + 8
    assert [wire.array_bytes(reply.upload) for reply in replies] == [full, 8, full, full]
    assert gap(state["model"], algorithm.start()["model"]) > 0.01
    alone, _ = one_round(algorithm, {1: graphs[1]})
    assert gap(alone["model"], algorithm.start()["model"]) == 0
    cora = made(Oasis())
    object.__setattr__(cora.task, "features", 1433)
    object.__setattr__(cora.task, "classes", 7)
    assert tree.count(cora.proxy.generator.init(torch.Generator())) == 414_233


def test_no_held_out_node_changes_what_is_sent():
    graph = of_classes([0, 1, 2], 3)
    other = relabelled(graph)
    other["x"] = torch.where(graph["train"].unsqueeze(1), graph["x"], graph["x"].flip(0))
    other.pop("layout", None)
    algorithm = made(QUICK)
    first, second = (
        exchanged(algorithm, algorithm.start(), {0: one}, {}, "train", steps=4)[1][0].upload for one in (graph, other)
    )
    assert gap(first, second) == 0


def test_the_codebook_is_trained_by_the_sum_of_its_parts():
    algorithm = made(replace(QUICK, lambda_c=0.5, lambda_o=2.0, eta=0.25))
    teacher = algorithm.teacher
    data = of_classes([0, 1], 2, n=8, train=2.0)
    params = tree.stack([teacher.init(4)])
    given = tree.transform(lambda leaf: leaf.unsqueeze(0), teacher.given(data))
    h, logits = codebook.split(algorithm.task, params["model"], data)
    e = params["codebook"][0]
    near = torch.stack([(row - e).square().sum(1).argmin() for row in h])
    q, n = e[near], len(h)
    expected = torch.nn.functional.cross_entropy(logits, data["y"]) + 1.25 * (h - q).square().mean()
    unit = e / e.norm(dim=1, keepdim=True)
    expected = expected + 2.0 * (unit @ unit.T - torch.eye(6)).square().sum() / 36
    features, pairs = (tree.at(params[name], 0) for name in ("features", "pairs"))
    expected = expected + 0.5 * (q @ features["weight"] + features["bias"] - data["x"]).square().mean()
    near = q @ pairs["weight"] + pairs["bias"]
    expected = expected + 0.5 * (torch.sigmoid(near @ near.T) - given["adjacency"][0]).square().sum() / n**2
    found = teacher.loss(params, {**data, "seed": torch.tensor([1])}, given)
    assert float(found) == pytest.approx(float(expected), rel=1e-5)


def test_a_second_round_goes_on_with_the_teacher():
    algorithm, graphs, memories = made(QUICK), skewed(0)[0], {}
    state, ((_, first),) = one_round(algorithm, graphs, memories, steps=3, lr=0.005)
    _, ((_, second),) = one_round(algorithm, graphs, memories, state, steps=3, lr=0.005, seed=1)
    assert 0 < gap(first[0].upload["teacher"], second[0].upload["teacher"]) < 0.05
    assert 0 < gap(first[0].upload["codebook"], second[0].upload["codebook"]) < 0.05


@pytest.mark.long
@pytest.mark.parametrize("seed", range(2))
def test_a_student_of_clients_of_disjoint_classes_knows_more_than_either_teacher(seed):
    graphs = {k: of_classes(own, 100 * (k + 1) + seed, n=60, noise=0.3) for k, own in enumerate([[0, 1], [2, 3]])}
    unseen = of_classes([0, 1, 2, 3], 300 + seed, n=400, noise=0.3)
    algorithm = made(Oasis(codes=16, teacher_steps=100), seed)
    state, ((_, replies),) = one_round(algorithm, graphs, seed=seed, steps=100, lr=0.01)
    teachers = [accuracy(algorithm, reply.upload["teacher"], unseen) for reply in replies]
    assert accuracy(algorithm, state["model"], unseen) > max(teachers) + 0.15


# ---- what it costs, and what it refuses


def test_the_clock_is_charged_by_sizes_alone():
    algorithm, graphs = made(QUICK), skewed(0)[0]
    state, replies = exchanged(algorithm, algorithm.start(), graphs, {}, "train", steps=4)
    zeros = []
    for reply in replies:
        silent = {**tree.zeros_like(reply.upload), "examples": reply.upload["examples"]}
        zeros.append(Reply(reply.client, 0, {}, silent))
    charged = algorithm.server_flops(state, replies, "train")
    assert charged == algorithm.server_flops(state, zeros, "train")
    once = algorithm.task.flops(stand_in(40, FEATURES, 5))
    each = algorithm.proxy.generator.flops(40) + knn_flops(40, FEATURES) + (1 / 3 + 3) * once
    each += 3 * (50 * 3 * 10 * 40 * CLASSES**2 + 6 * 40 * 6 * (8 + 6) + 40 * 6**3)
    received = sum(wire.array_bytes(reply.upload) for reply in replies) / 2
    assert charged == pytest.approx(received + 4 * each)
    job = Job(0, "train", 0, {}, graphs[0], {}, 1)
    ghost = made(Ghost())
    assert algorithm.effort(job) > ghost.effort(job) > 0
    assert algorithm.effort(replace(job, data=without_training(graphs[0]))) == 0
    assert made(Oasis(teacher_steps=100)).taken == 30


def test_another_model_is_refused():
    with pytest.raises(ScenarioError, match="codes of hidden vectors"):
        made(QUICK, model=GAT(hidden=8, layers=1, dropout=0.0)).start()
    with pytest.raises(ValueError, match="epsilon"):
        TypeAdapter(Oasis).validate_python({"epsilon": 0.0})


def test_a_graph_without_edges_can_be_a_lesson():
    algorithm = made(QUICK)
    one = graph_of(torch.ones(1, FEATURES), torch.zeros(2, 0), torch.zeros(1), torch.ones(1).bool())
    state, _ = one_round(algorithm, {0: one}, steps=2)
    assert all(torch.isfinite(leaf).all() for leaf in tree.leaves(state["model"]))
