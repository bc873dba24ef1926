"""The contract of a sampler, which chooses the clients to ask among those available.

An implementation is a frozen dataclass of options without state, one file in `samplers/`; all that it knows of clients
and of the past are the arrays of `Clients`, with an entry per client, free or not.
Not modelled: samplers that look at models, and those that ask candidates before they choose.
"""

from abc import ABC, abstractmethod
from typing import ClassVar, NamedTuple

import numpy as np

from fedsim.clock.clients import Clients
from fedsim.core.arrays import Floats, Ints


class Cohorts(NamedTuple):
    """The cohorts that a protocol draws: how many at most (`rounds`), of at most how many clients each (`most`).

    `waits`: whether a round waits until so many clients are available, whichever they are.
    """

    rounds: int
    most: int
    waits: bool = False


class Sampler(ABC):
    """A rule for choosing a cohort."""

    even: ClassVar[bool] = False  # True if all free clients have the same chance, whatever happened before
    observes: ClassVar[bool] = False  # True if it reads `Clients.statistics`; cohorts are then asked one by one
    reports: ClassVar[bool] = False  # True if clients send their loss with every upload

    @abstractmethod
    def choose(self, free: Ints, count: int, columns: Clients, rng: np.random.Generator) -> Ints:
        """Return at most `count` different clients out of `free`, in ascending order.

        `free` are those that are online, hold data and are not at work, ascending; it may be empty.
        """

    def suits(self, clients: int, cohorts: Cohorts | None) -> None:  # noqa: B027
        """Check that the sampler's tables suit that many clients and what the protocol draws; called before the run.

        `cohorts` is None if the protocol does not draw one cohort for each round.  Raises UserError, naming the file
        and its line, if a table does not suit.
        """


def draw(among: Ints, count: int, weights: Floats, rng: np.random.Generator) -> Ints:
    """Return `count` of `among`, ascending, drawn one after another with a chance in proportion to their weights.

    `weights` are not negative, one for each client.  Infinite weights come first, zeros last, with equal chances among
    themselves; all are returned if there are no more than `count`.  Each gets a waiting time from an exponential
    distribution with its weight as the rate, and the shortest win, which equals drawing without replacement
    (Efraimidis and Spirakis, Information Processing Letters 97(5), 2006, in logarithms).
    """
    if len(among) <= count:
        return among
    kind = np.where(np.isinf(weights), 0, np.where(weights > 0, 1, 2))
    with np.errstate(over="ignore"):
        waits = rng.exponential(size=len(among)) / np.where(kind == 1, weights, 1.0)
    drawn = np.zeros(0, dtype=np.int64)
    for first in range(3):
        members = np.flatnonzero(kind == first)
        drawn = np.append(drawn, members[least(waits[members], count - len(drawn))])
    return np.sort(among[drawn])


def some(among: Ints, count: int, rng: np.random.Generator) -> Ints:
    """Return `count` of `among`, ascending, all equally likely; all if there are no more."""
    return among if len(among) <= count else np.sort(rng.choice(among, size=count, replace=False))


def least(values: Floats | Ints, count: int) -> Ints:
    """Return the indices of the `count` smallest values, or of all if there are no more."""
    return np.arange(len(values)) if len(values) <= count else np.argpartition(values, count)[:count]
