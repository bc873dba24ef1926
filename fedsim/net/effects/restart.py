"""Restart: the server goes down from time to time, loses what it has not saved, and restarts."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar

import numpy as np
import simpy

from fedsim.core.errors import UserError
from fedsim.core.units import Count, Seconds
from fedsim.net.effect import Drive, Effect, Network
from fedsim.net.service import Service


@dataclass(frozen=True)
class Restart(Effect):
    """The server goes down at given or exponentially distributed times, each time for `length`.

    When it goes down, all messages to and from it are cut, clients abort their work for it, replies that it has not yet
    folded are lost, an update in progress is aborted, and its state returns to the last checkpoint; one is kept every
    `checkpoint` updates, and one of the first state.  No client is asked until it is up; a round in which it goes down
    is over.  Versions go on counting all updates, and a row of the updates with the step "restart" records how
    many were undone.  Clients keep their memories.  Edge aggregators keep running; what they contribute to an earlier
    round is lost.  Not modelled: the time and space that a checkpoint takes, clients that go on working for a lost ask,
    and a server that comes up gradually.
    """

    drives: ClassVar[bool] = True
    calm: ClassVar[bool] = True
    on_messages: ClassVar[bool] = True

    length: Seconds  # duration of each downtime
    every: Seconds | None = None  # mean time from a restart to the next failure
    at: tuple[Seconds, ...] | None = None  # or the times at which it goes down
    checkpoint: Count = 1  # updates between checkpoints

    def __post_init__(self) -> None:
        """Raise ValueError for times that make no sense, and unless exactly one kind of them is given."""
        if (self.every is None) == (self.at is None):
            raise ValueError("restart: give either 'every' (a mean time) or 'at' (a list of times)")
        for name, value in (("every", 1.0 if self.every is None else self.every), ("length", self.length)):
            if not (math.isfinite(value) and value > 0):
                raise ValueError(f"restart: option '{name}' is {value} s; it must be finite and above 0")
        if self.at is not None:
            apart = all(later - earlier > self.length for earlier, later in pairwise(self.at))
            if not (self.at and self.at[0] >= 0 and math.isfinite(self.at[-1]) and apart):
                message = "its times must be ascending, not negative, and further apart than the option 'length'"
                raise ValueError(f"restart: option 'at': {message}")

    def drive(self, env: simpy.Environment, network: Network, rng: np.random.Generator) -> Drive | None:
        """Return the process of restarts.  Raises UserError if there is no server."""
        if network.service is None:
            raise UserError("restart: a network of peers has no server; leave it out, or take the topology 'star'")
        network.service.intervals.add(self.checkpoint)
        return self._restarts(env, network.service, rng)

    def _restarts(self, env: simpy.Environment, service: Service, rng: np.random.Generator) -> Drive:
        for wait in self._waits(rng):
            yield env.timeout(wait)
            service.halt(self, self.checkpoint)
            yield env.timeout(self.length)
            service.resume(self)

    def _waits(self, rng: np.random.Generator) -> Iterator[float]:
        """Yield the seconds of each time up."""
        up = 0.0
        for time in self.at or ():
            yield time - up
            up = time + self.length
        while self.every is not None:
            yield float(rng.exponential(self.every))
