"""Operations of torch, counted while they run: an estimate that is the same on every machine.

A product of matrices, a convolution, attention or a recurrent layer takes two operations a multiply-add, a
decomposition ten times its input's numbers times their smaller side, a scatter one for each number that it adds,
anything else one for each number that it computes.  Moving and making numbers is free.  What NumPy and Python compute
is not seen.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

PRODUCTS = {"mm", "bmm", "mv", "dot", "_sparse_mm", "_sparse_sparse_matmul"}
# added to their first argument
ADDED_PRODUCTS = {"addmm", "baddbmm", "addmv", "addbmm", "_addmm_activation", "_sparse_addmm"}
SCATTERED = ("scatter_add", "scatter_reduce", "index_add", "index_reduce", "segment_reduce")
DECOMPOSED = ("linalg_", "_linalg", "svd", "cholesky", "lu_", "triangular_solve", "lstsq")
FREE = {
    "clone", "copy_", "_to_copy", "cat", "stack", "index", "index_select", "gather", "empty", "zeros", "ones", "full",
    "zero_", "fill_", "empty_like", "zeros_like", "ones_like", "full_like", "new_zeros", "new_empty", "new_ones",
    "new_full", "new_empty_strided", "empty_strided", "arange", "scalar_tensor", "resize_", "set_", "repeat",
    "_sparse_csr_tensor_unsafe", "sparse_compressed_tensor", "_sparse_compressed_tensor_unsafe", "to_sparse_csr",
    "_local_scalar_dense", "lift_fresh", "select_backward", "slice_backward", "embedding",
}  # fmt: skip


def counted(run: Callable[[], object]) -> float:
    """Return the operations of a call, without gradients."""
    fast = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)  # which is one operation of unknown cost
    try:
        with torch.no_grad(), Operations() as operations:
            run()
    finally:
        torch.backends.mha.set_fastpath_enabled(fast)
    return float(operations.total)


class Operations(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Count what runs inside."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.total: float = 0.0

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # torch would load its compiler to keep it out, which takes seconds and makes a folder in /tmp

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run the operation, and count it."""
        result = func(*args, **(kwargs or {}))
        self.total += _cost(func, args, result)
        return result


def _cost(func: Any, args: Sequence[Any], result: Any) -> float:
    name = func.overloadpacket.__name__
    if name in FREE or func.is_view:
        return 0.0
    if name in PRODUCTS or name in ADDED_PRODUCTS:
        first, second = args[1:3] if name in ADDED_PRODUCTS else args[:2]
        return float(2 * _numbers(first) * (second.shape[-1] if second.dim() > 1 else 1))
    if name in ("convolution", "mkldnn_convolution", "_convolution", "cudnn_convolution"):
        weight = args[1]  # (out, in / groups, *kernel)
        return float(2 * _numbers(result) * math.prod(weight.shape[1:]))
    if name.startswith("_scaled_dot_product"):
        query, key = args[:2]
        return float(4 * _numbers(query) * key.shape[-2])
    if name == "mkldnn_rnn_layer":  # of a sequence (T, B, features), by the weights of its input and of its state
        return float(2 * math.prod(args[0].shape[:2]) * (_numbers(args[1]) + _numbers(args[2])))
    if name.startswith(SCATTERED):
        return float(max(_numbers(tensor) for tensor in _tensors(args[1:]) if tensor.is_floating_point()))
    if name == "_embedding_bag":
        return float(_numbers(args[1]) * args[0].shape[-1])
    if name.startswith(DECOMPOSED):
        tensor = next(_tensors(args))
        return 10.0 * _numbers(tensor) * min(tensor.shape[-2:] or (1,))
    made = [*_tensors(result)] or [*_tensors(args[:1])]  # some compute in place, and return nothing
    return float(sum(_numbers(tensor) for tensor in made if tensor.is_floating_point()))


def _numbers(tensor: torch.Tensor) -> int:
    return tensor.numel() if tensor.layout == torch.strided else int(tensor._nnz())


def _tensors(value: Any) -> Iterator[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, list | tuple):
        for one in value:
            yield from _tensors(one)
