"""The contract of a sampler: who of those that could take part is asked.

An implementation is a frozen dataclass of options without state, one file in `samplers/`: what has happened so far it
reads from the clients' rows.  Not modelled: clients that refuse, and samplers that look at models or losses.
"""

from abc import ABC, abstractmethod
from typing import Protocol

import numpy as np
import numpy.typing as npt

Numbers = npt.NDArray[np.int64]


class Rows(Protocol):
    """What a sampler may look at, one entry a client: labelled examples, and the number of its last turn (0: none)."""

    examples: Numbers
    turns: Numbers

    def availability(self) -> npt.NDArray[np.float64]:
        """Return the share of the time so far that each client has been online."""
        ...


class Sampler(ABC):
    """A rule for choosing a cohort."""

    @abstractmethod
    def choose(self, free: Numbers, count: int, rows: Rows, rng: np.random.Generator) -> Numbers:
        """Return at most `count` different clients out of `free`, in ascending order.

        `free` are those that are online, hold data and are not at work, ascending; it may be empty.
        """
