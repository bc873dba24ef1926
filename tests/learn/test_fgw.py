"""The fused Gromov-Wasserstein loss against sums written out, finite differences, and graphs that are the same."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fedsim.learn.synthetic import fgw


def drawn(n, seed, features=4):
    g = torch.Generator().manual_seed(seed)
    x = 3 * torch.randn(n, features, generator=g, dtype=torch.double)
    half = (torch.rand(n, n, generator=g) < 0.3).triu(1)
    return x, (half | half.T).double()


@settings(max_examples=15)
@given(n=st.integers(1, 12), seed=st.integers(0, 99), a=st.sampled_from([0.1, 0.5, 0.9]))
def test_a_graph_is_nought_from_itself_and_is_carried_onto_itself(n, seed, a):
    x, own = drawn(n, seed)
    coupling = fgw.plan(fgw.squared_distances(x, x), own, own, a)
    torch.testing.assert_close(coupling, torch.eye(n, dtype=torch.double) / n, rtol=0, atol=1e-9)
    assert float(fgw.loss(x, x, own, own, a)) == pytest.approx(0, abs=1e-9)


def test_renumbered_nodes_are_found_again():
    x, own = drawn(9, 3)
    order = torch.randperm(9, generator=torch.Generator().manual_seed(1))
    coupling = fgw.plan(fgw.squared_distances(x, x[order]), own, own[order][:, order], 0.5)
    assert (coupling.argmax(0) == order).all()
    assert float(fgw.loss(x, x[order], own, own[order][:, order])) == pytest.approx(0, abs=1e-9)
    assert float(fgw.loss(x, x[order], own, own)) > 0.01  # the edges count


def test_the_value_is_the_sum_written_out():
    (x, own), (pseudo, other) = drawn(5, 0), drawn(4, 1)
    coupling = torch.rand(5, 4, generator=torch.Generator().manual_seed(2), dtype=torch.double)
    a, features, structure = 0.3, 0.0, 0.0
    for i in range(5):
        for j in range(4):
            features += float(coupling[i, j] * (x[i] - pseudo[j]).square().sum())
            for k in range(5):
                for l in range(4):
                    structure += float(coupling[i, j] * coupling[k, l] * (own[i, k] - other[j, l]).abs() ** 2)
    expected = (1 - a) * features + a * structure
    assert float(fgw.value(coupling, x, pseudo, own, other, a)) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("a", [0.2, 0.5])
def test_the_slope_is_that_of_the_value_with_the_coupling_held(a):
    (x, own), (pseudo, other) = drawn(6, 4), drawn(6, 5)
    pseudo.requires_grad_(True)
    (slope,) = torch.autograd.grad(fgw.loss(x, pseudo, own, other, a), pseudo)
    fixed = pseudo.detach()
    coupling = fgw.plan(fgw.squared_distances(x, fixed), own, other, a)
    torch.testing.assert_close(slope, (1 - a) * (2 * fixed / 6 - 2 * coupling.T @ x), rtol=0, atol=1e-9)
    for place in ((0, 0), (2, 3), (5, 1)):
        ahead, behind = fixed.clone(), fixed.clone()
        ahead[place] += 1e-5
        behind[place] -= 1e-5
        rise = fgw.value(coupling, x, ahead, own, other, a) - fgw.value(coupling, x, behind, own, other, a)
        assert float(slope[place]) == pytest.approx(float(rise) / 2e-5, abs=1e-6)


def test_the_coupling_is_better_than_the_one_that_it_began_with():
    (x, own), (pseudo, other) = drawn(8, 6), drawn(8, 7)
    begun = torch.full((8, 8), 1 / 64, dtype=torch.double)
    assert float(fgw.loss(x, pseudo, own, other)) < float(fgw.value(begun, x, pseudo, own, other, 0.5)) - 0.1


def test_following_the_slope_brings_the_features_nearer():
    (x, own), (pseudo, other) = drawn(8, 6), drawn(8, 7)
    pseudo.requires_grad_(True)
    losses = []
    for _ in range(20):
        loss = fgw.loss(x, pseudo, own, other)
        (slope,) = torch.autograd.grad(loss, pseudo)
        pseudo = (pseudo.detach() - slope).requires_grad_(True)
        losses.append(float(loss.detach()))
    assert losses[-1] < 0.2 * losses[0]


def test_the_cost_is_cubic():
    assert fgw.flops(200, 0) == 8 * fgw.flops(100, 0)
    assert fgw.flops(100, 30) - fgw.flops(100, 0) == 2 * 100 * 100 * 30
