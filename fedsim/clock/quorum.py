"""Quorum: how many clients must be available before a round begins.

A client is available while it is online, holds data and is not at work.  Without a quorum a round begins with the
clients available, which may be far fewer than wanted; with one it waits until `least` are available at once, for at
most `longest_wait`.  After that the round begins with those available, or with the first to come if there are none; the
log says so, and the update's row has fewer `asked` than `wanted`.  Downtime of the server counts as waiting.

Not modelled: a round that is abandoned for lack of clients.
"""

import logging
import math
from collections.abc import Callable, Generator
from dataclasses import dataclass
from functools import partial
from typing import Any

import simpy

from fedsim.clock.protocol import CohortProtocol, Rounds, select
from fedsim.clock.sampler import Cohorts
from fedsim.clock.world import World
from fedsim.core.arrays import Bools
from fedsim.core.errors import UserError
from fedsim.core.units import Amount, Duration

log = logging.getLogger(__name__)
Waiting = Generator[simpy.Event, Any, None]
Drawn = Generator[simpy.Event, Any, list[int]]


@dataclass(frozen=True, kw_only=True)
class Quorum(CohortProtocol):
    """A protocol whose rounds begin once enough clients are available."""

    least: Amount = 1  # clients that must be available before a round starts
    longest_wait: Duration | None = None  # how long to wait for them; then the round starts with those available

    def __post_init__(self) -> None:
        """Raise ValueError for a longest wait without anybody to wait for."""
        super().__post_init__()
        if self.longest_wait is not None and self.least == 1 and isinstance(self.least, int):
            raise ValueError(
                "longest_wait: needs a 'least' above 1, the clients to wait for (a count, or a share as '80 %'); "
                "a round waits for the first in any case"
            )

    def suits(self, clients: int) -> None:
        """Raise UserError if more clients must be available than are wanted."""
        super().suits(clients)
        wanted = self.most_of(clients)
        if isinstance(self.least, int) and self.least > wanted:
            many = f"of {clients} clients, {wanted} are wanted"
            raise UserError(f"least: {self.least} is never reached: {many}; write {wanted} at most, or a share: 80 %")

    def most_of(self, clients: int) -> int:
        """Return the largest value of `least` for that many clients."""
        return self.cohort_of(clients)

    def quorum(self, wanted: int) -> int:
        """Return how many must be available if `wanted` are wanted."""
        return self.least if isinstance(self.least, int) else max(1, math.ceil(self.least * wanted - 1e-9))

    def drawing(self, world: World, wanted: int) -> Callable[[int], Drawn]:
        """Return what draws a cohort of up to so many clients, for rounds that want `wanted`."""
        if self.quorum(wanted) <= 1:  # it waits for the first in any case
            return partial(select, world)
        return partial(self._draw, world, wanted)

    def _draw(self, world: World, wanted: int, count: int) -> Drawn:
        yield from self.gathered(world, wanted)
        return (yield from select(world, count))

    def gathered(self, world: World, wanted: int, among: Bools | None = None) -> Waiting:
        """Wait until enough clients (out of `among`) are available, or the longest wait is over."""
        need = self.quorum(wanted)
        if need <= 1:
            return  # the caller waits for the first
        began = world.env.now
        over = world.env.event() if self.longest_wait is None else world.env.timeout(self.longest_wait)
        while not (world.server.serving and world.ready(among) >= need):
            if over.processed:
                now, there = world.env.now, world.ready(among)
                text = "%.3f s: a round starts short after waiting %.3f s for %d clients: %d are available, %d wanted"
                log.info(text, now, now - began, need, there, wanted)
                return
            yield world.clients.client_available | over


@dataclass(frozen=True, kw_only=True)
class CohortRounds(Quorum, Rounds):
    """A protocol that draws one cohort for each round and folds as many replies as it wants."""

    def cohorts(self, clients: int) -> Cohorts:
        """Return a cohort for each round, which may wait for a quorum."""
        return Cohorts(self.rounds, self.most_of(clients), waits=self.quorum(self.cohort_of(clients)) > 1)

    def folded(self, clients: int) -> int:
        """Return how many replies are wanted."""
        return self.cohort_of(clients)
