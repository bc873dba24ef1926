"""Sums, means, prototypes by class, and dropout that no batching changes."""

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fedsim.data.graph import graph_of
from fedsim.learn.engine import joining, ops

SIZES = st.lists(st.integers(0, 12), min_size=1, max_size=6)


def graphs_of(sizes, classes=3, seed=0):
    g = torch.Generator().manual_seed(seed)
    none = torch.zeros(2, 0, dtype=torch.long)
    return [
        graph_of(torch.randn(n, 4, generator=g), none, torch.randint(classes, (n,), generator=g),
                 torch.rand(n, generator=g) < 0.5) for n in sizes
    ]  # fmt: skip


@settings(max_examples=40, deadline=None)
@given(sizes=SIZES, seed=st.integers(0, 99))
def test_sums_means_and_prototypes_equal_loops_over_clients(sizes, seed):
    graphs = graphs_of(sizes, seed=seed)
    graph = joining.union(graphs)
    values = graph["x"][:, 0]
    total, mean = ops.sum_by_client(graph["x"], graph), ops.mean_by_client(values, graph, graph["train"])
    by_class, counts = ops.by_class(graph["x"], graph, 3, graph["train"])
    for k, own in enumerate(graphs):
        assert torch.allclose(total[k], own["x"].sum(0), atol=1e-5)
        chosen = own["x"][own["train"]][:, 0]
        assert torch.isclose(mean[k], chosen.mean() if len(chosen) else torch.tensor(0.0), atol=1e-5)
        for c in range(3):
            rows = own["x"][own["train"] & (own["y"] == c)]
            assert counts[k, c] == len(rows)
            assert torch.allclose(by_class[k, c], rows.mean(0) if len(rows) else torch.zeros(4), atol=1e-5)


def test_gradients_of_the_means_by_class_are_finite_differences():
    graph = joining.union(graphs_of([5, 0, 7]))
    h = graph["x"].double().requires_grad_(True)
    pick = torch.randn(3, 3, 4, dtype=torch.double, generator=torch.Generator().manual_seed(1))
    ops.by_class(h.float(), graph, 3, graph["train"])[0].double().mul(pick).sum().backward()
    plain = torch.zeros_like(h)
    _, counts = ops.by_class(h.detach().float(), graph, 3, graph["train"])
    for row in graph["train"].nonzero().flatten().tolist():
        k, c = int(graph["client"][row]), int(graph["y"][row])
        plain[row] = pick[k, c] / counts[k, c]
    assert torch.allclose(h.grad, plain, atol=1e-6)


def seeded(graph, seeds):
    return {**graph, "seed": torch.tensor(seeds)}


def test_dropout_drops_its_share_and_scales_the_rest():
    graph = graphs_of([4000])[0]
    h = torch.ones(4000, 50)
    for share in (0.1, 0.5, 0.8):
        out = ops.dropout(h, share, seeded(graph, [7]), 1)
        assert abs(float((out == 0).float().mean()) - share) < 0.01
        assert torch.allclose(out[out != 0], torch.tensor(1 / (1 - share)))
        assert abs(float((out == 0).float().mean(0).std())) < 0.02
    assert ops.dropout(h, 0.5, graph, 1) is h


@settings(max_examples=30, deadline=None)
@given(sizes=st.lists(st.integers(0, 9), min_size=2, max_size=5), width=st.integers(1, 9))
def test_what_is_dropped_of_a_client_does_not_depend_on_the_batch(sizes, width):
    graphs = graphs_of(sizes)
    seeds = [100 + k for k in range(len(sizes))]
    together = ops.dropout(torch.ones(sum(sizes), width), 0.5, seeded(joining.union(graphs), seeds), 1)
    alone = [
        ops.dropout(torch.ones(n, width), 0.5, seeded(g, [s]), 1) for n, g, s in zip(sizes, graphs, seeds, strict=True)
    ]
    assert torch.equal(together, torch.cat(alone))


def test_dropout_differs_by_client_layer_step_and_use():
    graph, h = graphs_of([64])[0], torch.ones(64, 64)
    seeds = torch.tensor([5])
    masks = [
        ops.dropout(h, 0.5, {**graph, "seed": seed}, layer)
        for seed, layer in [
            (ops.seed_steps(seeds, 0, 0), 1),
            (ops.seed_steps(seeds, 0, 0), 2),
            (ops.seed_steps(seeds, 1, 0), 1),
            (ops.seed_steps(seeds, 0, 1), 1),
            (ops.seed_steps(seeds + 1, 0, 0), 1),
        ]
    ]
    for i, a in enumerate(masks):
        for b in masks[:i]:
            assert 0.4 < float((a == b).float().mean()) < 0.6
