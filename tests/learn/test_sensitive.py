"""Sensitive nodes against Equations 4 to 10 in plain numpy, on small graphs that lose and win edges."""

import math

import numpy as np
import pytest
import torch
from changing import shaken
from hypothesis import given, settings
from hypothesis import strategies as st
from learnlab import drawn_task

from algorithms.feddgl import sensitive
from fedsim.data.graph import graph_of, with_keys
from fedsim.learn.engine import tree
from fedsim.learn.models.evolve_gcn_h import EvolveGCNH
from fedsim.learn.models.gcn import GCN

FEATURES, CLASSES = 7, 3


def snapshots(seed, n=24, count=3):
    """Snapshots of the same nodes: few edges, so that many nodes have none; features stay."""
    rng = np.random.default_rng(seed)
    x, y = rng.standard_normal((n, FEATURES)).astype(np.float32), rng.integers(0, CLASSES, n)
    train, node = rng.random(n) < 0.9, np.sort(rng.choice(100, n, replace=False))
    found = []
    for _ in range(count):
        a = np.triu(rng.random((n, n)) < 0.02, 1)
        a |= a.T
        source, target = a.nonzero()
        mask = torch.from_numpy(train)
        graph = graph_of(
            torch.from_numpy(x), torch.from_numpy(np.stack([source, target])), torch.from_numpy(y), mask, ~mask
        )
        found.append(with_keys(graph, {"node": torch.from_numpy(node)}))
    return found


def adjacency(graph):
    a = np.zeros((len(graph["y"]),) * 2)
    source, target = graph["edges"].numpy()
    a[target, source] = 1
    return a


def cross_entropy(params, graph):
    """Of a GCN of two layers, at every node."""
    a = adjacency(graph) + np.eye(len(graph["y"]))
    a = a / np.sqrt(np.outer(a.sum(1), a.sum(1)))
    one, two = ({key: leaf.numpy().astype(float) for key, leaf in params[f"layer{i}"].items()} for i in (1, 2))
    h = np.maximum(a @ graph["x"].numpy() @ one["weight"] + one["bias"], 0)
    logits = a @ h @ two["weight"] + two["bias"]
    return np.log(np.exp(logits).sum(1)) - logits[np.arange(len(h)), graph["y"].numpy()]


def by_hand(params, graphs, q, share, layers=2):
    """Candidates, and the sensitive ones of the last snapshot, most sensitive first."""
    *past, before, now = graphs
    learned = np.zeros(len(now["y"]), dtype=bool)
    for graph in (*past, before):
        learned |= graph["train"].numpy() & (adjacency(graph).sum(1) > 0)
    ever = np.maximum.reduce([adjacency(graph) for graph in graphs])
    active = adjacency(now).sum(1) > 0
    v, total = active.astype(float), np.zeros(len(active))
    for _ in range(layers):
        v = ever @ v
        total += v
    among = np.flatnonzero(learned & now["train"].numpy() & (total == 0) & ~active)
    old, new = cross_entropy(params, before), cross_entropy(params, now)
    well = [i for i in among if old[i] < q * old[among].mean()]
    best = sorted(well, key=lambda i: old[i] - new[i])[: math.ceil(share * len(among))]
    return among.tolist(), [int(i) for i in best], new - old


def chosen(graphs, params, q, share, rule="edges"):
    memory = {}
    for graph in graphs[:-1]:
        memory |= sensitive.notes(memory, graph, graph["train"] & sensitive.active(graph))
    task = drawn_task(GCN(hidden=5))
    among = sensitive.candidates(graphs[-1], memory["learned"], memory["ever"], 2, rule)
    return among, sensitive.choose(task, params, graphs[-2], graphs[-1], among, q=q, share=share)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from([0.5, 1.0, 2.0]), st.sampled_from([0.1, 0.5, 1.0]))
def test_the_choice_is_that_of_the_equations(seed, q, share):
    graphs, params = snapshots(seed), shaken(drawn_task(GCN(hidden=5)).init(), seed % 7)
    among, rows = chosen(graphs, params, q, share)
    expected, best, _ = by_hand(params, graphs, q, share)
    assert among.nonzero().squeeze(1).tolist() == expected
    assert rows.tolist() == best


def test_some_of_those_graphs_have_something_to_choose_from():
    params = shaken(drawn_task(GCN(hidden=5)).init(), 1)
    sizes = [len(by_hand(params, snapshots(seed), 2.0, 0.5)[1]) for seed in range(30)]
    assert sum(size > 1 for size in sizes) > 5
    assert 0 in sizes


def test_an_edge_of_long_ago_keeps_a_node_in_reach():
    path = [snapshots(0, 6)[0] for _ in range(3)]
    for graph, ends in zip(path, ([(0, 1)], [(2, 3)], [(1, 4)]), strict=True):
        edges = torch.tensor(ends).T
        graph["edges"], graph["train"] = torch.cat([edges, edges.flip(0)], 1), torch.ones(6, dtype=torch.bool)
    task = drawn_task(GCN(hidden=5))
    assert chosen(path, task.init(), 9.0, 1.0)[0].tolist() == [False, False, True, True, False, False]


@pytest.mark.parametrize("seed", range(3))
def test_nothing_is_lost_where_active_means_changed_and_much_where_it_means_having_edges(seed):
    before, now = snapshots(seed, n=40, count=2)
    pairs = torch.arange(40).view(-1, 2).T
    before["edges"], now["edges"] = (torch.cat([some, some.flip(0)], 1) for some in (pairs, pairs[:, 3:]))
    now = with_keys(now, {"changed": torch.arange(40) < 6})
    task = drawn_task(GCN(hidden=5))
    params = shaken(task.init(), seed)
    among, _ = chosen([before, now], params, 9.0, 1.0, "changed")
    rows = among.nonzero().squeeze(1)
    assert len(rows) > 2
    lost = sensitive.losses(task, params, now, rows) - sensitive.losses(task, params, before, rows)
    assert not lost.any()
    among, _ = chosen([before, now], params, 9.0, 1.0)
    rows = among.nonzero().squeeze(1)
    assert len(rows)
    lost = sensitive.losses(task, params, now, rows) - sensitive.losses(task, params, before, rows)
    assert lost.all()


def test_where_nothing_qualifies_nobody_is_chosen():
    graphs, params = snapshots(3), drawn_task(GCN(hidden=5)).init()
    for q, mask in ((0.0, None), (1.0, torch.zeros(24, dtype=torch.bool))):
        chosen_graphs = [with_keys(g, {} if mask is None else {"train": mask}) for g in graphs]
        assert chosen(chosen_graphs, params, q, 1.0)[1].tolist() == []
    held = sensitive.held(graphs[0], torch.zeros(0, dtype=torch.long), torch.zeros(0, 5), whole=True)
    assert len(held["y"]) == 0


def test_nodes_without_edges_are_held_alike_with_the_graph_around_them_and_without():
    graph = snapshots(5)[0]
    task = drawn_task(GCN(hidden=5, dropout=0.0))
    alone = (~sensitive.active(graph)).nonzero().squeeze(1)
    assert len(alone) > 1
    targets = torch.randn(len(alone), 5, generator=torch.Generator().manual_seed(0))
    params = tree.stack([shaken(task.init(), 1)])
    small, large = (sensitive.held(graph, alone, targets, whole=whole) for whole in (False, True))
    assert (len(small["y"]), len(large["y"])) == (len(alone), 24)
    torch.testing.assert_close(task.loss(params, small), task.loss(params, large))
    assert torch.equal(large["target"][alone], targets)
    assert int(large["train"].sum()) == len(alone)


def test_the_graph_around_is_wanted_by_models_that_look_at_all_of_it_and_by_nodes_with_edges():
    plain, pooling = drawn_task(GCN(hidden=5)), drawn_task(EvolveGCNH(hidden=5))
    assert [sensitive.whole(plain, "edges"), sensitive.whole(plain, "changed")] == [False, True]
    assert sensitive.whole(pooling, "edges")


def test_the_teacher_is_asked_in_the_snapshot_before():
    before, now = snapshots(6, count=2)
    task = drawn_task(GCN(hidden=5, dropout=0.0))
    params = shaken(task.init(), 2)
    rows = torch.tensor([3, 1])
    found = sensitive.taught(task, params, before, now["node"][rows])
    h = task.embed(tree.stack([params]), before)[rows]
    torch.testing.assert_close(found, h / h.norm(dim=1, keepdim=True).clamp(min=1e-12))
