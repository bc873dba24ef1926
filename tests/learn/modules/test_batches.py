"""Batches of rows and of nodes: which rows a step takes, what it computes, and what is billed for it."""

from copy import deepcopy

import numpy as np
import plain_nets
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from test_modules import CLASSES, RATE, STEPS, clients, federation
from torch import nn

from fedsim.data.graph import graph_of
from fedsim.learn.engine.cohort import JobQueue
from fedsim.learn.engine.optimiser import SGD
from fedsim.learn.modules.batches import Batches
from fedsim.learn.modules.neighbours import in_edges, sampled
from fedsim.learn.modules.trainer import ModuleTrainer, training_rows


def rows(n: int, edges: int = 0, seed: int = 0):
    drawn = torch.Generator().manual_seed(seed)
    x, y = torch.randn(n, 5, generator=drawn), torch.randint(CLASSES, (n,), generator=drawn)
    return graph_of(x, torch.randint(n, (2, edges), generator=drawn), y, torch.arange(n) % 3 > 0)


@given(n=st.integers(1, 40), batch=st.integers(1, 12), seed=st.integers(0, 2**62))
def test_a_pass_takes_no_row_twice_and_each_batch_is_full(n, batch, seed):
    graph = training_rows(rows(n))
    total, per_pass = len(graph["y"]), max(1, len(graph["y"]) // batch)
    batches = [Batches(batch).of(graph, seed, step) for step in range(2 * per_pass)]
    assert [len(part["y"]) for part in batches] == [min(batch, total)] * len(batches)
    assert all(bool(part["train"].all()) for part in batches)
    for begin in (0, per_pass):
        taken = [tuple(row) for part in batches[begin : begin + per_pass] for row in part["x"].tolist()]
        assert len({*taken}) == len(taken)
        assert {*taken} <= {tuple(row) for row in graph["x"].tolist()}


def batched(case, steps, batch, neighbours=()):
    run = federation(*case)
    resident = run.algorithm.task.model.resident
    run.trainer = ModuleTrainer(
        SGD(RATE, momentum=0.5), steps, keep_state=False, resident=resident, step_data=Batches(batch, neighbours)
    )
    run.cohort = JobQueue(run.algorithm, run.trainer)
    return run


def test_training_on_batches_equals_a_loop_in_pytorch():
    run = batched((plain_nets.Images, clients(1, 8, 8), 1), 7, 4)
    resident, graph = run.algorithm.task.model.resident, run.graphs[2]
    net = deepcopy(resident.module).train()
    net.load_state_dict({**resident.first_buffers, **run.state["model"]})
    reply = run.work([2])[0]
    sgd, data = torch.optim.SGD(net.parameters(), lr=RATE, momentum=0.5), training_rows(graph)
    every = data["train"].nonzero().squeeze(1)
    for step in range(7):
        part = Batches(4).of(data, 1, step)  # of the first job, whose seed is 1
        assert len(part["y"]) == 4 < len(every)
        sgd.zero_grad()
        F.cross_entropy(net(part["x"]), part["y"]).backward()
        sgd.step()
    for name, value in reply.upload["update"].items():
        expected = net.state_dict()[name] - run.state["model"][name]
        assert torch.allclose(value, expected, atol=1e-6)
        assert value.any() or name == "body.0.bias"  # which BatchNorm takes away


def test_batches_do_not_hang_on_who_trains_beside():
    alone, together = (batched((plain_nets.Adapted, clients(5), 5), 5, 3) for _ in range(2))
    together.asked = alone.asked = 10
    beside = together.work([1, 0])[0].upload["update"]
    only = alone.work([1])[0].upload["update"]
    assert all(torch.equal(value, beside[name]) for name, value in only.items())


def test_a_client_with_fewer_rows_trains_on_all_that_it_has():
    graph = training_rows(rows(9))
    assert Batches(32).of(graph, 3, 5) is graph
    linked = rows(9, edges=20)
    assert Batches(32).of(linked, 3, 5) is linked


def brute_force(graph, seeds, most):
    """Entries of edges that lead to the seeds by as many steps, where every neighbour is taken, and the nodes."""
    source, target = graph["edges"].tolist()
    met, frontier, entries = [*seeds], {*seeds}, set()
    for _ in most:
        new = {e for e in range(len(source)) if target[e] in frontier}
        entries |= new
        frontier = {source[e] for e in new} - {*met}
        met += sorted(frontier)
    return met, entries


@given(n=st.integers(2, 25), edges=st.integers(0, 80), layers=st.integers(1, 3), seed=st.integers(0, 99))
def test_all_neighbours_are_the_brute_force_ones(n, edges, layers, seed):
    graph, rng = rows(n, edges, seed), np.random.default_rng(seed)
    near, seeds = in_edges(graph["edges"].numpy(), n), rng.permutation(n)[: 1 + n // 4]
    nodes, places, entries = sampled(near, seeds, [edges + 1] * layers, rng)
    met, expected = brute_force(graph, seeds.tolist(), range(layers))
    assert nodes.tolist() == met
    assert sorted(entries.tolist()) == sorted(expected)
    assert np.array_equal(nodes[places], graph["edges"].numpy()[:, entries])


@given(n=st.integers(2, 25), edges=st.integers(0, 120), most=st.integers(1, 4), seed=st.integers(0, 99))
def test_at_most_so_many_neighbours_are_drawn_and_none_twice(n, edges, most, seed):
    graph, rng = rows(n, edges, seed), np.random.default_rng(seed)
    target = graph["edges"][1].numpy()
    nodes, places, entries = sampled(in_edges(graph["edges"].numpy(), n), np.array([0, 1]), [most, most], rng)
    assert len({*entries.tolist()}) == len(entries)
    assert len({*nodes.tolist()}) == len(nodes)
    assert np.array_equal(nodes[places], graph["edges"].numpy()[:, entries])
    degree, drawn = np.bincount(target, minlength=n), np.bincount(target[entries], minlength=n)
    assert (drawn <= np.minimum(degree, most)).all()
    assert (drawn[:2] == np.minimum(degree, most)[:2]).all()


def test_draws_are_uniform():
    star = in_edges(np.stack([np.arange(1, 11), np.zeros(10, dtype=np.int64)]), 11)
    counts = np.zeros(11)
    for seed in range(4000):
        counts[sampled(star, np.array([0]), [3], np.random.default_rng(seed))[0][1:]] += 1
    assert abs(counts[1:] / 4000 - 0.3).max() < 0.04  # five standard deviations


class Sums(nn.Module):
    """Two layers that add what weighted edges bring, with features of edges."""

    def __init__(self, features: int, classes: int) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(features, 4), nn.Linear(4, classes)

    def forward(self, x, edge_index, edge_attr):
        for layer in (self.first, self.second):
            source, target = edge_index
            x = layer(x + torch.zeros_like(x).index_add(0, target, x[source] * edge_attr[:, :1]))
        return x


def test_with_all_neighbours_and_nodes_training_is_that_on_the_whole_graph():
    graphs = clients(5, edges=True)
    whole = federation(Sums, graphs, 5)
    parts = batched((Sums, graphs, 5), STEPS, 1000, (1000, 1000))
    for one, other in zip(whole.work([0, 1, 2]), parts.work([0, 1, 2]), strict=True):
        for name, value in one.upload["update"].items():
            assert torch.allclose(value, other.upload["update"][name], atol=1e-6)


def test_the_loss_of_a_batch_of_nodes_is_that_of_its_seeds_in_the_whole_graph():
    run = federation(Sums, clients(5, edges=True), 5)
    graph, task = run.graphs[2], run.algorithm.task
    params = {name: leaf.unsqueeze(0) for name, leaf in run.state["model"].items()}
    part, masked = Batches(4, (1000, 1000)).of(graph, 7, 2), Batches(4).of(graph, 7, 2)
    assert int(part["train"].sum()) == int(masked["train"].sum()) == 4
    assert len(part["y"]) < len(graph["y"])
    assert torch.allclose(task.loss(params, part), task.loss(params, masked), atol=1e-6)


def test_a_step_is_billed_by_its_batch():
    run = batched((plain_nets.Adapted, clients(5), 5), 3, 4)
    task, graph = run.algorithm.task, run.graphs[2]
    some = task.flops(Batches(4).of(training_rows(graph), 0, 0))
    assert run.trainer.step_flops(task.flops(graph), task, graph) == some
    assert 0 < some < task.flops(training_rows(graph)) < task.flops(graph)
    linked = clients(5, edges=True)[2]
    run = batched((Sums, clients(5, edges=True), 5), 3, 4, (2, 1))
    task = run.algorithm.task
    sampled_step = run.trainer.step_flops(task.flops(linked), task, linked)
    sizes = [Batches(4, (2, 1)).of(linked, seed, 0) for seed in range(4)]
    assert sampled_step == pytest.approx(sum(map(task.flops, sizes)) / 4)
    assert 0 < sampled_step < task.flops(linked)


def test_what_is_done_beside_training_is_billed_by_the_whole_graph():
    class Beside(type(federation(plain_nets.Adapted, clients(5), 5).algorithm)):
        def extra_steps(self, job):
            return 0.5

    run = batched((plain_nets.Adapted, clients(5), 5), 3, 4)
    method = Beside(context=run.algorithm.context)
    run.algorithm, run.cohort = method, JobQueue(method, run.trainer)
    whole = method.task.flops(run.graphs[2])
    step = run.trainer.step_flops(whole, method.task, run.graphs[2])
    bills = []
    run.cohort.submit = lambda job, submit=run.cohort.submit: (bills.append(run.cohort.flops(job)), submit(job))[1]
    run.work([2])
    assert bills == [pytest.approx(3 * step + 0.5 * whole)]
