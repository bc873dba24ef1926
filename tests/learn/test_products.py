"""Products in one step against the same written out, and their gradients, of which there may be any number."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from learnlab import drawn

from fedsim.learn.engine import joining, layout, ops

SIZES = [[4, 4, 4], [3, 5, 1], [6], [2, 0, 3]]  # equal, ragged, one client, and one without nodes


def inputs_of(sizes, *, as_csr=False):
    """A union in double precision, with h (N, 7), weights (K, 7, 2), biases (K, 2) and one bias a node's width."""
    union = joining.union([drawn(n, k, as_csr=as_csr) for k, n in enumerate(sizes)])
    torch.manual_seed(len(sizes))
    shapes = [(sum(sizes), 7), (len(sizes), 7, 2), (len(sizes), 2), (len(sizes), 7)]
    return union, [torch.randn(shape, dtype=torch.double, requires_grad=True) for shape in shapes]


def each(union, sizes):
    """The client of each node."""
    return torch.arange(len(sizes)).repeat_interleave(torch.tensor(sizes))


@pytest.mark.parametrize("sizes", SIZES)
def test_a_bias_in_the_step_is_one_added_afterwards(sizes):
    union, (h, weight, bias, wide) = inputs_of(sizes)
    client = each(union, sizes)
    assert torch.allclose(ops.linear(h, weight, union, bias), ops.linear(h, weight, union) + bias[client])
    for norm in ("sym", "mean"):
        assert torch.allclose(ops.propagate(h, union, norm, wide), ops.propagate(h, union, norm) + wide[client])
    assert torch.equal(ops.by_row(bias, union), bias[client])
    assert torch.equal(ops.by_row(bias[:, 0], union), bias[client, 0])


@pytest.mark.parametrize("sizes", SIZES)
def test_gradients_and_theirs_pass_finite_differences(sizes):
    union, (h, weight, bias, wide) = inputs_of(sizes)
    torch.autograd.gradcheck(lambda *given: ops.linear(given[0], given[1], union, given[2]), (h, weight, bias))
    torch.autograd.gradgradcheck(lambda *given: ops.linear(given[0], given[1], union, given[2]), (h, weight, bias))
    torch.autograd.gradcheck(lambda h, b: ops.propagate(h, union, "mean", b), (h, wide))
    torch.autograd.gradgradcheck(lambda h, b: ops.propagate(h, union, "mean", b) ** 2, (h, wide))
    torch.autograd.gradcheck(lambda b: ops.by_row(b, union), (bias,))
    torch.autograd.gradgradcheck(lambda b: ops.by_row(b, union) ** 2, (bias,))
    mask = union["train"]
    torch.autograd.gradcheck(lambda h: ops.mean_by_client(h[:, 0], union, mask), (h,))
    torch.autograd.gradgradcheck(lambda h: ops.mean_by_client(h[:, 0] ** 2, union, mask), (h,))


@pytest.mark.parametrize("sizes", SIZES)
def test_a_gradient_is_the_same_where_it_will_be_differentiated_again(sizes):
    union, (h, weight, bias, _) = inputs_of(sizes)

    def loss():
        out = ops.propagate(ops.linear(h, weight, union), union, "sym", bias)
        return ops.mean_by_client(out.square().sum(1), union, union["train"]).sum()

    once = torch.autograd.grad(loss(), (h, weight, bias))
    again = torch.autograd.grad(loss(), (h, weight, bias), create_graph=True)
    assert all(torch.equal(a, b) for a, b in zip(once, again, strict=True))


@settings(max_examples=20, deadline=None)
@given(st.lists(st.integers(1, 6), min_size=1, max_size=4), st.booleans())
def test_sparse_features_take_the_bias_too(sizes, as_csr):
    union, (_, weight, bias, _) = inputs_of(sizes, as_csr=as_csr)
    weight, bias = weight.float(), bias.float()
    dense = union["x"].to_dense() if as_csr else union["x"]
    client = each(union, sizes)
    expected = torch.stack([row @ weight[k] + bias[k] for row, k in zip(dense, client, strict=True)])
    assert torch.allclose(ops.linear(union["x"], weight, union, bias), expected, atol=1e-5)


def test_a_mean_sees_another_mask_of_the_same_graph():
    union, (h, *_) = inputs_of([4, 4])
    values = h[:, 0].detach()
    for mask in (union["train"], union["val"], ~union["train"], union["train"]):
        found = ops.mean_by_client(values, union, mask)
        parts = zip(values.split([4, 4]), mask.split([4, 4]), strict=True)
        assert torch.allclose(found, torch.stack([part[own].sum() / max(1, int(own.sum())) for part, own in parts]))
    assert layout.of(union).each == 4
    assert [layout.of(joining.union([drawn(n, 0) for n in sizes])).each for sizes in ([3, 5], [0, 0])] == [None, None]
