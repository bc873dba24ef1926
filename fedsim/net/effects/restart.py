"""Restart: the server goes down from time to time, loses what it has not saved, and restarts."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import simpy

from fedsim.core.errors import UserError
from fedsim.core.units import Count, Duration, Seconds
from fedsim.net.disturbance import check_spells
from fedsim.net.effect import Drive, Effect, Network, ServerStatus


@dataclass(frozen=True)
class Restart(Effect):
    """The server goes down at given or exponentially distributed times, each time for `length`.

    When it goes down, all messages to and from it are cut, clients abort their work for it, replies that it
    has not yet folded are lost, an update in progress is aborted, and its state returns to the last
    checkpoint; one is kept every `checkpoint` updates, and one of the first state.  No client is asked until
    it is up; a round in which it goes down is over.  Versions go on counting all updates, and a row of the
    updates with the step "restart" records how many were undone.  Clients keep their memories.  Edge
    aggregators keep running; what they contribute to an earlier round is lost.  Not modelled: the time and
    space that a checkpoint takes, clients that go on working for a lost ask, and a server that comes up
    gradually.
    """

    changes_presence_only: ClassVar[bool] = True
    halts_server: ClassVar[bool] = True
    on_messages: ClassVar[bool] = True

    length: Duration  # duration of each downtime
    every: Duration | None = None  # mean time from a restart to the next failure
    at: tuple[Seconds, ...] | None = None  # or the times at which it goes down
    checkpoint: Count = 1  # updates between checkpoints

    def __post_init__(self) -> None:
        """Raise ValueError unless exactly one kind of times is given, and for times that overlap."""
        check_spells("restart", self.every, self.at, self.length)

    def drive(self, env: simpy.Environment, network: Network, rng: np.random.Generator) -> Drive | None:
        """Return the process of restarts.  Raises UserError if there is no server."""
        if network.server_status is None:
            raise UserError("restart: a network of peers has no server; leave it out, or take the topology 'star'")
        network.server_status.intervals.add(self.checkpoint)
        return self._restarts(env, network.server_status, rng)

    def _restarts(self, env: simpy.Environment, status: ServerStatus, rng: np.random.Generator) -> Drive:
        for wait in self._waits(rng):
            yield env.timeout(wait)
            status.halt(self, self.checkpoint)
            yield env.timeout(self.length)
            status.resume(self)

    def _waits(self, rng: np.random.Generator) -> Iterator[float]:
        """Yield the seconds of each time up."""
        up = 0.0
        for time in self.at or ():
            yield time - up
            up = time + self.length
        while self.every is not None:
            yield float(rng.exponential(self.every))
