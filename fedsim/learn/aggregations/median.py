"""The coordinate-wise median of the clients' differences (Yin et al., ICML 2018, definition 1).

The middle one of the K clients' values of each number, or the mean of the two in the middle: the mean, after
trimming all others.  Weights are not used.  It tolerates fewer than half forgers; for one or two clients it
is the mean.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from fedsim.core.wire import Tree
from fedsim.learn.aggregation import Aggregation
from fedsim.learn.aggregations.trimmed_mean import without_ends


@dataclass(frozen=True)
class Median(Aggregation):
    """It protects the average of differences, not what an algorithm aggregates beside it."""

    def combine(self, updates: Sequence[Tree], weights: Sequence[float], factors: Sequence[float]) -> Tree:
        """Return the median, each value first times its factor."""
        return without_ends(updates, factors, (len(updates) - 1) // 2)
