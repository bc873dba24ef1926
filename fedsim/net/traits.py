"""Traits: what effects may know of clients beside their links."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Codes = npt.NDArray[np.str_]
Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Traits:
    """Where K clients are, and what they hold.

    `held` returns how many training vertices of each of C labels each client has, (K, C).  It is None if clients hold
    nothing, and called only when a run begins, since before that the data need not have been loaded.
    """

    country: Codes  # (K,), "" where unknown
    held: Callable[[], Numbers] | None = None


def unknown(count: int) -> Traits:
    """Return the traits of clients of which nothing is known."""
    return Traits(np.full(count, "", dtype="U2"))
