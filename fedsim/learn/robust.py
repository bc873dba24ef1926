"""Coordinate-wise median and trimmed mean of clients' trees: averages that a few forged ones cannot move far.

For each number the K clients' values are sorted.  The median is the middle one, or the mean of the two in the middle;
the β-trimmed mean drops the ⌊βK⌋ smallest and as many largest and averages the others (Yin, Chen, Ramchandran and
Bartlett, "Byzantine-robust distributed learning: towards optimal statistical rates", ICML 2018, definitions 1 and 2).
Neither uses weights: every client counts equally, because weights could be forged too.  Each tree may first be
multiplied by its own factor.  The median tolerates fewer than half forgers, the trimmed mean up to βK; for one or two
clients both are the mean.

Not modelled: the geometric median, Krum and other rules that judge whole trees rather than single numbers.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from fedsim.learn import tree

Tree = Any


def median(trees: Sequence[Tree], factors: Sequence[float]) -> Tree:
    """Return the coordinate-wise median of K trees of the same shapes, each times its factor."""
    return _middle(trees, factors, (len(trees) - 1) // 2)


def trimmed_mean(trees: Sequence[Tree], factors: Sequence[float], trim: float) -> Tree:
    """Return the coordinate-wise mean of K trees, each times its factor, without the ⌊trim·K⌋ smallest and largest
    values.

    Raises ValueError unless the trim is in [0, 0.5).
    """
    if not 0 <= trim < 0.5:
        raise ValueError(f"trim: {trim} must be 0 or more and below 0.5")
    return _middle(trees, factors, int(trim * len(trees) + 1e-9))


def _middle(trees: Sequence[Tree], factors: Sequence[float], cut: int) -> Tree:
    """Return the mean of all but the `cut` smallest and largest values of each number."""

    def mean(*values: Tensor) -> Tensor:
        stacked = torch.stack([value * factor for value, factor in zip(values, factors, strict=True)])
        if cut:
            stacked = stacked.sort(dim=0).values[cut : len(stacked) - cut]
        return stacked.mean(0)

    return tree.transform(mean, *trees)
