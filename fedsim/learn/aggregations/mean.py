"""The weighted mean of the clients' differences, each first times its factor."""

from collections.abc import Sequence
from dataclasses import dataclass

from fedsim.core.wire import Tree
from fedsim.learn.aggregation import Aggregation
from fedsim.learn.engine import tree


@dataclass(frozen=True)
class Mean(Aggregation):
    """Σ nₖ fₖ Δₖ / Σ nₖ: what is taken where a scenario names nothing else."""

    def combine(self, updates: Sequence[Tree], weights: Sequence[float], factors: Sequence[float]) -> Tree:
        """Return the weighted mean."""
        return tree.mean(updates, weights, factors)
