"""Which nodes are kept and how they are replayed (power.md 2.2, 2.3), against brute force."""

import torch
from contexts import within
from hypothesis import given, settings
from hypothesis import strategies as st

from algorithms.fed_ergnn import FedERGNN
from fedsim.data.graph import graph_of, sparse_if_worth
from fedsim.learn.continual import replay
from fedsim.learn.engine import joining, tree
from fedsim.learn.models.gat import GAT
from fedsim.learn.task import bind as bind_task
from fedsim.learn.tasks.node_classification import NodeClassification


def task(features=6, classes=4):
    return bind_task(NodeClassification(), GAT(hidden=8), features, classes, 0, "cpu")


def graph(n=24, features=6, classes=4, seed=0):
    g = torch.Generator().manual_seed(seed)
    edges = torch.randint(n, (2, 2 * n), generator=g)
    train = torch.rand(n, generator=g) < 0.7
    return graph_of(torch.randn(n, features, generator=g), edges, torch.randint(classes, (n,), generator=g), train)


@settings(max_examples=30, deadline=None)
@given(n=st.integers(1, 20), seed=st.integers(0, 99), epsilon=st.sampled_from([0.1, 0.5, 1.0]))
def test_coverage_counts_those_nearer_than_a_share_of_the_mean_distance(n, seed, epsilon):
    z = torch.randn(n, 3, generator=torch.Generator().manual_seed(seed), dtype=torch.double)
    d = [[float((a - b).norm()) for b in z] for a in z]
    whole = sum(map(sum, d)) / n**2
    for scale in ("node", "class"):
        covers = replay.coverage(z, epsilon, scale=scale)
        for i in range(n):
            reach = epsilon * (sum(d[i]) / n if scale == "node" else whole)
            assert [bool(c) for c in covers[i]] == [d[i][j] < reach for j in range(n)]


def test_the_most_covering_come_first_and_ties_go_to_the_lowest_index():
    covers = torch.tensor([[1, 0, 0, 0], [0, 1, 1, 0], [0, 1, 1, 1], [0, 0, 1, 1]], dtype=torch.bool)
    assert replay.most_covering(covers, 2).tolist() == [2, 1]
    assert replay.most_covering(covers, 9).tolist() == [2, 1, 3, 0]


def greedy(covers, keep, enough=0.9):
    """Brute force: most uncovered first; covered ones blanked; begun again at nine tenths but for the chosen."""
    n, chosen, gone = len(covers), [], set()
    while len(chosen) < min(keep, n):
        left = {i: sum(covers[j][i] for j in range(n) if j not in gone) if i not in gone else 0 for i in range(n)}
        best = max((i for i in range(n) if i not in chosen), key=lambda i: (left[i], -i))
        hit = {j for j in range(n) if covers[best][j] and j not in gone and best not in gone} | {best}
        chosen.append(best)
        gone |= hit
        if len(gone) >= enough * n:
            gone = set(chosen)
    return chosen


@settings(max_examples=60, deadline=None)
@given(n=st.integers(1, 12), keep=st.integers(1, 14), seed=st.integers(0, 999))
def test_greedy_cover_is_the_greedy_choice(n, keep, seed):
    z = torch.randn(n, 2, generator=torch.Generator().manual_seed(seed))
    covers = replay.coverage(z, 0.7, scale="class")
    found = replay.greedy_cover(covers, keep).tolist()
    assert len(found) == len(set(found)) == min(keep, n)
    assert found[0] == int(covers.sum(0).argmax())
    assert found == greedy(covers.tolist(), keep)


def test_a_buffer_node_s_output_depends_on_itself_alone():
    t, whole = task(), graph()
    params = tree.stack([t.init()])
    buffer = replay.isolated(whole, torch.tensor([3, 8, 1]))
    out = t.forward(params, buffer)
    assert torch.allclose(out[1], t.forward(params, replay.isolated(whole, torch.tensor([8])))[0], atol=1e-6)
    assert bool(buffer["train"].all())
    assert buffer["edges"].shape == (2, 0)


def test_buffers_join_and_an_empty_one_leaves_the_loss_alone():
    t, whole = task(), graph()
    first, second = replay.isolated(whole, torch.tensor([0, 1])), replay.isolated(whole, torch.tensor([5]))
    both = replay.joined(replay.joined(replay.empty(whole), first), second)
    assert torch.equal(both["x"], whole["x"][[0, 1, 5]])
    params = tree.stack([t.init()] * 2)
    data, buffers = joining.union([whole, whole]), joining.union([replay.empty(whole), both])
    new, old = t.loss(params, data), t.loss(params, buffers)
    mixed = replay.mixed(t, params, data, buffers, 0.1)
    assert torch.isclose(mixed[0], new[0])
    assert torch.isclose(mixed[1], 0.1 * new[1] + 0.9 * old[1])


def test_sparse_features_are_kept_sparse():
    g = torch.Generator().manual_seed(0)
    x = torch.randn(20, 100, generator=g) * (torch.rand(20, 100, generator=g) < 0.05)
    whole = graph_of(sparse_if_worth(x), torch.zeros(2, 0, dtype=torch.long), torch.arange(20) % 3)
    both = replay.joined(replay.isolated(whole, torch.tensor([4, 2])), replay.isolated(whole, torch.tensor([7])))
    assert both["x"].layout == torch.sparse_csr
    assert torch.equal(both["x"].to_dense(), x[[4, 2, 7]])
    assert torch.equal(replay.dense(whole, torch.tensor([7, 0])), x[[7, 0]])


def test_each_rule_of_ergnn_keeps_at_most_so_many_of_each_class():
    whole = graph(40)
    for rule in ("coverage", "other_class", "mean"):
        algorithm = within(FedERGNN(select=rule, keep=2), task())
        kept = algorithm.experience({"data": whole, "model": algorithm.task.init(), "seed": 0})
        counts = torch.bincount(kept["y"], minlength=4)
        trained = torch.bincount(whole["y"][whole["train"]], minlength=4)
        assert counts.tolist() == [min(2, int(n)) for n in trained]
