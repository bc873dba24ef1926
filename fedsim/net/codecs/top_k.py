"""Top k: the entries of largest magnitude are sent, with their positions."""

from dataclasses import dataclass

import numpy as np

from fedsim.core.arrays import Array
from fedsim.core.wire import Spec
from fedsim.net.sparsifier import Sparsifier


@dataclass(frozen=True)
class TopK(Sparsifier):
    """The `share` of each array's entries of largest magnitude; ties go to the first, in row order.

    An entry costs 4 bytes more than its value, for its position: at a share of 10 %, a fifth of a float32
    array.  With `feedback` (Stich et al., NeurIPS 2018) what was left out is added to the next upload before
    choosing; without it the upload is biased towards the large entries.
    """

    def key_like(self, count: int) -> Spec:
        """Return the positions' size."""
        return Spec((count,), "uint32")

    def key(self, flat: Array, count: int, rng: np.random.Generator) -> Array:
        """Return the positions in ascending order."""
        magnitude = np.abs(flat)
        least = np.partition(magnitude, flat.size - count)[flat.size - count]
        above = np.flatnonzero(magnitude > least)
        equal = np.flatnonzero(magnitude == least)[: count - len(above)]
        return np.sort(np.concatenate([above, equal])).astype(np.uint32)

    def positions(self, key: Array, size: int, count: int) -> Array:
        """Return the positions, which were sent."""
        return key
