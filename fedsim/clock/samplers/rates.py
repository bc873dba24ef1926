"""Each client takes part with its own probability, from a table.

A round's volunteers decide independently of one another, and at most as many as are wanted are asked, with equal
chances.  Not modelled: rates that change over time, or that depend on one another.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from fedsim.clock.clients import Clients
from fedsim.clock.sampler import Sampler, some
from fedsim.core import portable
from fedsim.core.arrays import Bools, Floats, Ints
from fedsim.core.errors import UserError
from fedsim.core.table import Column, FilePath, fault, read_lines
from fedsim.core.units import Fraction

COLUMNS = [Column("client", whole=True, low=0), Column("rate", low=0.0, high=1.0)]


@dataclass(frozen=True)
class Rates(Sampler):
    """Draws again until at least one client takes part; none does if no available client has a rate above 0."""

    table: FilePath  # with the columns client and rate (from 0 to 1)
    default: Fraction = 1.0  # the rate of clients that the table does not list

    def __post_init__(self) -> None:
        """Read the table.  Raises UserError if it is invalid, or lists a client twice."""
        if not (self._listed[1].any() or self.default):
            raise ValueError(
                f"table: all rates in {self.table} are 0, and so is 'default': no client would ever take part"
            )

    def choose(self, free: Ints, count: int, columns: Clients, rng: np.random.Generator) -> Ints:
        """Return the cohort.  Raises UserError if the table lists an unknown client."""
        rates = self._rates(len(columns.last_asked))[free]
        willing, rates = free[rates > 0], rates[rates > 0]
        if not len(willing) or not count:
            return willing[:0]
        return some(willing[_volunteers(rates, rng)], count, rng)

    @cached_property
    def _listed(self) -> tuple[Ints, Floats]:
        listed, lines = read_lines(self.table, COLUMNS)
        clients = listed["client"]
        order = np.argsort(clients, kind="stable")
        again = np.flatnonzero(np.diff(clients[order]) == 0)
        if len(again):
            place = int(order[again[0] + 1])
            raise fault(
                self.table, int(lines[place]), f"client {clients[place]} is listed a second time; keep one line"
            )
        return clients, listed["rate"]

    def _rates(self, count: int) -> Floats:
        clients, rates = self._listed
        if clients.max() >= count:
            raise UserError(
                f"{self.table} lists client {clients.max()}, but there are {count}, counted from 0: "
                f"remove the line, or raise clients.count"
            )
        every = np.full(count, self.default)
        every[clients] = rates
        return every


def _volunteers(rates: Floats, rng: np.random.Generator) -> Bools:
    """Return who volunteers (n,) given that at least one does: redrawing until then, in a single draw.

    The first volunteer is drawn by 1 - (1 - r_1) ... (1 - r_i), the chance that it is one of the first i;
    those after it decide freely, those before it have declined.
    """
    with np.errstate(divide="ignore"):
        somebody = -portable.expm1(np.cumsum(portable.log1p(-rates)))
    first = min(int(np.searchsorted(somebody, rng.random() * somebody[-1], side="right")), len(rates) - 1)
    volunteers = rng.random(len(rates)) < rates
    volunteers[:first], volunteers[first] = False, True
    return volunteers
