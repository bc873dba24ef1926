import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fedsim.learn.engine import tree


def some(seed, clients=None):
    generator = torch.Generator().manual_seed(seed)
    lead = () if clients is None else (clients,)
    return {
        "a": torch.randn(*lead, 3, 2, generator=generator),
        "deep": [torch.randn(*lead, 4, generator=generator), (torch.randn(*lead, 1, generator=generator), None, 7)],
    }


def gaps(one, other):
    return max(float((a - b).abs().max()) for a, b in zip(tree.leaves(one), tree.leaves(other), strict=True))


def test_sums_and_differences_undo_each_other_and_leave_the_rest():
    one, two = some(1), some(2)
    back = tree.sub(tree.add(one, two), two)
    assert gaps(back, one) < 1e-6
    assert back["deep"][1][1:] == (None, 7)
    assert gaps(tree.scale(one, 2.0), tree.add(one, one)) == 0
    assert all(not leaf.any() for leaf in tree.leaves(tree.zeros_like(one)))


@given(st.lists(st.floats(0, 100), min_size=1, max_size=6))
def test_the_mean_is_the_weighted_sum_over_all_weights(weights):
    trees = [some(k) for k in range(len(weights))]
    mean = tree.mean(trees, weights)
    total = sum(weights)
    shares = [w / total for w in weights] if total else [1 / len(weights)] * len(weights)
    plain = tree.zeros_like(trees[0])
    for share, one in zip(shares, trees, strict=True):
        plain = tree.add(plain, tree.scale(one, share))
    assert gaps(mean, plain) < 1e-5


def test_the_mean_of_equal_trees_is_that_tree():
    assert gaps(tree.mean([some(1)] * 3, [1, 5, 2]), some(1)) < 1e-6


def test_stacking_and_taking_apart_again():
    trees = [some(k) for k in range(4)]
    stacked = tree.stack(trees)
    assert stacked["a"].shape == (4, 3, 2)
    for k, (one, part) in enumerate(zip(trees, tree.unstack(stacked, 4), strict=True)):
        assert gaps(one, part) == gaps(one, tree.at(stacked, k)) == 0
        assert part["deep"][1][1:] == (None, 7)


def test_stacking_one_tree_often_copies_nothing():
    one = some(1)
    assert tree.stack([one] * 5)["a"].data_ptr() == one["a"].data_ptr()
    shallow = tree.stack([dict(one) for _ in range(5)])  # other trees of the same tensors
    assert shallow["a"].data_ptr() == one["a"].data_ptr()
    assert shallow["a"].shape == (5, 3, 2)


def test_distance_keeps_the_client_axis_and_is_differentiable():
    one, two = some(1, clients=3), some(2, clients=3)
    plain = sum((a - b).square().flatten(1).sum(1) for a, b in zip(tree.leaves(one), tree.leaves(two), strict=True))
    torch.testing.assert_close(tree.sq_distance(one, two), plain)
    assert tree.sq_distance(one, one).tolist() == [0, 0, 0]


def test_leaves_come_in_order_and_are_counted():
    assert [tuple(leaf.shape) for leaf in tree.leaves(some(1))] == [(3, 2), (4,), (1,)]
    assert tree.count(some(1)) == 11


@pytest.mark.parametrize("other", [{"a": torch.zeros(1)}, {"a": torch.zeros(1), "c": torch.zeros(1)}])
def test_trees_of_different_shape_are_refused(other):
    with pytest.raises(ValueError, match="trees differ"):
        tree.add({"a": torch.zeros(1), "b": torch.zeros(1)}, other)
    with pytest.raises(ValueError, match=r"shorter|longer"):
        tree.add([torch.zeros(1)], [torch.zeros(1)] * 2)
