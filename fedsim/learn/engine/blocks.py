"""Constant sparse matrices in CSR form, their transposes, and how those of many clients are joined.

A join adds an offset to every block's indices and sorts nothing.  What the rows and columns stand for is not
known here.
"""

from collections.abc import Sequence
from itertools import accumulate
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from fedsim.data.graph import csr


class Csr:
    """A constant CSR matrix as its parts, which take longer to read from a torch tensor than a small product takes."""

    __slots__ = ("_tensor", "column", "crow", "entries", "shape", "tails", "value")

    def __init__(self, crow: Tensor, column: Tensor, value: Tensor, shape: tuple[int, int]) -> None:
        """Wrap row pointers, columns and values; `tails` is where each row ends."""
        self.crow, self.column, self.value, self.shape = crow, column, value, shape
        self.entries, self.tails = len(value), crow.narrow(0, 1, shape[0])
        self._tensor: Tensor | None = None

    def tensor(self) -> Tensor:
        """Return the matrix as torch's own, made once."""
        if self._tensor is None:
            self._tensor = csr(self.crow, self.column, self.value, self.shape)
        return self._tensor


class Matrix(NamedTuple):
    """A constant sparse matrix and its transpose; the same object if it is symmetric."""

    rows: Csr
    columns: Csr

    @property
    def transpose(self) -> "Matrix":
        """The transpose, whose transpose is this one."""
        return Matrix(self.columns, self.rows)


def block_diagonal(matrices: Sequence[Matrix]) -> Matrix:
    """Join matrices along the diagonal."""
    rows = joined([matrix.rows for matrix in matrices])
    if all(matrix.rows is matrix.columns for matrix in matrices):
        return Matrix(rows, rows)
    return Matrix(rows, joined([matrix.columns for matrix in matrices]))


def joined(blocks: Sequence[Csr], *, stacked: bool = False) -> Csr:
    """Join blocks along the diagonal, or `stacked` one below the other over the same columns."""
    heights, widths = zip(*[block.shape for block in blocks], strict=True)
    columns, filled = [block.column for block in blocks], [block.entries for block in blocks]
    column = torch.cat(columns) if stacked else shifted(columns, filled, offsets(widths))
    crow = _joined_pointers(blocks[0].crow, [block.tails for block in blocks], heights, filled)
    value = torch.cat([block.value for block in blocks])
    return Csr(crow, column, value, (sum(heights), max(widths) if stacked else sum(widths)))


def join_pointers(crows: Sequence[Tensor], filled: Sequence[int]) -> Tensor:
    """Join row pointers of parts with `filled` entries each."""
    heights = [len(crow) - 1 for crow in crows]
    tails = [crow.narrow(0, 1, height) for crow, height in zip(crows, heights, strict=True)]
    return _joined_pointers(crows[0], tails, heights, filled)


def _joined_pointers(first: Tensor, tails: Sequence[Tensor], heights: Sequence[int], filled: Sequence[int]) -> Tensor:
    start = first.narrow(0, 0, 1)  # always zero
    return shifted([start, *tails], [1, *heights], [0, *offsets(filled)])


def shifted(parts: Sequence[Tensor], counts: Sequence[int], shifts: Sequence[int]) -> Tensor:
    """Concatenate parts (…, count), each plus its shift, with one sum for all of them."""
    whole = torch.cat(list(parts), dim=-1)
    return whole.add_(repeated(shifts, counts, whole))


def repeated(numbers: Sequence[int], counts: Sequence[int], like: Tensor) -> Tensor:
    """Return each number as often as its count says, of the type of `like` and on its device."""
    kind = np.int32 if like.dtype == torch.int32 else np.int64
    return torch.from_numpy(np.repeat(np.array(numbers, dtype=kind), counts)).to(like.device)


def offsets(counts: Sequence[int]) -> list[int]:
    """Return where each part begins in the concatenation of parts of these lengths."""
    return [0, *accumulate(counts)][:-1]


def row_pointers(index: Tensor, n: int) -> Tensor:
    """Return the row pointers (n + 1,) of a sorted or unsorted row index."""
    crow = torch.zeros(n + 1, dtype=torch.int32, device=index.device)
    crow[1:] = torch.bincount(index, minlength=n).cumsum(0)
    return crow


def equal(one: Csr, other: Csr) -> bool:
    """Return whether two matrices have the same entries in the same order."""
    parts = ((each.crow, each.column, each.value) for each in (one, other))
    return all(torch.equal(a, b) for a, b in zip(*parts, strict=True))


def selection(columns: Tensor, width: int) -> Matrix:
    """Return the matrix (n, width) whose row i takes row columns[i] of what it is multiplied with."""
    n, device = len(columns), columns.device
    crow = torch.arange(n + 1, dtype=torch.int32, device=device)
    rows = Csr(crow, columns.int(), torch.ones(n, device=device), (n, width))
    return Matrix(rows, transposed(rows))


def transposed(matrix: Csr) -> Csr:
    """Return a matrix's transpose."""
    n, width = matrix.shape
    row = torch.repeat_interleave(torch.arange(n, device=matrix.crow.device), matrix.crow.diff().long())
    column = matrix.column.long()
    order = torch.argsort(column, stable=True)
    return Csr(row_pointers(column, width), row[order].int(), matrix.value[order], (width, n))
