"""Rand k: randomly drawn entries are sent; their positions follow from a seed."""

from dataclasses import dataclass

import numpy as np

from fedsim.core.arrays import Array
from fedsim.net.sparsifier import Sparsifier


@dataclass(frozen=True)
class RandK(Sparsifier):
    """A `share` of each array's entries, drawn uniformly without replacement.

    Their positions need not travel: the seed they are drawn from does, in 8 bytes, and the receiver draws
    them again. So an entry costs its value's bytes only.  With `feedback` values are sent as they are and
    what was left out is added to the next upload (Stich et al., NeurIPS 2018); without it they are multiplied
    by n / k, so that the upload is unbiased (Wangni et al., NeurIPS 2018), with n / k times the second
    moment.
    """

    def key_like(self, count: int) -> int:
        """Return a whole number."""
        return 0

    def key(self, flat: Array, count: int, rng: np.random.Generator) -> int:
        """Return a seed."""
        return int(rng.integers(1 << 63))

    def positions(self, key: int, size: int, count: int) -> Array:
        """Draw the positions from the seed."""
        drawn = np.random.Generator(np.random.PCG64(key)).choice(size, count, replace=False, shuffle=False)
        return np.sort(drawn)

    def factor(self, size: int, count: int) -> float:
        """Return n / k without feedback."""
        return 1.0 if self.feedback else size / count
