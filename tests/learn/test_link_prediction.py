"""Link prediction against plain torch, one graph at a time, and against scikit-learn."""

import itertools
import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from contexts import within
from hypothesis import given
from hypothesis import strategies as st
from learnlab import drawn, job_of, largest_gap
from metrics_by_name import built, of, values
from pydantic import TypeAdapter
from sklearn.metrics import accuracy_score, average_precision_score, roc_auc_score
from test_evaluate import Guess, Rows, models, observer_of, world_of

from algorithms.fedavg import FedAvg
from fedsim.core.errors import ScenarioError
from fedsim.core.seeds import integer
from fedsim.data.graph import Graph, Period, to_device, with_masks
from fedsim.data.graphs import pairs
from fedsim.learn.algorithm import Fit
from fedsim.learn.engine import joining, tree
from fedsim.learn.engine.optimiser import build as optimiser
from fedsim.learn.engine.training import Trainer
from fedsim.learn.models.gcn import GCN
from fedsim.learn.pairs import links, ranking
from fedsim.learn.task import bind
from fedsim.learn.tasks.link_prediction import LinkPrediction

METRICS = ["auc", "average_precision", "accuracy", "mrr"]
THEIRS = {
    "auc": lambda y, s: roc_auc_score(y, s),
    "average_precision": lambda y, s: average_precision_score(y, s),
    "accuracy": lambda y, s: accuracy_score(y, s > 0),
}


def task_of(**options):
    return bind(LinkPrediction(**options), GCN(hidden=5), 7, 1, 0, "cpu")


def graph_of_size(nodes, seed, *, train=None):
    """A random directed graph with loops and isolated nodes, all of them to train on or as told."""
    graph = drawn(nodes, seed)
    whole = torch.ones(nodes, dtype=torch.bool)
    return with_masks(graph, whole if train is None else train, ~whole, ~whole)


def asking(nodes, seed):
    """A graph with pairs of two later ones."""
    graph = Graph(**{**graph_of_size(nodes, seed), "node": torch.arange(nodes)})
    return pairs.ahead(graph, [drawn(nodes, seed + 100 + t) for t in (1, 2)], np.random.default_rng(seed))


def known(graph):
    """The links to learn from, as a set of unordered pairs."""
    return {
        (min(u, v), max(u, v))
        for u, v in graph["edges"].T.tolist()
        if u != v and graph["train"][u] and graph["train"][v]
    }


def seeded(graph, *seeds):
    return Graph(**{**graph, "seed": torch.tensor(seeds)})


GRAPHS = [(12, 0), (3, 1), (30, 2), (1, 3), (9, 4), (0, 5)]


@given(seed=st.integers(0, 10**6), share=st.sampled_from([0.5, 1.0]))
def test_links_are_each_edge_once_and_negatives_are_none_of_them(seed, share):
    generator = torch.Generator().manual_seed(seed)
    graphs = [graph_of_size(n, seed + s, train=torch.rand(n, generator=generator) < share) for n, s in GRAPHS]
    union = joining.union(graphs)
    found, start = links.of(union), 0
    apart = links.negatives(found, torch.arange(len(graphs)) + seed)
    assert found.counts.tolist() == [len(known(graph)) for graph in graphs]
    for k, graph in enumerate(graphs):
        own = found.client == k
        assert {*map(tuple, (found.ends[:, own] - start).T.tolist())} == known(graph)
        if found.free.counts[k]:
            members = set(graph["train"].nonzero().flatten().tolist())
            negatives = [(u - start, v - start) for u, v in apart[:, own].T.tolist()]
            assert len(negatives) == len(known(graph))
            assert not {*negatives} & known(graph)
            assert all(u < v and {u, v} <= members for u, v in negatives)
        start += len(graph["y"])


@pytest.mark.long
def test_every_non_edge_is_drawn_alike():
    graph = graph_of_size(12, 0)
    found = links.of(graph)
    counts = dict.fromkeys(set(itertools.combinations(range(12), 2)) - known(graph), 0)
    rounds = 4000
    for seed in range(rounds):
        for pair in links.negatives(found, torch.tensor([integer(seed, "x")])).T.tolist():
            counts[tuple(pair)] += 1
    mean = rounds * len(known(graph)) / len(counts)
    chi = sum((n - mean) ** 2 / mean for n in counts.values())
    assert chi < len(counts) + 4 * math.sqrt(2 * len(counts))


@pytest.mark.parametrize("normalise", [False, True])
def test_the_loss_is_that_of_plain_torch(normalise):
    task = task_of(normalise=normalise)
    graph, params = seeded(graph_of_size(15, 3), 77), tree.stack([task.init()])
    h = task.model.forward(params, graph)
    h = h / h.norm(dim=1, keepdim=True).clamp(min=1e-12) if normalise else h
    apart = links.negatives(links.of(graph), graph["seed"]).T.tolist()
    ends = [*sorted(known(graph)), *apart]
    logits = torch.stack([h[u] @ h[v] for u, v in ends])
    there = torch.cat([torch.ones(len(apart)), torch.zeros(len(apart))])
    expected = F.binary_cross_entropy_with_logits(logits, there)
    assert float(task.loss(params, graph)) == pytest.approx(float(expected), abs=1e-6)


def test_several_non_edges_a_link_weigh_as_their_class():
    task = task_of(opposed=3, weight=0.9)
    graph, params = seeded(graph_of_size(15, 3), 77), tree.stack([task.init()])
    found = links.of(graph)
    apart, h = links.negatives(found, graph["seed"], 3), task.model.forward(params, graph)
    first, count = links.negatives(found, graph["seed"]), found.ends.shape[1]
    assert apart.shape == (2, 3 * count)
    assert torch.equal(apart[:, :count], first)
    assert len({tuple(pair) for pair in apart.T.tolist()}) > count
    assert not {tuple(pair) for pair in apart.T.tolist()} & known(graph)
    ends = torch.cat([found.ends, apart], 1)
    there = (torch.arange(4 * count) < count).long()
    one = (h[ends[0]] * h[ends[1]]).sum(1)
    expected = F.cross_entropy(torch.stack([torch.zeros_like(one), one], 1), there, weight=torch.tensor([0.1, 0.9]))
    assert float(task.loss(params, graph)) == pytest.approx(float(expected), abs=1e-6)
    with pytest.raises(ValueError, match="weight"):
        TypeAdapter(LinkPrediction).validate_python({"weight": 1.0})


@pytest.mark.parametrize("width", [None, 3])
def test_the_embedding_has_the_width_that_is_asked_for(width):
    task = task_of(width=width)
    assert task.forward(tree.stack([task.init()]), graph_of_size(6, 0)).shape == (6, width or 5)
    assert task.flops(graph_of_size(6, 0)) > 3 * task.model.flops(graph_of_size(6, 0), task.outputs)


def test_a_cohort_has_the_losses_and_gradients_of_its_clients():
    task = task_of()
    graphs = [graph_of_size(n, s) for n, s in GRAPHS]
    torch.manual_seed(0)
    own = [tree.transform(lambda leaf: leaf + torch.randn(leaf.shape), task.init()) for _ in graphs]
    seeds = [1000 + 7 * k for k in range(len(graphs))]

    def trained(params, graph):
        leaves = tree.transform(lambda leaf: leaf.clone().requires_grad_(True), params)
        loss = task.loss(leaves, graph)
        return loss.detach(), torch.autograd.grad(loss.sum(), list(tree.leaves(leaves)))

    loss, grads = trained(tree.stack(own), seeded(joining.union(graphs), *seeds))
    assert loss.shape == (len(graphs),)
    for k, graph in enumerate(graphs):
        alone, grad = trained(tree.stack([own[k]]), seeded(graph, seeds[k]))
        assert float(loss[k]) == pytest.approx(float(alone), abs=1e-5)
        assert float(alone) == 0 or known(graph)
        for together, single in zip(grads, grad, strict=True):
            torch.testing.assert_close(together[k], single[0], atol=1e-5, rtol=1e-4)


def test_a_complete_graph_has_links_alone():
    ends = torch.tensor([*itertools.permutations(range(3), 2)]).T
    graph = Graph(**{**graph_of_size(3, 0), "edges": ends})
    task = task_of()
    params = tree.stack([task.init()])
    h = task.forward(params, graph)
    expected = torch.stack([F.softplus(-h[u] @ h[v]) for u, v in ((0, 1), (0, 2), (1, 2))]).mean()
    assert float(task.loss(params, graph)) == pytest.approx(float(expected), abs=1e-6)


def test_negatives_are_new_in_every_step_and_the_same_outside_training():
    task = bind(LinkPrediction(), GCN(hidden=5, dropout=0), 7, 1, 0, "cpu")
    graph, params = graph_of_size(30, 0), tree.stack([task.init()])
    assert float(task.loss(params, graph)) == float(task.loss(params, graph))
    assert float(task.loss(params, seeded(graph, 1))) == float(task.loss(params, seeded(graph, 1)))
    assert float(task.loss(params, seeded(graph, 1))) != float(task.loss(params, seeded(graph, 2)))


@pytest.mark.parametrize("steps", [1, 4])
def test_trained_together_or_one_by_one_clients_learn_the_same(steps):
    task = task_of()
    graphs = [graph_of_size(n, s) for n, s in GRAPHS if n]
    work = [(job_of(k, graph, {}), Fit(task.init(), lambda p, g, _: task.loss(p, g))) for k, graph in enumerate(graphs)]
    work = [(job, Fit(fit.start, work[0][1].loss)) for job, fit in work]
    trainer = Trainer(optimiser("adam", 0.01, 0, 0), steps, keep_state=False)
    together = trainer.train(work)
    for one, item in zip(together, work, strict=True):
        assert largest_gap(one, trainer.train([item])[0]) < 1e-5


def test_fedavg_weighs_clients_by_links_and_trains_none_without():
    task = task_of()
    algorithm = within(FedAvg(), task)
    graph, bare = graph_of_size(12, 0), graph_of_size(1, 0)
    assert algorithm.samples(graph) == len(known(graph))
    assert algorithm.samples(bare) == 0
    job = job_of(0, bare, {})
    object.__setattr__(job, "download", {"model": task.init()})
    with pytest.raises(StopIteration):
        next(algorithm.work(job))


def test_a_union_carries_the_pairs_of_its_graphs_shifted():
    plain = Graph(**{**graph_of_size(4, 1), "node": torch.arange(4)})
    graphs = [asking(9, 0), plain, asking(12, 2)]
    for shared in (False, True):
        union = joining.union(graphs, shared=shared)
        expected = torch.cat([graphs[0]["pairs"], graphs[2]["pairs"] + 13], 1)
        assert torch.equal(union["pairs"], expected)
        for key in ("links", "asked"):
            assert torch.equal(union[key], torch.cat([graphs[0][key], graphs[2][key]]))
    assert "pairs" not in joining.union([graphs[1], graphs[1]])
    kept = with_masks(graphs[0], *[graphs[0]["train"]] * 3)
    assert kept["pairs"] is to_device(graphs[0], "cpu")["pairs"]


def periods_of(client):
    """Two graphs with pairs; the second also under other masks, and again with other pairs on the same edges."""
    first, second = asking(10 + client, client), asking(14, 50 + client)
    again = pairs.ahead(second, [drawn(14, 7)] * 2, np.random.default_rng(client))
    other = with_masks(second, second["test"], second["train"], second["val"])
    return [Period(number, graph) for number, graph in enumerate((first, second, other, again))]


@pytest.mark.parametrize("as_shared", [True, False])
def test_every_score_equals_a_direct_computation(as_shared):
    torch.manual_seed(0)
    task, rows = task_of(), Rows()
    own = models(task)
    world = world_of(Guess(own[0] if as_shared else None, own), [0, 0, 0])
    for client, host in world.held.items():
        host.seen = periods_of(client)[: 4 - client]
    observer_of(world, task, rows, metrics=METRICS[:3]).score()
    found = {(r.model, r.split, r.metric, r.client, r.period): r for r in rows.rows if r.client >= 0}
    expected = 0
    for client, host in world.held.items():
        for period, (split, number), model in itertools.product(
            host.seen, (("val", 1), ("test", 2)), ("global", "local")
        ):
            graph, params = period.graph, own[0] if model == "global" and as_shared else own[client]
            h = task.forward(tree.stack([params]), graph)
            asked = graph["asked"] == number
            score = np.array([float((h[u] * h[v]).sum()) for u, v in graph["pairs"][:, asked].T.tolist()])
            for metric in METRICS[:3]:
                row = found[model, split, metric, client, period.number]
                assert row.weight == int(asked.sum())
                assert row.value == pytest.approx(THEIRS[metric](graph["links"][asked].numpy(), score)), metric
                expected += 1
    assert len(found) == expected


def test_negatives_of_ranks_are_of_the_same_period_and_of_all_clients(monkeypatch):
    torch.manual_seed(0)
    task, rows, groups = task_of(negatives=30), Rows(), []
    world = world_of(Guess(models(task)[0], models(task)), [0, 0, 0])
    for client, host in world.held.items():
        host.seen = [Period(0, asking(10 + client, client)), Period(1, asking(14, 50 + client))][: 2 - client // 2]
    rank = ranking.mrr

    def watched(h, positives, owner, owners, group, *others, **options):
        groups.append(torch.bincount(group).tolist())
        assert torch.equal(group[positives[0]], group[positives[1]])
        return rank(h, positives, owner, owners, group, *others, **options)

    monkeypatch.setattr(ranking, "mrr", watched)
    observer_of(world, task, rows, metrics=["mrr"], models=["global"], splits=["test"]).score()
    assert groups == [[10 + 11 + 12, 14 + 14]] * 2  # for each client, and for all of them as one
    assert len([row for row in rows.rows if row.client >= 0]) == 5
    assert all(1 / 31 <= row.value <= 1 for row in rows.rows)


def test_the_public_codes_ranks_are_an_option():
    graph, owner = asking(20, 0), torch.zeros(0)
    task, plain = task_of(mrr="sampled_rows"), task_of()
    rows = task.targets(graph, "test")
    owner = torch.zeros_like(rows)
    h = task.forward(tree.stack([task.init()]), graph)
    values = [float(one.scores(h, graph, rows, owner, 1, built("mrr"))["mrr"]) for one in (task, plain)]
    assert values[0] > 3 * values[1]


@pytest.mark.parametrize("name", METRICS[:3])
@given(rows=st.integers(0, 40), levels=st.integers(1, 30), owners=st.integers(1, 4), seed=st.integers(0, 10**6))
def test_metrics_agree_with_scikit_learn_for_each_owner(name, rows, levels, owners, seed):
    rng = np.random.default_rng(seed)
    logits, y = torch.from_numpy(rng.integers(levels, size=rows) - levels / 2), torch.from_numpy(rng.random(rows) < 0.5)
    owner = torch.from_numpy(rng.integers(owners, size=rows))
    found = values(name, logits, y, owner, owners)
    assert found.shape == (owners,)
    assert found.dtype == torch.double
    for k in range(owners):
        own = owner == k
        some = {"auc": 0 < int(y[own].sum()) < int(own.sum()), "average_precision": y[own].any(), "accuracy": own.any()}
        if some[name]:
            assert float(found[k]) == pytest.approx(THEIRS[name](y[own].numpy(), logits[own].numpy()))
        else:
            assert math.isnan(found[k])


def test_random_scores_are_worth_one_half_and_what_is_no_number_no_more():
    torch.manual_seed(0)
    y, owner = torch.arange(20000) % 2 == 0, torch.zeros(20000, dtype=torch.long)
    for logits in (torch.randn(20000), torch.full((20000,), torch.nan)):
        for name in METRICS[:3]:
            assert float(values(name, logits, y, owner, 1)) == pytest.approx(0.5, abs=0.02)
    torn = torch.where(y, torch.nan, -1.0)
    assert float(values("auc", torn, y, owner, 1)) == 0


def test_every_metric_of_links_is_tried_here():
    assert {*of("links")} | {*of("embeddings")} == {*METRICS}


def test_without_pairs_there_is_nothing_to_score_and_one_message_says_so():
    with pytest.raises(ScenarioError, match=r"^task: 'link_prediction' is scored on edges of later snapshots"):
        task_of().targets(graph_of_size(4, 0), "test")
