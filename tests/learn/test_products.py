"""Products of ragged clients by every route that shapes choose, their gradients twice, and bit for bit."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from learnlab import drawn

from fedsim.data.graph import csr
from fedsim.learn import layout, products
from fedsim.learn.layout import Matrix

# sizes by which clients go one by one, padded, in stacks of equal sizes, and over several buckets with an empty one
ROUTES = {"large": [70, 81, 75, 90], "small": [5, 6, 5, 7], "equal": [9, 9, 9], "mixed": [0, 3, 200, 80, 85, 4]}
WIDTHS = [3, products.NARROW, 20]


def sides(sizes, width, seed=0, dtype=torch.double):
    derived = layout.of(layout.union([drawn(n, k) for k, n in enumerate(sizes)]))
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(sum(sizes), 6, generator=generator, dtype=dtype, requires_grad=True)
    weight = torch.randn(len(sizes), 6, width, generator=generator, dtype=dtype, requires_grad=True)
    return derived, x, weight


def plain(x, weight, sizes):
    return torch.cat([rows @ weight[k] for k, rows in enumerate(x.split(sizes))])


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("route", ROUTES)
def test_values_and_both_gradients_are_those_of_a_loop(route, width):
    sizes = ROUTES[route]
    derived, x, weight = sides(sizes, width)
    mine, other = products.by_client(x, weight, derived), plain(x, weight, sizes)
    torch.testing.assert_close(mine, other)
    for a, b in zip(*(torch.autograd.grad(out.pow(3).sum(), [x, weight]) for out in (mine, other)), strict=True):
        torch.testing.assert_close(a, b)


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("route", ROUTES)
def test_second_gradients_are_those_of_a_loop(route, width):
    sizes = ROUTES[route]
    derived, x, weight = sides(sizes, width)
    found = []
    for out in (products.by_client(x, weight, derived), plain(x, weight, sizes)):
        first = torch.autograd.grad(out.pow(3).sum(), [x, weight], create_graph=True)
        found.append(torch.autograd.grad(sum(one.square().sum() for one in first), [x, weight]))
    for a, b in zip(*found, strict=True):
        torch.testing.assert_close(a, b)


def test_the_routes_are_taken():
    def taken(route):
        derived, x, _ = sides(ROUTES[route], 3)
        return {products._one_by_one(bucket, x) for bucket in derived.buckets}

    assert (taken("large"), taken("small"), taken("equal")) == ({True}, {False}, {False})
    assert taken("mixed") == {True, False}


def test_no_gradient_is_computed_for_features(monkeypatch):
    derived, x, weight = sides([4, 5], 3)
    calls = []
    each = products._each
    monkeypatch.setattr(products, "_each", lambda *given: calls.append(1) or each(*given))
    products.by_client(x.detach(), weight, derived).sum().backward()
    assert len(calls) == 1  # the product itself


def test_strides_do_not_matter():
    derived, x, weight = sides([70, 80, 3], 20)
    turned = x.detach().T.contiguous().T, weight.detach().mT.contiguous().mT
    torch.testing.assert_close(products.by_client(*turned, derived), products.by_client(x, weight, derived).detach())


@settings(max_examples=25, deadline=None)
@given(rows=st.integers(0, 9), columns=st.integers(0, 9), width=st.integers(1, 70), seed=st.integers(0, 99))
def test_sparse_products_are_dense_ones(rows, columns, width, seed):
    generator = torch.Generator().manual_seed(seed)
    dense = torch.randn(rows, columns, generator=generator) * (torch.rand(rows, columns, generator=generator) < 0.4)
    row, column = dense.nonzero(as_tuple=True)
    crow = torch.cat([torch.zeros(1, dtype=torch.long), torch.bincount(row, minlength=rows).cumsum(0)[:rows]])
    matrix = csr(crow.int(), column.int(), dense[row, column], (rows, columns))
    other = torch.randn(columns, width, generator=generator)
    torch.testing.assert_close(products.times(matrix, other), dense @ other)
    turned = other.T.contiguous().T
    torch.testing.assert_close(products.times(matrix, turned), dense @ other)


def test_equal_input_gives_equal_output_bit_for_bit():
    graph = layout.union([drawn(n, n, as_csr=True) for n in (70, 90, 20, 80)])
    derived, x, weight = sides([70, 90, 20, 80], 20, dtype=torch.float32)
    matrix: Matrix = layout.of(graph).x

    def once():
        by_client = products.by_client(x, weight, derived)
        sparse = products.product(weight.flatten(0, 1).new_ones(matrix.rows.shape[1], 5).cumsum(0), matrix)
        return [by_client, sparse, *torch.autograd.grad(by_client.square().sum(), [x, weight])]

    first = once()
    for _ in range(3):
        assert all(torch.equal(a, b) for a, b in zip(first, once(), strict=True))
