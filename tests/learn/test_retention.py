"""What is retained is the explicit sum over all earlier graphs, in value and in slope."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fedsim.learn.continual import retention
from fedsim.learn.engine import tree


def drawn(seed, size=1.0):
    g = torch.Generator().manual_seed(seed)
    return {"w": size * torch.randn(3, 2, generator=g), "b": size * torch.randn(2, generator=g)}


def weights(seed):
    own = drawn(1000 + seed)
    return {key: leaf.abs() * (leaf > -0.3) for key, leaf in own.items()}  # some are nought


def explicit(anchors, importances, params):
    total = 0.0
    for anchor, importance in zip(anchors, importances, strict=True):
        for key, leaf in params.items():
            total = total + (importance[key] * (leaf - anchor[key]).square()).sum()
    return total


@settings(max_examples=20)
@given(graphs=st.integers(0, 6), seed=st.integers(0, 50))
def test_it_is_the_sum_over_all_anchors(graphs, seed):
    anchors, importances = [drawn(seed + i, 2.0) for i in range(graphs)], [weights(seed + i) for i in range(graphs)]
    kept = retention.nothing(drawn(0))
    for anchor, importance in zip(anchors, importances, strict=True):
        kept = retention.added(kept, anchor, importance)
    params = tree.transform(lambda leaf: leaf.unsqueeze(0).requires_grad_(True), drawn(seed + 99))
    own = retention.penalty(kept, params)
    plain = tree.transform(lambda leaf: leaf.detach()[0].clone().requires_grad_(True), params)
    sums = explicit(anchors, importances, plain)
    assert own.shape == (1,)
    assert float(own.detach()) == pytest.approx(float(torch.as_tensor(sums).detach()), rel=1e-4, abs=1e-5)
    if graphs:
        ours = torch.autograd.grad(own.sum(), list(tree.leaves(params)))
        theirs = torch.autograd.grad(sums, list(tree.leaves(plain)))
        for one, other in zip(ours, theirs, strict=True):
            torch.testing.assert_close(one[0], other, rtol=1e-4, atol=1e-4)


def test_it_keeps_no_more_for_more_graphs_and_changes_nothing_in_place():
    first = retention.added(retention.nothing(drawn(0)), drawn(1), weights(1))
    before = tree.transform(torch.clone, first)
    later = first
    for i in range(5):
        later = retention.added(later, drawn(i), weights(i))
    assert tree.count(later) == tree.count(first) == 2 * tree.count(drawn(0)) + 1
    assert all(torch.equal(a, b) for a, b in zip(tree.leaves(first), tree.leaves(before), strict=True))


def test_digits_are_kept_where_sums_would_cancel():
    anchors = [{"w": torch.tensor([1000.0 + i])} for i in (0.25, 0.5)]
    kept = retention.nothing(anchors[0])
    for anchor in anchors:
        kept = retention.added(kept, anchor, {"w": torch.tensor([1e4])})
    assert float(retention.penalty(kept, {"w": torch.tensor([[1000.375]])})) == pytest.approx(2e4 * 0.125**2, rel=1e-4)


def test_each_client_has_a_penalty_of_its_own():
    kept = retention.added(retention.nothing(drawn(0)), drawn(1), weights(1))
    both = retention.penalty(kept, tree.stack([drawn(2), drawn(3)]))
    alone = [retention.penalty(kept, tree.stack([drawn(i)])) for i in (2, 3)]
    torch.testing.assert_close(both, torch.cat(alone))
    assert float(both[0]) != pytest.approx(float(both[1]))
