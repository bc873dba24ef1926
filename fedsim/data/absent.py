"""What is not there, drawn without a single rejection: the numbers of ranges that are not taken, and unordered pairs.

K ranges count from 0 to their sizes; some of their numbers are taken.  The r-th number that is not taken is found by
one binary search, so that uniform ranks give uniform draws, exactly and at once for all ranges.  Unordered pairs of n
vertices are numbers too, 0 to n (n - 1) / 2: the non-edges of a graph are what its edges leave.
"""

from typing import NamedTuple

import torch
from torch import Tensor


class Absent(NamedTuple):
    """The numbers that are not taken, of K ranges one after the other."""

    gaps: Tensor  # (T,) each taken number, less how many are taken below it
    starts: Tensor  # (K,) where each range begins
    first: Tensor  # (K,) how many numbers are free in the ranges before
    counts: Tensor  # (K,) how many numbers each range has free

    def pick(self, ranks: Tensor, which: Tensor) -> Tensor:
        """Return the free numbers of these ranks (from 0, below `counts`) in ranges `which`: both any shape, alike."""
        ranks = ranks + self.first[which]
        return ranks + torch.searchsorted(self.gaps, ranks, right=True) - self.starts[which]


def absent(taken: Tensor, which: Tensor, sizes: Tensor) -> Absent:
    """Return what is free where `taken` (T,) is taken of ranges `which` (T,), in any order, with repetitions.

    sizes (K,) int64.  Their sum must be below 2^63.
    """
    starts = sizes.cumsum(0) - sizes
    codes = torch.unique(taken + starts[which])
    below = torch.searchsorted(codes, torch.cat([starts, sizes.sum().view(1)]))
    gaps = codes - torch.arange(len(codes), device=codes.device)
    return Absent(gaps, starts, starts - below[:-1], sizes - below.diff())


def pair_numbers(first: Tensor, second: Tensor) -> Tensor:
    """Return the number of each unordered pair of distinct vertices: v (v - 1) / 2 + u with u < v."""
    upper = torch.maximum(first, second)
    return upper * (upper - 1) // 2 + torch.minimum(first, second)


def pairs_of(numbers: Tensor) -> Tensor:
    """Return the pairs (2, …) of these numbers, the smaller vertex first."""
    # the root may be off by one where numbers are beyond what a double can tell apart
    upper = ((1 + (1 + 8 * numbers.double()).sqrt()) / 2).long()
    upper = upper - (upper * (upper - 1) // 2 > numbers).long()
    upper = upper + (upper * (upper + 1) // 2 <= numbers).long()
    return torch.stack([numbers - upper * (upper - 1) // 2, upper])
