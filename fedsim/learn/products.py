"""Products with a client axis: a constant sparse matrix times a dense one, and each client's rows times its own weight.

Each of them is a Function whose gradient is made of these same products, so that it can be differentiated any number
of times.  How a product is computed depends only on shapes and device, so equal input gives equal output.
"""

from typing import Any

import torch
from torch import Tensor

from fedsim.learn.blocks import Matrix
from fedsim.learn.layout import Bucket, Layout

NARROW = 16  # columns below which a product is computed transposed: BLAS is several times slower the other way round
LARGE = 64  # mean rows from which one product per client is faster than one padded product


class _Product(torch.autograd.Function):
    """A constant sparse matrix times a dense one: (N, M) by (M, H)."""

    @staticmethod
    def forward(ctx: Any, dense: Tensor, matrix: Matrix) -> Tensor:
        ctx.matrix = matrix
        return times(matrix.rows, dense)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        return product(grad, Matrix(ctx.matrix.columns, ctx.matrix.rows)), None


def product(dense: Tensor, matrix: Matrix) -> Tensor:
    """Return matrix @ dense, differentiable in the dense factor."""
    return _Product.apply(dense, matrix)  # type: ignore[no-any-return, no-untyped-call]


def times(rows: Tensor, dense: Tensor) -> Tensor:
    """Return a CSR matrix times a dense one, without a gradient."""
    dense = dense.detach().contiguous()
    if dense.device.type != "cpu" or not len(dense):
        return rows.to(dense.dtype) @ dense
    # embedding_bag sums weighted rows several times as fast as torch's sparse product
    return torch.embedding_bag(
        dense, rows.col_indices(), rows.crow_indices(), mode=0, per_sample_weights=rows.values().to(dense.dtype),
        include_last_offset=True,
    )[0]  # fmt: skip


class _Affine(torch.autograd.Function):
    """Each client's rows times its own weight: (N, F) by (K, F, H) is (N, H)."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, derived: Layout) -> Tensor:
        ctx.save_for_backward(x, weight)
        ctx.derived = derived
        return _each(x.detach(), weight.detach(), derived)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor | None, None]:
        x, weight = ctx.saved_tensors
        to_x = by_client(grad, weight.mT, ctx.derived) if ctx.needs_input_grad[0] else None
        to_weight = _gram(x, grad, ctx.derived) if ctx.needs_input_grad[1] else None
        return to_x, to_weight, None


def by_client(x: Tensor, weight: Tensor, derived: Layout) -> Tensor:
    """Return the rows of client k times weight[k]: x (N, F), weight (K, F, H), result (N, H)."""
    return _Affine.apply(x, weight, derived)  # type: ignore[no-any-return, no-untyped-call]


class _Gram(torch.autograd.Function):
    """Each client's rows, transposed, times its other rows: (N, F) and (N, H) to (K, F, H)."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, y: Tensor, derived: Layout) -> Tensor:
        ctx.save_for_backward(x, y)
        ctx.derived = derived
        return _inner(x.detach(), y.detach(), derived)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor | None, None]:
        x, y = ctx.saved_tensors
        to_x = by_client(y, grad.mT, ctx.derived) if ctx.needs_input_grad[0] else None
        to_y = by_client(x, grad, ctx.derived) if ctx.needs_input_grad[1] else None
        return to_x, to_y, None


def _gram(x: Tensor, y: Tensor, derived: Layout) -> Tensor:
    return _Gram.apply(x, y, derived)  # type: ignore[no-any-return, no-untyped-call]


def _each(x: Tensor, weight: Tensor, derived: Layout) -> Tensor:
    """Rows of each client times its weight; a narrow result is filled by columns."""
    narrow = weight.shape[2] < NARROW
    shape = (weight.shape[2], len(x)) if narrow else (len(x), weight.shape[2])
    result = x.new_empty(shape)
    own = weight.mT.contiguous() if narrow else weight
    for bucket in derived.buckets:
        rows, weights = x[bucket.r0 : bucket.r1], own[bucket.k0 : bucket.k1]
        into = result[:, bucket.r0 : bucket.r1] if narrow else result[bucket.r0 : bucket.r1]
        if _one_by_one(bucket, x):
            sizes = derived.sizes[bucket.k0 : bucket.k1]
            for a, w, out in zip(rows.split(sizes), weights, into.split(sizes, dim=int(narrow)), strict=True):  # type: ignore[no-untyped-call]
                torch.mm(w, a.T, out=out) if narrow else torch.mm(a, w, out=out)
            continue
        stacked = _padded(rows, bucket)
        if narrow:
            done = torch.bmm(weights, stacked.mT).transpose(0, 1).flatten(1)
            into.copy_(done if bucket.place is None else done.index_select(1, bucket.place))
        else:
            done = torch.bmm(stacked, weights).flatten(0, 1)
            into.copy_(done if bucket.place is None else done.index_select(0, bucket.place))
    return result.T.contiguous() if narrow else result


def _inner(x: Tensor, y: Tensor, derived: Layout) -> Tensor:
    """Inner products of each client's columns; narrow ones are filled transposed."""
    narrow = y.shape[1] < NARROW
    left, right = (y, x) if narrow else (x, y)
    result = x.new_empty(len(derived.sizes), left.shape[1], right.shape[1])
    for bucket in derived.buckets:
        a, b = left[bucket.r0 : bucket.r1], right[bucket.r0 : bucket.r1]
        into = result[bucket.k0 : bucket.k1]
        if _one_by_one(bucket, x):
            sizes = derived.sizes[bucket.k0 : bucket.k1]
            for one, other, out in zip(a.split(sizes), b.split(sizes), into, strict=True):  # type: ignore[no-untyped-call]
                torch.mm(one.T, other, out=out)
        else:
            torch.bmm(_padded(a, bucket).mT, _padded(b, bucket), out=into)
    return result.mT.contiguous() if narrow else result


def _one_by_one(bucket: Bucket, like: Tensor) -> bool:
    """Whether to skip padding for these clients; on a GPU one large product is faster than many small ones."""
    large = bucket.r1 - bucket.r0 >= LARGE * (bucket.k1 - bucket.k0)
    return large and bucket.place is not None and like.device.type == "cpu"


def _padded(rows: Tensor, bucket: Bucket) -> Tensor:
    """Return a bucket's rows as (clients, size, width), with zeros below the rows of smaller ones."""
    clients = bucket.k1 - bucket.k0
    if bucket.place is not None:
        rows = rows.new_zeros(clients * bucket.size, rows.shape[1]).index_copy_(0, bucket.place, rows)
    return rows.reshape(clients, bucket.size, rows.shape[1])
