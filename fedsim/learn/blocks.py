"""Constant sparse matrices in CSR form, their transposes, and how those of many clients are joined.

A join adds an offset to every block's indices and sorts nothing.  What the rows and columns stand for is not known
here.
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from fedsim.data.graph import csr


class Matrix(NamedTuple):
    """A constant sparse matrix and its transpose, each as CSR; the same object if it is symmetric."""

    rows: Tensor
    columns: Tensor


def block_diagonal(matrices: Sequence[Matrix]) -> Matrix:
    """Join matrices along the diagonal."""
    rows = joined([matrix.rows for matrix in matrices])
    if all(matrix.rows is matrix.columns for matrix in matrices):
        return Matrix(rows, rows)
    return Matrix(rows, joined([matrix.columns for matrix in matrices]))


def joined(blocks: Sequence[Tensor], *, stacked: bool = False) -> Tensor:
    """Join CSR blocks along the diagonal, or `stacked` one below the other over the same columns."""
    heights, widths = zip(*[block.shape for block in blocks], strict=True)
    columns, values = [block.col_indices() for block in blocks], [block.values() for block in blocks]
    filled = [len(value) for value in values]
    column = torch.cat(columns) if stacked else shifted(columns, filled, offsets(widths))
    crow = join_pointers([block.crow_indices() for block in blocks], filled)
    return csr(crow, column, torch.cat(values), (sum(heights), max(widths) if stacked else sum(widths)))


def join_pointers(crows: Sequence[Tensor], filled: Sequence[int]) -> Tensor:
    """Join row pointers of parts with `filled` entries each."""
    heights = [len(crow) - 1 for crow in crows]
    tails = [crow.narrow(0, 1, height) for crow, height in zip(crows, heights, strict=True)]
    return torch.cat([crows[0].new_zeros(1), shifted(tails, heights, offsets(filled))])


def shifted(parts: Sequence[Tensor], counts: Sequence[int], shifts: Sequence[int]) -> Tensor:
    """Concatenate parts (…, count), each plus its shift, with one sum for all of them."""
    whole = torch.cat(list(parts), dim=-1)
    shift = torch.tensor(shifts, dtype=whole.dtype, device=whole.device)
    total = torch.tensor(counts, device=whole.device)
    return whole.add_(torch.repeat_interleave(shift, total, output_size=whole.shape[-1]))


def offsets(counts: Sequence[int]) -> list[int]:
    """Return where each part begins in the concatenation of parts of these lengths."""
    total, starts = 0, []
    for count in counts:
        starts.append(total)
        total += count
    return starts


def row_pointers(index: Tensor, n: int) -> Tensor:
    """Return the row pointers (n + 1,) of a sorted or unsorted row index."""
    crow = torch.zeros(n + 1, dtype=torch.int32, device=index.device)
    crow[1:] = torch.bincount(index, minlength=n).cumsum(0)
    return crow


def equal(one: Tensor, other: Tensor) -> bool:
    """Return whether two CSR matrices have the same entries in the same order."""
    parts = ((each.crow_indices(), each.col_indices(), each.values()) for each in (one, other))
    return all(torch.equal(a, b) for a, b in zip(*parts, strict=True))


def transposed(matrix: Tensor) -> Tensor:
    """Return a CSR matrix's transpose as CSR."""
    n, width = matrix.shape
    counts = matrix.crow_indices().diff().long()
    row = torch.repeat_interleave(torch.arange(n, device=matrix.device), counts)
    column = matrix.col_indices().long()
    order = torch.argsort(column, stable=True)
    return csr(row_pointers(column, width), row[order].int(), matrix.values()[order], (width, n))
