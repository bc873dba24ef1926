"""Products with a client axis: a constant sparse matrix times a dense one, and each client's rows times its own weight.

Each of them is a Function whose gradient is made of these same products, so that it can be differentiated any
number of times.  How a product is computed depends only on shapes and device, so equal input gives equal
output.
"""

from typing import Any

import torch
from torch import Tensor

from fedsim.learn.engine.blocks import Csr, Matrix
from fedsim.learn.engine.layout import Bucket, GraphLayout

NARROW = 16  # columns below which a product is computed transposed: BLAS is several times slower the other way round


class _Product(torch.autograd.Function):
    """A constant sparse matrix times a dense one, plus each client's own row if there are any."""

    @staticmethod
    def forward(ctx: Any, dense: Tensor, bias: Tensor | None, matrix: Matrix, derived: GraphLayout | None) -> Tensor:
        ctx.matrix, ctx.derived = matrix, derived
        result = times(matrix.rows, dense)
        return result if bias is None or derived is None else _plus_rows(result, bias, derived)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor | None, None, None]:
        to_dense = _back(grad, ctx.matrix) if ctx.needs_input_grad[0] else None
        to_bias = _sum_rows(grad, ctx.derived) if ctx.needs_input_grad[1] else None
        return to_dense, to_bias, None, None


def product(dense: Tensor, matrix: Matrix, bias: Tensor | None = None, derived: GraphLayout | None = None) -> Tensor:
    """Return matrix @ dense, plus bias[k] in the rows of client k: result (N, H), bias (K, H) of this layout."""
    return _Product.apply(dense, bias, matrix, derived)  # type: ignore[no-any-return, no-untyped-call]


class _Rows(torch.autograd.Function):
    """Each client's value at every one of its nodes: (K, …) to (N, …)."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, derived: GraphLayout) -> Tensor:
        ctx.derived = derived
        return values.index_select(0, derived.graph["client"])

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        flat = grad.unsqueeze(1) if grad.dim() == 1 else grad
        return _sum_rows(flat, ctx.derived).view(-1, *grad.shape[1:]), None


def rows_of(values: Tensor, derived: GraphLayout) -> Tensor:
    """Return each client's value (K, …) at every one of its nodes: (N, …)."""
    return _Rows.apply(values, derived)  # type: ignore[no-any-return, no-untyped-call]


class ClientMean(torch.autograd.Function):
    """Each client's sum of weight · values (N,), divided by its count (K,); weights and counts are constants."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, weight: Tensor, count: Tensor, derived: GraphLayout) -> Tensor:
        """Return the means (K,)."""
        ctx.weight, ctx.count, ctx.derived = weight, count, derived
        return times(derived.pool.rows, (values * weight).unsqueeze(1)).squeeze(1) / count

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None, None]:
        """Return the gradient (N,) of the values."""
        each, pool = grad / ctx.count, ctx.derived.pool
        if len(each) > 1:
            each = _back(each.unsqueeze(1), pool).squeeze(1)
        return each * ctx.weight, None, None, None


def times(rows: Csr, dense: Tensor) -> Tensor:
    """Return a CSR matrix times a dense one, without a gradient."""
    dense = (dense.detach() if dense.requires_grad else dense).contiguous()
    if dense.device.type != "cpu" or not len(dense):
        return rows.tensor().to(dense.dtype) @ dense
    value = rows.value if rows.value.dtype == dense.dtype else rows.value.to(dense.dtype)
    # embedding_bag sums weighted rows several times as fast as torch's sparse product
    return torch.embedding_bag(
        dense, rows.column, rows.crow, mode=0, per_sample_weights=value, include_last_offset=True
    )[0]  # fmt: skip


def _back(grad: Tensor, matrix: Matrix) -> Tensor:
    """Return the matrix, transposed, times a gradient that may be differentiated again."""
    if torch.is_grad_enabled():
        return product(grad, matrix.transpose)
    return times(matrix.columns, grad)


def _plus_rows(into: Tensor, bias: Tensor, derived: GraphLayout) -> Tensor:
    """Return `into` (N, H), which may change, with each client's row of bias (K, H) added to its rows."""
    bias, into = bias.detach(), into.contiguous()
    if len(bias) == 1:
        return into.add_(bias)
    if derived.each is not None:
        into.view(len(bias), derived.each, -1).add_(bias.unsqueeze(1))
        return into
    return into.add_(bias.index_select(0, derived.graph["client"]))


def _sum_rows(grad: Tensor, derived: GraphLayout) -> Tensor:
    """Return the sums over each client's rows of a gradient that may be differentiated again."""
    if len(derived.sizes) == 1:
        return grad.sum(0, keepdim=True)
    return _back(grad, Matrix(derived.pool.columns, derived.pool.rows))


class _Affine(torch.autograd.Function):
    """Each client's rows times its own weight, plus its own bias: (N, F) by (K, F, H) is (N, H)."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, derived: GraphLayout, bias: Tensor | None) -> Tensor:
        ctx.save_for_backward(x, weight)
        ctx.derived = derived
        result = _each(x.detach(), weight.detach(), derived)
        return result if bias is None else _plus_rows(result, bias, derived)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor | None, None, Tensor | None]:
        x, weight = ctx.saved_tensors
        again = torch.is_grad_enabled()
        to_x = to_weight = to_bias = None
        if ctx.needs_input_grad[0]:
            to_x = (by_client if again else _each)(grad, weight.mT, ctx.derived)
        if ctx.needs_input_grad[1]:
            to_weight = (_Gram.apply if again else _inner)(x, grad, ctx.derived)
        if ctx.needs_input_grad[3]:
            to_bias = _sum_rows(grad, ctx.derived)
        return to_x, to_weight, None, to_bias


def by_client(x: Tensor, weight: Tensor, derived: GraphLayout, bias: Tensor | None = None) -> Tensor:
    """Return the rows of client k times weight[k], plus bias[k]: x (N, F), weight (K, F, H), bias (K, H)."""
    return _Affine.apply(x, weight, derived, bias)  # type: ignore[no-any-return, no-untyped-call]


class _Gram(torch.autograd.Function):
    """Each client's rows, transposed, times its other rows: (N, F) and (N, H) to (K, F, H)."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, y: Tensor, derived: GraphLayout) -> Tensor:
        ctx.save_for_backward(x, y)
        ctx.derived = derived
        return _inner(x.detach(), y.detach(), derived)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor | None, None]:
        x, y = ctx.saved_tensors
        to_x = by_client(y, grad.mT, ctx.derived) if ctx.needs_input_grad[0] else None
        to_y = by_client(x, grad, ctx.derived) if ctx.needs_input_grad[1] else None
        return to_x, to_y, None


def _each(x: Tensor, weight: Tensor, derived: GraphLayout) -> Tensor:
    """Rows of each client times its weight; a narrow result is filled by columns."""
    narrow = weight.shape[2] < NARROW
    own = weight.mT.contiguous() if narrow else weight
    if derived.each is not None:
        stacked = x.reshape(-1, derived.each, x.shape[1])
        return (torch.bmm(own, stacked.mT).mT if narrow else torch.bmm(stacked, own)).flatten(0, 1)
    result = x.new_empty((weight.shape[2], len(x)) if narrow else (len(x), weight.shape[2]))
    for bucket in derived.buckets:
        rows, weights = x[bucket.r0 : bucket.r1], own[bucket.k0 : bucket.k1]
        into = result[:, bucket.r0 : bucket.r1] if narrow else result[bucket.r0 : bucket.r1]
        if bucket.one_by_one:
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


def _inner(x: Tensor, y: Tensor, derived: GraphLayout) -> Tensor:
    """Inner products of each client's columns; narrow ones are filled transposed."""
    narrow = y.shape[1] < NARROW
    left, right = (y, x) if narrow else (x, y)
    if derived.each is not None:
        stacked = [side.reshape(-1, derived.each, side.shape[1]) for side in (left, right)]
        result = torch.bmm(stacked[0].mT, stacked[1])
        return result.mT.contiguous() if narrow else result
    result = x.new_empty(len(derived.sizes), left.shape[1], right.shape[1])
    for bucket in derived.buckets:
        a, b = left[bucket.r0 : bucket.r1], right[bucket.r0 : bucket.r1]
        into = result[bucket.k0 : bucket.k1]
        if bucket.one_by_one:
            sizes = derived.sizes[bucket.k0 : bucket.k1]
            for one, other, out in zip(a.split(sizes), b.split(sizes), into, strict=True):  # type: ignore[no-untyped-call]
                torch.mm(one.T, other, out=out)
        else:
            torch.bmm(_padded(a, bucket).mT, _padded(b, bucket), out=into)
    return result.mT.contiguous() if narrow else result


def _padded(rows: Tensor, bucket: Bucket) -> Tensor:
    """Return a bucket's rows as (clients, size, width), with zeros below the rows of smaller ones."""
    clients = bucket.k1 - bucket.k0
    if bucket.place is not None:
        rows = rows.new_zeros(clients * bucket.size, rows.shape[1]).index_copy_(0, bucket.place, rows)
    return rows.reshape(clients, bucket.size, rows.shape[1])
