"""O-pFGL: pooled moments are exact, the surrogate has them, its bytes, and classes that a client has no label of."""

from dataclasses import replace

import pytest
import torch
from camps import gap
from one_shots import (
    CLASSES,
    FEATURES,
    NUMBERS,
    exchanged,
    made,
    of_classes,
    one_round,
    relabelled,
    skewed,
    without_training,
)

from algorithms.local import Local
from algorithms.o_pfgl import OPFGL, adaptive, surrogate
from algorithms.o_pfgl.surrogate import Fitting, Learner
from fedsim.core import wire
from fedsim.data.graph import graph_of, with_masks
from fedsim.learn.algorithm import Fit, Job, Reply
from fedsim.learn.engine import tree
from fedsim.learn.engine.optimiser import Adam
from fedsim.learn.engine.training import Trainer
from fedsim.learn.synthetic.pseudo_graphs import stand_in

QUICK = OPFGL(surrogate_steps=100, first_steps=40, first_lr=0.02, check=10)


def sent(values):
    """What a client of one class and one feature with these values sends."""
    x = torch.tensor(values).unsqueeze(1)
    y = torch.zeros(len(values), dtype=torch.long)
    return surrogate.moments(graph_of(x, torch.zeros(2, 0), y, torch.ones_like(y).bool()), 1, 0)


def test_the_pooled_variance_is_exact_and_the_official_one_too_large():
    both = [sent([0.0, 2.0]), sent([4.0, 6.0])]
    exact, official = surrogate.pooled(both), surrogate.pooled(both, official=True)
    assert (int(exact.n), float(exact.mean)) == (4, 3.0)
    assert float(exact.std.square()) == pytest.approx(20 / 3)
    assert float(official.std.square()) == pytest.approx(10)
    assert surrogate.pooled([sent([1.0])]) is None


def test_pooled_moments_are_those_of_all_nodes_at_once():
    graphs = [of_classes([0, 1], seed, n=20 + 7 * seed) for seed in range(4)]
    found = surrogate.pooled([surrogate.moments(graph, CLASSES, 0) for graph in graphs])
    assert found.classes.tolist() == [0, 1]
    for c in range(2):
        x = torch.cat([graph["x"][graph["train"] & (graph["y"] == c)] for graph in graphs])
        assert int(found.n[c]) == len(x)
        assert torch.allclose(found.mean[c], x.mean(0), atol=1e-6)
        assert torch.allclose(found.std[c], x.std(0), atol=1e-6)


def test_features_are_widened_by_normalised_sums_over_neighbours():
    x = torch.tensor([[1.0], [3.0], [5.0]])
    path = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
    wide = surrogate.widened(graph_of(x, path, torch.zeros(3, dtype=torch.long)), 2)
    root = torch.tensor([2.0, 3.0, 2.0]).rsqrt()
    once = (root[:, None] * torch.tensor([[1.0, 1, 0], [1, 1, 1], [0, 1, 1]]) * root) @ x
    assert torch.allclose(wide[:, :2], torch.cat([x, once], 1))
    assert wide.shape == (3, 3)


@pytest.mark.parametrize("each", [1, pytest.param(3, marks=pytest.mark.long)])
def test_the_surrogate_has_the_moments(each):
    clients = [of_classes(labels, seed) for seed, labels in enumerate([[0, 1], [1, 2], [2, 3]])]
    wanted = surrogate.pooled([surrogate.moments(client, CLASSES, 1) for client in clients])
    labels = wanted.classes.repeat_interleave(each)
    made, begun = (
        Learner(steps).learned(wanted, labels, FEATURES, torch.Generator().manual_seed(3))
        for steps in (750 if each == 1 else 3000, 1)
    )
    fit = Fitting(wanted, labels, FEATURES)
    first, last = (fit.gaps(own["x"], own["links"].float()) for own in (begun, made))
    assert last[0].mean() < 0.01 * first[0].mean()
    assert bool((last[1] == 0).all()) == (each == 1)
    assert each == 1 or last[1].mean() < 0.3 * first[1].mean()
    assert torch.equal(made["links"], made["links"].T)
    assert not made["links"].diagonal().any()


def test_pairs_travel_as_a_triangle():
    links = torch.tensor([[0, 1, 0], [1, 0, 1], [0, 1, 0]]).bool()
    graph = surrogate.graph(torch.eye(3), surrogate.triangle(links), torch.arange(3))
    found = torch.zeros(3, 3, dtype=torch.bool)
    found[graph["edges"][0], graph["edges"][1]] = True
    assert torch.equal(found, links)
    assert len(graph["edges"][0]) == 4


def test_one_exchange_has_the_bytes_of_the_formulas():
    algorithm, (graphs, _) = made(QUICK), skewed(0)
    state, ((first, up), (second, down)) = one_round(algorithm, graphs)
    assert (first, second) == ("moments", "train")
    assert [reply.download for reply in up] == [{}] * 4
    assert [reply.upload for reply in down] == [{}] * 4
    held, rows = 2, 4
    assert {wire.array_bytes(reply.upload) for reply in up} == {4 * CLASSES + 8 * held * 2 * FEATURES}
    assert {wire.array_bytes(reply.download) for reply in down} == {
        4 * NUMBERS + 4 * rows * FEATURES + rows * (rows - 1) // 2 + 8 * rows
    }
    assert state["surrogate"]["y"].tolist() == [0, 1, 2, 3]
    assert algorithm.common(state) is None


def test_no_label_but_of_training_nodes_is_read_by_what_travels():
    graph = of_classes([0, 1, 2], 5)
    one, other = (surrogate.moments(own, CLASSES, 1) for own in (graph, relabelled(graph)))
    assert gap(one, other) == 0
    own, same = (adaptive.weights(data, CLASSES, 0.2, 0.0) for data in (graph, relabelled(graph)))
    assert torch.equal(own, same)


def trained(algorithm, download, data, steps=7):
    """A client's model after the second step."""
    work = algorithm.work(job := Job(0, "train", 0, download, data, {}, 3))
    with pytest.raises(StopIteration):
        work.send(Trainer(Adam(0.02), steps).train([(job, next(work))])[0])
    return job.memory["local"]


def test_without_gamma_a_client_fine_tunes_the_teacher_plainly():
    algorithm, (graphs, _) = made(replace(QUICK, gamma=0.0)), skewed(0)
    state, _ = exchanged(algorithm, algorithm.start(), graphs, {}, "moments")
    download, data = algorithm.download(state, 0, "train"), graphs[0]
    job = Job(0, "train", 0, download, data, {}, 3)
    start, task = algorithm.taught(job), algorithm.task
    fit = Fit(start=start, loss=lambda params, graph, given: task.loss(params, graph), slot=None)
    assert gap(trained(algorithm, download, data), Trainer(Adam(0.02), 7).train([(job, fit)])[0]) < 1e-6

    def apart(gamma):
        """How far a client's predictions are from its teacher's in the end."""
        model = trained(made(replace(QUICK, gamma=gamma)), download, data, 60)
        own, other = (torch.softmax(task.forward(tree.stack([one]), data), 1) for one in (model, start))
        return float((own - other).abs().max())

    assert apart(50.0) < 0.5 * apart(0.0)


def test_a_node_listens_by_its_class_homophily():
    y, train = torch.tensor([0, 0, 1, 0]), torch.tensor([True, True, True, False])
    edges = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])  # 0 - 1 - 2, and 3 alone
    graph = graph_of(torch.zeros(4, 2), edges, y, train)
    assert adaptive.homophily(graph, 2).tolist() == [1.5, 0.0]
    p = adaptive.propagated(graph, 2)
    assert torch.allclose(p.sum(1), torch.tensor([1.0, 1, 1, 0]))
    gamma = adaptive.weights(graph, 2, 0.2, 0.01)
    assert gamma[3] == pytest.approx(0.01)
    heard = 1 / (1 + torch.log(torch.tensor([2.5, 1.0])))
    assert torch.allclose(gamma[:3], 0.2 * p[:3] @ heard)
    assert gamma[2] > gamma[0]


def without(data, lost):
    """The same graph, in which that class has no training label."""
    return with_masks(data, data["train"] & (data["y"] != lost), data["val"], data["test"])


def recall(task, model, data, c):
    rows = data["test"] & (data["y"] == c)
    return float((task.forward(tree.stack([model]), data)[rows].argmax(1) == c).float().mean())


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.long)])
def test_a_class_without_a_label_of_ones_own_is_known_after_the_first_stage(seed):
    graphs = {c: without(of_classes([0, 1, 2, 3], 10 * seed + c, n=120), c) for c in range(CLASSES)}
    algorithm, alone = made(replace(QUICK, surrogate_steps=600, first_steps=120), seed), made(Local(), seed)
    state, _ = exchanged(algorithm, algorithm.start(), graphs, {}, "moments")
    memories = {}
    one_round(alone, graphs, memories)
    for c, data in graphs.items():
        job = Job(c, "train", 0, algorithm.download(state, c, "train"), data, {}, c)
        assert recall(algorithm.task, algorithm.taught(job), data, c) > 0.5
        assert recall(alone.task, memories[c]["local"], data, c) == 0


def test_the_first_stage_keeps_the_best_and_stops_after_its_patience(monkeypatch):
    algorithm, (graphs, _) = made(replace(QUICK, patience=2, check=5)), skewed(0)
    state, _ = exchanged(algorithm, algorithm.start(), graphs, {}, "moments")
    seen, scores = [], iter([0.3, 0.6, 0.5, 0.6, 0.9])
    monkeypatch.setattr(OPFGL, "validated", lambda self, job, model: seen.append(model) or next(scores))
    job = Job(0, "train", 0, algorithm.download(state, 0, "train"), graphs[0], {}, 3)
    assert algorithm.taught(job) is seen[3]  # of equals the later
    assert len(seen) == 4


def test_a_client_without_labels_sends_no_class_and_takes_the_teacher():
    algorithm, (graphs, _) = made(QUICK), skewed(0)
    graphs[1] = without_training(graphs[1])
    memories = {}
    state, ((_, up), _) = one_round(algorithm, graphs, memories)
    assert wire.array_bytes(up[1].upload) == 4 * CLASSES
    assert gap(memories[1]["local"], state["model"]) > 0.01
    alone, _ = one_round(algorithm, {1: graphs[1]}, memories := {})
    assert alone["surrogate"] is None
    assert gap(memories[1]["local"], algorithm.start()["model"]) == 0


def test_the_clock_is_charged_by_sizes_alone():
    algorithm, (graphs, _) = made(QUICK), skewed(0)
    state, replies = exchanged(algorithm, algorithm.start(), graphs, {}, "moments")
    data, task = graphs[0], algorithm.task
    job = Job(0, "train", 0, algorithm.download(state, 0, "train"), data, {}, 3)
    own, first = task.flops(data), task.flops(stand_in(4, FEATURES, 4))
    gamma = 2 * 3 * data["edges"].shape[1] * CLASSES
    assert algorithm.extra_steps(job) * own == pytest.approx(40 * first + own * (4 + 1) / 3 + gamma)
    assert (algorithm.effort(job), algorithm.effort(replace(job, step="moments"))) == (1, 0)
    zeros = [Reply(r.client, 0, {}, tree.zeros_like(r.upload)) for r in replies]
    start = algorithm.start()
    assert algorithm.server_flops(start, zeros, "moments") == algorithm.server_flops(start, replies, "moments") > 1e6
    by_rate = made(replace(QUICK, rate=0.3))
    n = surrogate.pooled([reply.upload for reply in replies]).n
    assert by_rate.size(start, replies) == sum(-(-3 * int(k) // 10) for k in n)
    assert len(by_rate.update(start, replies, "moments")["surrogate"]["y"]) == by_rate.size(start, replies)
