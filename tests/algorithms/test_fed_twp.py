"""Fed-TWP: FedAvg's messages, importances and gradients held against a dense model, and parameters that stay."""

from itertools import pairwise

import pytest
import torch
import torch.nn.functional as F
from camps import gap
from contexts import within
from learnlab import drawn_task
from one_client import lived

from algorithms.fed_twp import FedTWP
from algorithms.fedavg import FedAvg
from fedsim.core import wire
from fedsim.data.graph import graph_of, with_masks
from fedsim.learn.algorithm import Job
from fedsim.learn.continual import retention
from fedsim.learn.engine import joining, ops, tree
from fedsim.learn.engine.cohort import JobQueue
from fedsim.learn.engine.optimiser import Adam
from fedsim.learn.engine.training import Trainer
from fedsim.learn.models.gat import GAT
from fedsim.learn.models.gcn import GCN
from fedsim.learn.models.mlp import MLP

SEEDS = range(4)


def graph(classes, seed, nodes=24):
    """Nodes around their class's mean, joined at random within the class."""
    generator = torch.Generator().manual_seed(seed)
    y = torch.tensor(classes)[torch.arange(nodes) % len(classes)]
    train = torch.rand(nodes, generator=generator) < 0.5
    means = 2 * torch.eye(5)
    x = means[y] + 0.5 * torch.randn(nodes, 5, generator=generator)
    pairs = torch.randint(nodes, (2, 3 * nodes), generator=generator)
    pairs = torch.unique(pairs[:, y[pairs[0]] == y[pairs[1]]], dim=1)
    return graph_of(x, pairs, y, train, ~train, ~train)


PERIODS = [graph([0, 1], 1), graph([2, 3], 2), graph([1, 4], 3)]


def bound(algorithm, model=None, seed=0):
    return within(algorithm, drawn_task(model or GAT(hidden=6), 5, 5, seed))


def history(algorithm, *, model=None, seed=0, periods=PERIODS, rounds=2, steps=2):
    """Some rounds a period with one client: states, memories after each round, and the uploads."""
    trainer = Trainer(Adam(0.02), steps)
    return lived(bound(algorithm, model, seed), periods, rounds, trainer)[:3]


def close(one, other, rtol=1e-4, atol=1e-5):
    for a, b in zip(tree.leaves(one), tree.leaves(other), strict=True):
        torch.testing.assert_close(a, b, rtol=rtol, atol=atol)


# ---- a dense GAT that autograd differentiates, without the client axis


def dense(params, data):
    """The logits and the first layer's attention, as matrices."""
    there = torch.eye(len(data["y"]), dtype=torch.bool)
    there[data["edges"][1], data["edges"][0]] = True
    h, shares = data["x"], []
    for name in ("layer1", "layer2"):
        p = params[name]
        moved = h @ p["weight"]
        raw = F.leaky_relu((moved @ p["target"])[:, None] + (moved @ p["source"])[None, :], 0.2)
        shares.append(torch.softmax(raw.masked_fill(~there, -torch.inf), 1))
        h = shares[-1] @ moved + p["bias"]
        h = torch.relu(h) if name == "layer1" else h
    return h, shares[0]


def dense_loss(params, data):
    return F.cross_entropy(dense(params, data)[0][data["train"]], data["y"][data["train"]])


def dense_slopes(model, function, **options):
    """The parameters of one client, required to have gradients, and the gradients of a function of them."""
    params = tree.transform(lambda leaf: leaf.clone().requires_grad_(True), model)
    found = torch.autograd.grad(function(params), list(tree.leaves(params)), materialize_grads=True, **options)
    order = iter(found)
    return params, tree.transform(lambda _: next(order), params)


def squares(gradient):
    return tree.transform(torch.square, gradient)


@pytest.mark.parametrize("seed", SEEDS)
def test_importances_are_squared_gradients_of_the_loss_and_of_the_attentions_norm(seed):
    model = bound(FedTWP(), seed=seed).task.init()
    _, of_loss = dense_slopes(model, lambda p: dense_loss(p, PERIODS[0]))
    _, of_topology = dense_slopes(model, lambda p: dense(p, PERIODS[0])[1].norm())
    mine = bound(FedTWP(lambda_loss=3.0, lambda_topology=0.0)).importance(model, PERIODS[0])
    close(mine, tree.scale(squares(of_loss), 3.0))
    mine = bound(FedTWP(lambda_loss=0.0, lambda_topology=5.0)).importance(model, PERIODS[0])
    close(mine, tree.scale(squares(of_topology), 5.0))
    both = bound(FedTWP(preset="official", lambda_loss=3.0, lambda_topology=5.0)).importance(model, PERIODS[0])
    summed = tree.scale(squares(tree.add(of_loss, of_topology)), 5.0)
    close(both, tree.add(tree.scale(squares(of_loss), 3.0), summed))
    assert gap(tree.zeros_like(model), squares(of_topology)) > 1e-6


@pytest.mark.parametrize("model", [GCN(hidden=6), MLP(hidden=6), MLP(layers=1), GAT(layers=1)])
def test_a_model_without_attention_is_weighed_by_its_embedding(model):
    algorithm = bound(FedTWP(lambda_loss=0.0, lambda_topology=1.0), model)
    params, data = algorithm.task.init(), PERIODS[0]
    mine = algorithm.importance(params, data)
    task = algorithm.task
    if isinstance(model, GAT):
        _, wanted = dense_slopes(params, lambda p: model.attention(tree.stack([p]), data).square().sum().sqrt())
    else:
        last = task.embed if model.layers > 1 else task.forward
        _, wanted = dense_slopes(params, lambda p: last(tree.stack([p]), data).square().sum().sqrt())
    close(mine, squares(wanted))
    assert gap(mine, tree.zeros_like(mine)) > 1e-6


def test_the_norm_of_the_gradient_is_itself_differentiated_for_each_client():
    algorithm = bound(FedTWP(beta=0.1))
    models = [bound(FedTWP(), seed=seed).task.init() for seed in range(3)]
    params = tree.transform(lambda leaf: leaf.clone().requires_grad_(True), tree.stack(models))
    none = {"weight": tree.zeros_like(params), "mean": tree.zeros_like(params)}
    loss = algorithm.loss(params, joining.union(PERIODS), none)
    slopes = iter(torch.autograd.grad(loss.sum(), list(tree.leaves(params))))
    mine = tree.transform(lambda _: next(slopes), params)
    for k, (model, data) in enumerate(zip(models, PERIODS, strict=True)):

        def printed(p, data=data):
            inner = torch.autograd.grad(dense_loss(p, data), list(tree.leaves(p)), create_graph=True)
            return dense_loss(p, data) + 0.1 * sum(slope.abs().sum() for slope in inner)

        torch.testing.assert_close(loss[k].detach(), printed(dense_slopes(model, printed)[0]).detach())
        close(tree.at(mine, k), dense_slopes(model, printed)[1], rtol=1e-3, atol=1e-5)
        without = dense_slopes(model, lambda p, data=data: dense_loss(p, data))[1]
        assert gap(tree.at(mine, k), without) > 1e-2


def test_the_penalty_has_the_gradient_of_the_sum_over_periods():
    algorithm = bound(FedTWP(lambda_loss=2.0, lambda_topology=3.0, beta=0.0))
    _, memories, _ = history(algorithm)
    terms = [
        (algorithm.importance(memories[last]["local"], data), memories[last]["local"])
        for last, data in ((2, PERIODS[0]), (4, PERIODS[1]))
    ]
    model = memories[6]["local"]

    def printed(params):
        flat = [
            (a * (theta - best).square()).sum()
            for weight, kept in terms
            for a, theta, best in zip(tree.leaves(weight), tree.leaves(params), tree.leaves(kept), strict=True)
        ]
        return sum(flat)

    past = tree.stack([memories[5]["past"]])
    _, mine = dense_slopes(model, lambda p: retention.pull(past, tree.stack([p])).sum())
    close(mine, dense_slopes(model, printed)[1], rtol=1e-3, atol=1e-6)


def test_a_period_is_closed_once_when_the_next_has_begun():
    _, memories, _ = history(FedTWP())
    weights = [memory["past"]["weight"] for memory in memories[1:]]
    nothing = tree.zeros_like(weights[0])
    assert [gap(weight, nothing) > 0 for weight in weights] == [False, False, True, True, True, True]
    assert [gap(a, b) > 0 for a, b in pairwise(weights)] == [False, True, False, True, False]


def test_a_period_without_training_nodes_leaves_nothing():
    none = torch.zeros(24, dtype=torch.bool)
    empty = with_masks(PERIODS[1], none, none, none)
    _, memories, _ = history(FedTWP(), periods=[PERIODS[0], empty, PERIODS[2]])
    assert gap(memories[3]["past"]["weight"], memories[6]["past"]["weight"]) == 0


# ---- presets


def test_the_official_preset_trains_on_twice_the_loss_and_the_penalty():
    algorithm = bound(FedTWP(preset="official"))
    params = tree.stack([algorithm.task.init()])
    past = {"weight": tree.transform(torch.ones_like, params), "mean": tree.zeros_like(params)}
    wanted = 2 * algorithm.task.loss(params, PERIODS[0]) + tree.sq_distance(params, past["mean"])
    torch.testing.assert_close(algorithm.loss(params, PERIODS[0], past), wanted)


def test_the_official_preset_looks_at_the_next_call_with_dropout():
    algorithm = bound(FedTWP(preset="official"))
    _, memories, _ = history(algorithm)
    seen = {**PERIODS[1], "seed": ops.seed_steps(torch.tensor([2]), 0, 63)}
    assert gap(memories[3]["past"]["weight"], algorithm.importance(memories[2]["local"], seen)) == 0
    later = with_masks(PERIODS[0], ~PERIODS[0]["train"], PERIODS[0]["train"], PERIODS[0]["test"])
    _, memories, _ = history(algorithm, periods=[PERIODS[0], later])
    seen = {**PERIODS[0], "seed": seen["seed"]}
    assert gap(memories[3]["past"]["weight"], algorithm.importance(memories[2]["local"], seen)) == 0


# ---- as a federated algorithm


def test_without_its_terms_it_is_fedavg():
    off = FedTWP(lambda_loss=0.0, lambda_topology=0.0, beta=0.0)
    assert gap(history(off)[0][-1]["model"], history(FedAvg())[0][-1]["model"]) == 0
    for on in (FedTWP(beta=0.0), FedTWP(lambda_loss=0.0, lambda_topology=0.0), FedTWP(preset="official")):
        assert gap(history(on)[0][-1]["model"], history(FedAvg())[0][-1]["model"]) > 1e-3


def test_its_messages_are_as_large_as_fedavgs():
    states, _, uploads = history(FedTWP())
    plain, _, others = history(FedAvg())
    assert [wire.size(one) for one in uploads] == [wire.size(one) for one in others]
    for algorithm, own in ((FedTWP(), states), (FedAvg(), plain)):
        sizes = {wire.size(algorithm.download(state, 0, "train")) for state in own}
        assert sizes == {wire.size({"model": plain[0]["model"]})}
    arrays = 5 * 6 + 3 * 6 + 6 * 5 + 3 * 5
    assert all(wire.array_bytes(one) == 4 * arrays for one in uploads)
    assert [one["samples"] for one in uploads] == [one["samples"] for one in others]


def test_clients_train_together_as_they_train_alone():
    algorithm = bound(FedTWP(lambda_loss=10.0, lambda_topology=10.0))
    download = algorithm.download(algorithm.start(), 0, "train")
    together, alone = [], []
    for batch, found in ((True, together), (False, alone)):
        cohort, memories = JobQueue(algorithm, Trainer(Adam(0.02), 2), batch=batch), [{}, {}, {}]
        for period in range(2):
            jobs = [
                Job(k, "train", period, download, PERIODS[k - period], memories[k], 10 * period + k) for k in range(3)
            ]
            promises = [cohort.submit(job) for job in jobs]
            found.extend(promise.value()["update"] for promise in promises)
            memories = [dict(promise.memory()) for promise in promises]
    for a, b in zip(together, alone, strict=True):
        close(a, b, atol=1e-4)


# ---- what it is for


def moved(algorithm, seed):
    """Θ*₁, its importances, and how far every parameter has moved after a second period: three flat vectors."""
    states, memories, _ = history(algorithm, seed=seed, periods=PERIODS[:2], rounds=6, steps=3)
    kept, after = memories[6]["local"], states[-1]["model"]
    weight = bound(FedTWP(beta=0.0)).importance(kept, PERIODS[0])
    flat = [torch.cat([leaf.flatten() for leaf in tree.leaves(one)]) for one in (kept, weight, after)]
    return flat[0], flat[1], (flat[2] - flat[0]).abs()


@pytest.mark.long
@pytest.mark.parametrize("seed", SEEDS)
def test_what_mattered_for_a_period_moves_less_than_under_fedavg_and_the_rest_still_moves(seed):
    kept, weight, near = moved(FedTWP(beta=0.0), seed)
    same, _, far = moved(FedAvg(), seed)
    assert torch.equal(kept, same)  # both have learned the first period alike
    tenth = len(weight) // 10
    order = torch.argsort(weight)
    unimportant, important = order[:tenth], order[-tenth:]
    assert near[important].mean() < 0.5 * far[important].mean()
    assert near[unimportant].mean() > 0.5 * far[unimportant].mean()
