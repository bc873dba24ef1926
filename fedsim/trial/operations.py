"""Operations of torch, counted while they run: an estimate that is the same on every machine.

A product of matrices takes two operations a multiply-add, a decomposition ten times its input's numbers times their
smaller side, anything else one for each number that it computes.  Moving and making numbers is free.  What NumPy and
Python compute is not seen.
"""

import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from types import FrameType
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from fedsim.trial.places import Author

PRODUCTS = {"mm", "bmm", "mv", "dot", "_sparse_mm", "_sparse_sparse_matmul"}
ADDED_PRODUCTS = {
    "addmm",
    "baddbmm",
    "addmv",
    "addbmm",
    "_addmm_activation",
    "_sparse_addmm",
}  # to their first argument
DECOMPOSED = ("linalg_", "_linalg", "svd", "cholesky", "lu_", "triangular_solve", "lstsq")
FREE = {
    "clone", "copy_", "_to_copy", "cat", "stack", "index", "index_select", "gather", "empty", "zeros", "ones", "full",
    "zero_", "fill_", "empty_like", "zeros_like", "ones_like", "full_like", "new_zeros", "new_empty", "new_ones",
    "new_full", "new_empty_strided", "empty_strided", "arange", "scalar_tensor", "resize_", "set_", "repeat",
    "_sparse_csr_tensor_unsafe", "sparse_compressed_tensor", "_sparse_compressed_tensor_unsafe", "to_sparse_csr",
    "_local_scalar_dense", "lift_fresh", "select_backward", "slice_backward", "embedding",
}  # fmt: skip


class Operations(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts what runs inside; `lines` has the share of each line of the author's."""

    def __init__(self, author: Author) -> None:
        """Count nothing yet."""
        super().__init__()  # type: ignore[no-untyped-call]
        self.total = 0.0
        self.lines: Counter[tuple[str, int]] = Counter()
        self._author = author

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run the operation, and count it."""
        result = func(*args, **(kwargs or {}))
        if cost := _cost(func, args, result):
            self.total += cost
            if place := self._place():
                self.lines[place] += cost  # type: ignore[assignment]
        return result

    def _place(self) -> tuple[str, int] | None:
        frame: FrameType | None = sys._getframe(2)
        while frame is not None:
            if self._author.wrote(frame.f_code.co_filename):
                return frame.f_code.co_filename, frame.f_lineno
            frame = frame.f_back
        return None


def _cost(func: Any, args: Sequence[Any], result: Any) -> float:
    name = func.overloadpacket.__name__
    if name in FREE or func.is_view:
        return 0.0
    if name in PRODUCTS or name in ADDED_PRODUCTS:
        first, second = args[1:3] if name in ADDED_PRODUCTS else args[:2]
        return 2.0 * _numbers(first) * (second.shape[-1] if second.dim() > 1 else 1)
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
