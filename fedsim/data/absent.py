"""Draw free numbers of ranges, and unordered pairs that are not edges, without rejection.

K ranges count from 0 to their sizes; some of their numbers are taken.  The r-th number that is not taken is found by
one binary search, so that uniform ranks give exactly uniform draws, for all ranges at once.  Unordered pairs of n
vertices are numbered too, 0 to n (n - 1) / 2: the non-edges of a graph are the numbers that its edges leave free.
"""

from typing import NamedTuple

import torch
from torch import Tensor


class Absent(NamedTuple):
    """The numbers that are not taken, of K ranges one after the other."""

    gaps: Tensor  # (T,) each taken number, minus the count of those below it
    starts: Tensor  # (K,) where each range begins
    first: Tensor  # (K,) count of free numbers in the ranges before
    counts: Tensor  # (K,) count of free numbers in each range

    def pick(self, ranks: Tensor, which: Tensor) -> Tensor:
        """Return the free numbers of these ranks (from 0, below `counts`) in ranges `which`, of the same shape."""
        ranks = ranks + self.first[which]
        return ranks + torch.searchsorted(self.gaps, ranks, right=True) - self.starts[which]


def absent(taken: Tensor, which: Tensor, sizes: Tensor) -> Absent:
    """Return what is free if the numbers `taken` (T,) of the ranges `which` (T,) are not, in any order, with repeats.

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
    # the root may be off by one for numbers beyond a double's precision
    upper = ((1 + (1 + 8 * numbers.double()).sqrt()) / 2).long()
    upper = upper - (upper * (upper - 1) // 2 > numbers).long()
    upper = upper + (upper * (upper + 1) // 2 <= numbers).long()
    return torch.stack([numbers - upper * (upper - 1) // 2, upper])
