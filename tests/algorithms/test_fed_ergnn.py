"""Fed-ERGNN: FedAvg's messages, experience nodes at the end of each period, and replay that weighs as said."""

import pytest
import torch
from camps import gap
from contexts import within
from learnlab import drawn_task
from one_client import PERIODS, lived

from algorithms.fed_ergnn import FedERGNN
from algorithms.fedavg import FedAvg
from fedsim.core import wire
from fedsim.data.graph import graph_of, sparse_if_worth
from fedsim.learn.algorithm import Job
from fedsim.learn.continual import replay
from fedsim.learn.engine import joining, tree
from fedsim.learn.engine.optimiser import Adam
from fedsim.learn.engine.training import Trainer
from fedsim.learn.models.gcn import GCN

FEATURES, CLASSES, HIDDEN = 5, 5, 6


RULES = ["coverage", "other_class", "mean"]


def bound(algorithm, hidden=HIDDEN, seed=0):
    return within(algorithm, drawn_task(GCN(hidden=hidden), FEATURES, CLASSES, seed))


def history(algorithm, periods=PERIODS, trainer=None, **options):
    """Two rounds a period with one client: the final state, the memories after each round, and the uploads."""
    states, memories, uploads, _ = lived(bound(algorithm, **options), periods, trainer=trainer)
    return states[-1], memories, uploads


def test_with_all_weight_on_the_new_period_it_is_fedavg():
    assert gap(history(FedERGNN(beta=1.0))[0]["model"], history(FedAvg())[0]["model"]) == 0
    assert gap(history(FedERGNN(beta=0.5))[0]["model"], history(FedAvg())[0]["model"]) > 1e-4


@pytest.mark.parametrize("rule", RULES)
def test_its_messages_are_as_large_as_fedavgs(rule):
    uploads = history(FedERGNN(select=rule, beta=None))[2]
    assert [wire.size(upload) for upload in uploads] == [wire.size(upload) for upload in history(FedAvg())[2]]
    numbers = FEATURES * HIDDEN + HIDDEN + HIDDEN * CLASSES + CLASSES
    assert {wire.array_bytes(upload) for upload in uploads} == {4 * numbers}
    assert all(upload.keys() == {"update", "samples"} for upload in uploads)


@pytest.mark.parametrize("rule", RULES)
def test_a_period_leaves_its_experience_once_when_the_next_has_begun(rule):
    _, memories, _ = history(FedERGNN(select=rule, keep=2))
    labels = [memory["buffer"]["y"].tolist() for memory in memories[1:]]
    assert labels == [[], [], [0, 0, 1, 1], [0, 0, 1, 1], [0, 0, 1, 1, 2, 2, 3, 3], [0, 0, 1, 1, 2, 2, 3, 3]]
    kept = memories[-1]["buffer"]
    for place, row in enumerate(kept["x"]):
        source = PERIODS[place // 4]
        assert ((source["x"] == row).all(1) & source["train"] & (source["y"] == kept["y"][place])).sum() == 1


@pytest.mark.parametrize("options", [{}, {"select": "mean", "on": "embedding"}])
def test_it_is_chosen_by_the_clients_own_last_model_of_the_period_alone(options):
    algorithm = bound(FedERGNN(keep=1, epsilon=0.7, **options))
    _, memories, _ = history(algorithm)
    z = algorithm.task.embed(tree.stack([memories[2]["local"]]), PERIODS[0]).tolist()
    chosen = []
    for rows in replay.class_rows(PERIODS[0]):
        own = [torch.tensor(z[row]) for row in rows.tolist()]
        far = torch.stack([torch.stack([(a - b).norm() for b in own]) for a in own])
        covers = (far < 0.7 * far.mean()).sum(1)
        centre = torch.stack(own).mean(0)
        away = torch.stack([(a - centre).norm() for a in own])
        chosen.append(int(rows[covers.argmax() if not options else away.argmin()]))
    assert torch.equal(memories[3]["buffer"]["x"], PERIODS[0]["x"][chosen])


def line(own, others):
    """Training nodes of class 0 and of class 1 on a line, and one of either that must not be seen."""
    x = [1.15, *own, 9.0, *others]
    train = [place not in (0, 1 + len(own)) for place in range(len(x))]
    y = torch.tensor([0] * (1 + len(own)) + [1] * (1 + len(others)))
    return graph_of(torch.tensor(x).unsqueeze(1), torch.zeros(2, 0, dtype=torch.long), y, torch.tensor(train))


def kept(algorithm, data, seed=0):
    """The features kept of class 0 and of class 1; no model is needed where features are measured."""
    buffer = bound(algorithm).experience({"data": data, "model": None, "seed": seed})
    assert set(buffer["y"].tolist()) <= {0, 1}
    return [
        [round(v, 4) for v in replay.dense(buffer, (buffer["y"] == c).nonzero()[:, 0])[:, 0].tolist()] for c in (0, 1)
    ]


@pytest.mark.parametrize(
    ("options", "best"),
    [
        ({"select": "coverage", "epsilon": 0.05}, [1.1]),  # the only one with two others within 0.05 · 2.912
        ({"select": "other_class", "keep": 2}, [9.0, 0.0]),  # with none and with one of class 1 within 0.5
        ({"select": "other_class", "distance": 0.05}, [1.2]),  # the first with none within 0.05
        ({"select": "mean", "keep": 2}, [1.2, 1.1]),  # nearest to 2.46
        ({"select": "mean", "official_mean": True}, [0.0]),  # smallest product with 2.46
    ],
)
def test_each_rule_keeps_the_nodes_that_it_must(options, best):
    data = line([0.0, 1.0, 1.1, 1.2, 9.0], [0.04, 0.98, 1.14, 1.4])
    assert kept(FedERGNN(on="features", **options), data)[0] == best


def test_features_may_be_sparse_and_a_class_may_be_alone():
    x = torch.zeros(4, 100)
    x[torch.arange(4), torch.tensor([0, 1, 0, 2])] = 1.0
    y, train = torch.tensor([0, 0, 1, 1]), torch.ones(4, dtype=torch.bool)
    edges = torch.zeros(2, 0, dtype=torch.long)
    for features in (x, sparse_if_worth(x)):
        twins = graph_of(features, edges, y, train)
        buffer = bound(FedERGNN(select="other_class")).experience({"data": twins, "model": None, "seed": 0})
        assert torch.equal(replay.dense(buffer, torch.arange(2)), x[[1, 3]])  # the first without a twin in the other
        lonely = graph_of(features, edges, 0 * y, train)
        buffer = bound(FedERGNN(select="other_class")).experience({"data": lonely, "model": None, "seed": 0})
        assert torch.equal(replay.dense(buffer, torch.arange(1)), x[[0]])


def test_other_class_counts_as_brute_force_does():
    data = PERIODS[2]
    chosen = bound(FedERGNN(select="other_class", distance=2.0)).experience({"data": data, "model": None, "seed": 0})
    best = []
    for rows in replay.class_rows(data):
        away = [j for j in data["train"].nonzero()[:, 0].tolist() if data["y"][j] != data["y"][rows[0]]]
        crowd = [sum(float((data["x"][i] - data["x"][j]).norm()) < 2.0 for j in away) for i in rows.tolist()]
        best.append(int(rows[crowd.index(min(crowd))]))
    assert torch.equal(chosen["x"], data["x"][best])


def test_a_large_class_is_sampled_by_the_jobs_seed():
    data = line([float(10 * place) for place in range(30)], [0.0, 290.0])
    few = FedERGNN(select="other_class", sample=3, keep=2)
    kept_by_seed = [kept(few, data, seed) for seed in range(12)]
    assert [kept(few, data, seed) for seed in range(12)] == kept_by_seed
    # the first two of three drawn, save those at the ends, which have company
    assert all(len(own) == 2 and own == sorted(own) and len(other) == 2 for own, other in kept_by_seed)
    assert len({tuple(own) for own, _ in kept_by_seed}) > 6
    assert max(max(own) for own, _ in kept_by_seed) > 100  # places in the sample are not places in the class
    assert kept(FedERGNN(select="other_class", sample=30, keep=2), data, 5)[0] == [10.0, 20.0]


def test_what_is_replayed_and_chosen_by_is_billed():
    algorithm = bound(FedERGNN(keep=2))
    _, memories, _ = history(algorithm)

    def job(period, memory):
        return Job(0, "train", period, {}, PERIODS[period], memory, 0)

    nodes = len(PERIODS[0]["y"])
    assert (algorithm.effort(job(0, {})), algorithm.extra_steps(job(0, {}))) == (1, 0)
    # the first job of a period counts what it is about to keep of the one before, the next finds it in the buffer
    assert [algorithm.effort(job(1, memory)) for memory in memories[2:4]] == [1 + 4 / nodes] * 2
    assert [algorithm.extra_steps(job(1, memory)) for memory in memories[2:4]] == [1 / 3, 0]
    assert bound(FedERGNN(select="mean")).extra_steps(job(1, memories[2])) == 0


def test_without_beta_the_new_period_weighs_as_much_as_the_buffer_holds():
    algorithm = bound(FedERGNN(beta=None))
    params = tree.stack([algorithm.task.init()] * 3)
    buffers = [replay.isolated(PERIODS[0], torch.arange(size)) for size in (0, 1, 7)]
    data, buffer = joining.union(PERIODS), joining.union(buffers)
    new, old = algorithm.task.loss(params, data), algorithm.task.loss(params, buffer)
    loss = algorithm.loss(params, data, {"buffer": buffer})
    for k, size in enumerate((0, 1, 7)):
        share = size / (int(PERIODS[k]["train"].sum()) + size) if size else 1.0
        assert float(loss[k]) == pytest.approx(float(share * new[k] + (1 - share) * old[k]), rel=1e-6)
    assert torch.equal(bound(FedERGNN(beta=0.1)).loss(params, data, {"buffer": buffer})[:1], new[:1])


def crowded(classes, seed):
    """Each class has a feature of its own, and all share another one, through which new classes drown old ones."""
    y = torch.tensor(classes)[torch.arange(24) % len(classes)]
    x = torch.eye(FEATURES)[y] + 0.1 * torch.randn(24, FEATURES, generator=torch.Generator().manual_seed(seed))
    x[:, 4] = 1.0
    train = torch.arange(24) < 12
    return graph_of(x, torch.zeros(2, 0, dtype=torch.long), y, train, ~train, ~train)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(3))
def test_replay_keeps_old_classes_that_fedavg_forgets(seed):
    periods = [crowded([0, 1], seed), crowded([2, 3], seed + 10)]

    def right(algorithm):
        state, _, _ = history(algorithm, periods, Trainer(Adam(0.03), 50), hidden=32, seed=seed)
        for data in periods:
            output = bound(algorithm, hidden=32, seed=seed).task.forward(tree.stack([state["model"]]), data).argmax(1)
            yield float((output == data["y"])[data["test"]].float().mean())

    old, new = right(FedAvg())
    assert old <= 0.1
    assert new >= 0.9
    for rule, beta in zip(RULES, (0.1, None, 0.1), strict=True):
        old, new = right(FedERGNN(select=rule, beta=beta))
        assert old >= 0.8
        assert new >= 0.8
