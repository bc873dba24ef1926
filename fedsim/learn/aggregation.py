"""The contract of an aggregation: how a server combines the differences of a cohort into one."""

from abc import ABC, abstractmethod
from collections.abc import Sequence

from fedsim.core.wire import Tree


class Aggregation(ABC):
    """A frozen dataclass of options without state."""

    @abstractmethod
    def combine(self, updates: Sequence[Tree], weights: Sequence[float], factors: Sequence[float]) -> Tree:
        """Return one tree for K trees of the same shapes, each times its factor, and weighted where weights are used.

        A factor is the protocol's discount for staleness, times whatever the algorithm scales a difference by.
        """
