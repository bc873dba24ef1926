"""Quorum: how many clients must be there before a round begins.

A client is there while it is online, holds data and is not at work.  Without a quorum a round begins with whoever is
there, which may be far fewer than wanted; with one it waits until `least` are there at once, `longest_wait` at most.
When that is over the round begins with whoever is there, or with the first to come where nobody is; the log says so,
and the update's row has fewer `asked` than `wanted`.  A server that is down is waited for, and its time counts.

Not modelled: a round that is given up for lack of clients.
"""

import logging
import math
from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

import simpy

from fedsim.errors import UserError
from fedsim.protocol import Cohorts, select
from fedsim.units import Amount, Seconds
from fedsim.world import Members, World

log = logging.getLogger(__name__)
Waiting = Generator[simpy.Event, Any, None]


@dataclass(frozen=True, kw_only=True)
class Quorum(Cohorts):
    """A protocol whose rounds begin once enough clients are there."""

    least: Amount = 1  # clients that must be available before a round starts
    longest_wait: Seconds | None = None  # how long to wait for them; then the round starts with those available

    def __post_init__(self) -> None:
        """Check the options' ranges."""
        super().__post_init__()
        if self.longest_wait is not None and self.longest_wait <= 0:
            raise ValueError("longest_wait: must be longer than 0 s")
        if self.longest_wait is not None and self.least == 1 and isinstance(self.least, int):
            raise ValueError("longest_wait: is for 'least' clients; give least as well (a count, or a share as '80 %')")

    def suits(self, clients: int) -> None:
        """Check that no more must be there than are wanted.  Raises UserError if they are."""
        super().suits(clients)
        wanted = self.most_of(clients)
        if isinstance(self.least, int) and self.least > wanted:
            many = f"of {clients} clients, {wanted} are wanted"
            raise UserError(f"least: {self.least} can never be there: {many}; write {wanted} at most, or a share: 80 %")

    def most_of(self, clients: int) -> int:
        """Return how many of so many clients `least` may ask for."""
        return self.cohort_of(clients)

    def quorum(self, wanted: int) -> int:
        """Return how many must be there where so many are wanted."""
        return self.least if isinstance(self.least, int) else max(1, math.ceil(self.least * wanted - 1e-9))

    def draw(self, world: World, count: int, wanted: int) -> Generator[simpy.Event, Any, list[int]]:
        """Return a cohort of up to `count` clients, drawn once there are enough for so many wanted."""
        yield from self.gathered(world, wanted)
        return (yield from select(world, count))

    def gathered(self, world: World, wanted: int, among: Members | None = None) -> Waiting:
        """Wait until enough clients (`among` these) are there, or the longest wait is over."""
        need = self.quorum(wanted)
        if need <= 1:
            return  # whoever asks them waits for the first
        began = world.env.now
        over = world.env.event() if self.longest_wait is None else world.env.timeout(self.longest_wait)
        while not (world.server.serving and world.ready(among) >= need):
            if over.processed:
                now, there = world.env.now, world.ready(among)
                text = "%.3f s: a round starts short after waiting %.3f s for %d clients: %d are available, %d wanted"
                log.info(text, now, now - began, need, there, wanted)
                return
            yield world.clients.stirred | over
