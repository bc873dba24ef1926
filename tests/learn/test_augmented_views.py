"""Views of a graph, and both distances between embeddings, against sums written out."""

import math

import pytest
import torch
import torch.nn.functional as F

from algorithms import fgssl as views
from fedsim.data.graph import as_dense, graph_of, sparse_if_worth


def ring(n=60, features=40, seed=0, sparse=False):
    g = torch.Generator().manual_seed(seed)
    around = torch.arange(n)
    ends = torch.stack([torch.cat([around, (around + 1) % n]), torch.cat([(around + 1) % n, around])])
    x = 1 + torch.rand(n, features, generator=g)
    if sparse:
        x = sparse_if_worth(x * (torch.rand(n, features, generator=g) < 0.1), wide=1)
        assert x.layout == torch.sparse_csr
    return graph_of(x, ends, around % 3, around % 2 == 0)


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize("sparse", [False, True])
def test_a_view_lacks_those_shares_and_drops_an_edge_with_its_reverse(sparse):
    graph = ring(n=2000, features=1000, sparse=sparse)
    before = as_dense(graph["x"]).clone()
    shown = views.view(graph, 0.8, 0.5, generator())
    assert shown["edges"].shape[1] == pytest.approx(0.2 * 4000, rel=0.15)
    there = set(map(tuple, shown["edges"].T.tolist()))
    assert there == {(b, a) for a, b in there} <= set(map(tuple, graph["edges"].T.tolist()))
    x = as_dense(shown["x"])
    zeroed = (x == 0).all(0)
    assert int(zeroed.sum()) == pytest.approx(500, abs=60)
    torch.testing.assert_close(x[:, ~zeroed], before[:, ~zeroed], rtol=0, atol=0)
    torch.testing.assert_close(as_dense(graph["x"]), before, rtol=0, atol=0)


def test_a_view_is_drawn_from_its_generator_alone():
    graph = ring()
    one, same, other = (views.view(graph, 0.3, 0.3, generator(seed)) for seed in (1, 1, 2))
    assert torch.equal(one["edges"], same["edges"])
    assert torch.equal(one["x"], same["x"])
    assert not torch.equal(one["x"], other["x"])
    whole = views.view(graph, 0.0, 0.0, generator())
    assert torch.equal(whole["x"], graph["x"])
    assert torch.equal(whole["edges"], graph["edges"])


def test_the_semantic_distance_is_the_sum_written_out():
    h, g, y = torch.randn(5, 4, generator=generator()), torch.randn(5, 4, generator=generator(1)), [0, 1, 0, 2, 1]
    total = 0.0
    for i in range(5):
        e = [math.exp(float(F.cosine_similarity(h[i], g[j], dim=0)) / 0.1) for j in range(5)]
        own = [j for j in range(5) if y[j] == y[i]]
        total -= sum(math.log(e[j] / sum(e)) for j in own) / len(own) / 5
    assert float(views.semantic_distance(h, g, torch.tensor(y), 0.1)) == pytest.approx(total, rel=1e-4)


def test_the_structural_distance_is_the_sum_written_out():
    h, g = torch.randn(5, 4, generator=generator()), torch.randn(5, 4, generator=generator(1))
    edges = torch.tensor([[1, 2, 3, 0, 0, 4, 3], [0, 0, 0, 1, 2, 4, 4]])  # 4 has a loop and one neighbour
    centres = torch.tensor([True, False, True, True, True])  # 3 has no neighbour
    shares = {}
    for name, z in (("h", h), ("g", g)):
        e = torch.stack([F.cosine_similarity(z[0], z[j], dim=0) / 0.5 for j in (1, 2, 3)])
        shares[name] = torch.softmax(e, 0)
    expected = float((shares["g"] * (shares["g"] / shares["h"]).log()).sum()) / 3  # 2 and 4: one neighbour, nothing
    assert float(views.structural_distance(h, g, edges, centres, 0.5)) == pytest.approx(expected, rel=1e-4)
    assert float(views.structural_distance(h, 3 * h, edges, centres, 0.5)) == pytest.approx(0, abs=1e-6)
    assert float(views.structural_distance(h, g, edges[:, :0], centres, 0.5)) == 0
    h.requires_grad_(True)
    (slope,) = torch.autograd.grad(views.structural_distance(h, g, edges, centres, 0.5), h)
    assert float(slope.norm()) > 0.01
