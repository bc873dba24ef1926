"""Coordinate-wise median and trimmed mean of many clients' trees: averages that a few forged ones cannot move far.

Of each number the K clients' values are put in order.  The median is the middle one, or the mean of the two in the
middle; the β-trimmed mean leaves out the ⌊βK⌋ least and as many greatest and takes the mean of the others (Yin, Chen,
Ramchandran and Bartlett, "Byzantine-robust distributed learning: towards optimal statistical rates", ICML 2018,
definitions 1 and 2).  Neither knows weights: every client counts alike, for a weight could be forged too.  Each tree
may first be taken times a factor of its own.  The median withstands forgers that are fewer than half, the trimmed mean
up to βK of them; of one or two clients both are the mean.

Not modelled: geometric medians, Krum and others that judge whole trees rather than numbers.
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
    """Return the coordinate-wise mean of K trees, each times its factor, without the ⌊trim·K⌋ least and greatest.

    Raises ValueError for a trim that is not in [0, 0.5), which would leave nothing.
    """
    if not 0 <= trim < 0.5:
        raise ValueError(f"trim: {trim} must be 0 or more and below 0.5")
    return _middle(trees, factors, int(trim * len(trees) + 1e-9))


def _middle(trees: Sequence[Tree], factors: Sequence[float], cut: int) -> Tree:
    """Return the mean of all but the `cut` least and greatest values of each number."""

    def mean(*values: Tensor) -> Tensor:
        stacked = torch.stack([value * factor for value, factor in zip(values, factors, strict=True)])
        if cut:
            stacked = stacked.sort(dim=0).values[cut : len(stacked) - cut]
        return stacked.mean(0)

    return tree.transform(mean, *trees)
