import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from learnlab import drawn

from fedsim.learn.engine import joining, layout, ops

ragged = st.lists(st.integers(0, 30), min_size=1, max_size=12).filter(any)


def unite(sizes, seed=0, **options):
    graphs = [drawn(n, seed + k, **options) for k, n in enumerate(sizes)]
    return joining.union(graphs), graphs


@settings(deadline=None, max_examples=40)
@given(sizes=st.lists(st.integers(0, 500), min_size=1, max_size=40))
def test_buckets_hold_every_client_once_and_pad_little(sizes):
    graph = {"sizes": torch.tensor(sizes), "y": torch.zeros(sum(sizes))}
    buckets = layout.GraphLayout(graph).buckets
    assert [b.k0 for b in buckets] == [0, *(b.k1 for b in buckets[:-1])]
    assert [b.r0 for b in buckets] == [0, *(b.r1 for b in buckets[:-1])]
    assert (buckets[-1].k1, buckets[-1].r1) == (len(sizes), sum(sizes))
    for b in buckets:
        assert b.size == max(sizes[b.k0 : b.k1])
        assert b.r1 - b.r0 == sum(sizes[b.k0 : b.k1])
        assert b.size * (b.k1 - b.k0) <= 1.25 * (b.r1 - b.r0) + 64
        if b.place is None:
            assert set(sizes[b.k0 : b.k1]) == {b.size}
        else:
            rows = [k * b.size + i for k, n in enumerate(sizes[b.k0 : b.k1]) for i in range(n)]
            assert b.place.tolist() == rows


@settings(deadline=None, max_examples=25)
@given(sizes=ragged, seed=st.integers(0, 1000), as_csr=st.booleans(), biased=st.booleans())
def test_linear_multiplies_each_clients_rows_with_its_own_weight(sizes, seed, as_csr, biased):
    union, graphs = unite(sizes, seed, as_csr=as_csr)
    generator = torch.Generator().manual_seed(seed)
    weight = torch.randn(len(sizes), 7, 4, generator=generator, requires_grad=True)
    bias = torch.randn(len(sizes), 4, generator=generator, requires_grad=True) if biased else None
    mine = ops.linear(union["x"], weight, union, bias)
    plain = torch.cat([g["x"].to_dense() @ weight[k] + (bias[k] if biased else 0) for k, g in enumerate(graphs)])
    torch.testing.assert_close(mine, plain, atol=1e-5, rtol=1e-5)
    pull = torch.randn(mine.shape, generator=generator)
    wanted = [weight, bias] if biased else [weight]
    for a, b in zip(
        torch.autograd.grad((mine * pull).sum(), wanted), torch.autograd.grad((plain * pull).sum(), wanted), strict=True
    ):
        torch.testing.assert_close(a, b, atol=1e-5, rtol=1e-5)


def adjacency(graph, norm):
    n = len(graph["y"])
    a = torch.zeros(n, n)
    for source, target in graph["edges"].T.tolist():
        a[target, source] += 1
    if norm == "sym":
        a.fill_diagonal_(1)
        root = a.sum(1).rsqrt()
        return root[:, None] * a * root
    return a / a.sum(1, keepdim=True).clamp(min=1) if norm == "mean" else a


@pytest.mark.parametrize("norm", ["sym", "mean", "sum"])
@settings(deadline=None, max_examples=15)
@given(sizes=ragged, seed=st.integers(0, 1000))
def test_propagate_is_the_normalised_adjacency(norm, sizes, seed):
    union, graphs = unite(sizes, seed)
    h = torch.randn(sum(sizes), 4, generator=torch.Generator().manual_seed(seed), requires_grad=True)
    whole = torch.block_diag(*(adjacency(graph, norm) for graph in graphs))[: sum(sizes), : sum(sizes)]
    mine = ops.propagate(h, union, norm)
    torch.testing.assert_close(mine, whole @ h, atol=1e-5, rtol=1e-5)
    (slope,) = torch.autograd.grad(mine.square().sum(), h)
    torch.testing.assert_close(slope, 2 * whole.T @ (whole @ h.detach()), atol=1e-4, rtol=1e-4)


def test_propagate_can_be_differentiated_twice():
    graph = drawn(6, 3)
    matrix = adjacency(graph, "sym")
    h = torch.randn(6, 2, requires_grad=True)
    (first,) = torch.autograd.grad((ops.propagate(h, graph) ** 3).sum(), h, create_graph=True)
    (second,) = torch.autograd.grad(first.sum(), h)
    (plain,) = torch.autograd.grad(((matrix @ h) ** 3).sum(), h, create_graph=True)
    torch.testing.assert_close(second, torch.autograd.grad(plain.sum(), h)[0], atol=1e-4, rtol=1e-4)


def plain_attention(h, source, target, graph, slope):
    """Attention by a dense masked softmax that autograd differentiates."""
    there = adjacency(graph, "sum") > 0
    there.fill_diagonal_(True)
    raw = torch.nn.functional.leaky_relu(target[:, None] + source[None, :], slope)
    return torch.softmax(raw.masked_fill(~there, -torch.inf), 1) @ h


@settings(deadline=None, max_examples=15)
@given(n=st.integers(1, 9), seed=st.integers(0, 1000), slope=st.sampled_from([0.0, 0.2, 1.0]))
def test_attention_and_its_gradient_agree_with_a_dense_softmax(n, seed, slope):
    graph, generator = drawn(n, seed), torch.Generator().manual_seed(seed)
    wide = torch.randn(n, 3, generator=generator, dtype=torch.double, requires_grad=True)
    source, target = (torch.randn(n, generator=generator, dtype=torch.double, requires_grad=True) for _ in range(2))
    mine = ops.attend(wide, source, target, graph, slope)
    plain = plain_attention(wide, source, target, graph, slope)
    torch.testing.assert_close(mine, plain, atol=1e-12, rtol=1e-10)
    pull, inputs = torch.randn(n, 3, generator=generator, dtype=torch.double), [wide, source, target]
    slopes = torch.autograd.grad((mine * pull).sum(), inputs)
    for a, b in zip(slopes, torch.autograd.grad((plain * pull).sum(), inputs), strict=True):
        torch.testing.assert_close(a, b, atol=1e-12, rtol=1e-10)


def test_attention_passes_finite_differences_on_a_union():
    union, _ = unite([4, 0, 3], 5)
    inputs = [torch.randn(7, *shape, dtype=torch.double, requires_grad=True) for shape in ((2,), (), ())]
    assert torch.autograd.gradcheck(lambda h, s, t: ops.attend(h, s, t, union), inputs)


def test_attention_can_be_differentiated_twice():
    union, _ = unite([4, 0, 3], 5)
    inputs = [torch.randn(7, *shape, dtype=torch.double, requires_grad=True) for shape in ((2,), (), ())]
    assert torch.autograd.gradgradcheck(lambda h, s, t: ops.attend(h, s, t, union), inputs)


def test_the_gradient_of_attention_is_the_same_where_it_will_be_differentiated_again():
    union, _ = unite([9, 5], 2)
    inputs = [torch.randn(14, *shape, requires_grad=True) for shape in ((3,), (), ())]
    once, again = (
        torch.autograd.grad((ops.attend(*inputs, union) ** 2).sum(), inputs, create_graph=more)
        for more in (False, True)
    )
    for a, b in zip(once, again, strict=True):
        torch.testing.assert_close(a, b, atol=1e-5, rtol=1e-5)


def test_coefficients_are_what_attention_weighs_by():
    union, _ = unite([6, 0, 4], 3)
    source, target = torch.randn(2, 10, dtype=torch.double).unbind(0)
    edges = layout.of(union).attention
    share = torch.zeros(10, 10, dtype=torch.double)
    own = ops.coefficients(source, target, union)
    share.index_put_((edges.target.long(), edges.source.long()), own, accumulate=True)
    torch.testing.assert_close(share, ops.attend(torch.eye(10, dtype=torch.double), source, target, union))
    inputs = [source.clone().requires_grad_(True), target.clone().requires_grad_(True)]
    assert torch.autograd.gradcheck(lambda s, t: ops.coefficients(s, t, union), inputs)
    assert len(ops.coefficients(source[:0], target[:0], drawn(0, 1))) == 0


def test_attention_survives_large_scores():
    graph = drawn(5, 1)
    huge = torch.full((5,), 1e4)
    assert torch.isfinite(ops.attend(torch.ones(5, 2), huge, -huge, graph)).all()
    torch.testing.assert_close(ops.attend(torch.ones(5, 2), huge, huge, graph), torch.ones(5, 2))


def test_an_empty_split_gives_zero_and_no_gradient():
    union, _ = unite([3, 4], 1)
    values = torch.randn(7, requires_grad=True)
    mask = torch.arange(7) < 3
    means = ops.mean_by_client(values, union, mask)
    assert means[1] == 0
    (slope,) = torch.autograd.grad(means.sum(), values)
    torch.testing.assert_close(slope, torch.tensor([1 / 3] * 3 + [0.0] * 4))


def test_by_row_gives_every_node_its_clients_value():
    union, _ = unite([2, 0, 3], 1)
    values = torch.tensor([1.0, 2.0, 3.0])
    assert ops.by_row(values, union).tolist() == [1, 1, 3, 3, 3]
    assert ops.by_row(values.unsqueeze(1).expand(3, 2), union)[:, 1].tolist() == [1, 1, 3, 3, 3]


def test_dropout_does_nothing_outside_training_or_for_no_share():
    graph, h = drawn(5, 1), torch.randn(5, 3)
    assert ops.dropout(h, 0.5, graph, 1) is h
    assert ops.dropout(h, 0.0, {**graph, "seed": torch.tensor([1])}, 1) is h


def test_dropout_passes_gradients_only_where_it_kept():
    graph = {**drawn(8, 1), "seed": torch.tensor([5])}
    h = torch.ones(8, 6, requires_grad=True)
    dropped = ops.dropout(h, 0.5, graph, 1)
    (slope,) = torch.autograd.grad(dropped.sum(), h)
    assert torch.equal(slope, dropped.detach())
