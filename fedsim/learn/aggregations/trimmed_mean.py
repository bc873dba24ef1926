"""The coordinate-wise β-trimmed mean of the clients' differences: an average that a few forged ones cannot move far.

For each number the K clients' values are sorted, the ⌊βK⌋ smallest and as many largest are dropped, and the
others averaged (Yin, Chen, Ramchandran and Bartlett, "Byzantine-robust distributed learning: towards optimal
statistical rates", ICML 2018, definition 2).  Weights are not used: every client counts equally, because
weights could be forged too.  It tolerates up to βK forgers; for one or two clients it is the mean.

Not modelled: the geometric median, Krum and other rules that judge whole trees rather than single numbers.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import torch
from pydantic import Field
from torch import Tensor

from fedsim.core.units import Fraction
from fedsim.core.wire import Tree
from fedsim.learn.aggregation import Aggregation
from fedsim.learn.engine import tree


@dataclass(frozen=True)
class TrimmedMean(Aggregation):
    """It protects the average of differences, not what an algorithm aggregates beside it."""

    trim: Annotated[Fraction, Field(lt=0.5)] = 0.1  # share cut off at each end

    def combine(self, updates: Sequence[Tree], weights: Sequence[float], factors: Sequence[float]) -> Tree:
        """Return the mean of the values left, each times its factor."""
        return without_ends(updates, factors, int(self.trim * len(updates) + 1e-9))


def without_ends(trees: Sequence[Tree], factors: Sequence[float], cut: int) -> Tree:
    """Return the mean of all but the `cut` smallest and largest values of each number."""

    def mean(*values: Tensor) -> Tensor:
        stacked = torch.stack([value * factor for value, factor in zip(values, factors, strict=True)])
        if cut:
            stacked = stacked.sort(dim=0).values[cut : len(stacked) - cut]
        return stacked.mean(0)

    return tree.transform(mean, *trees)
