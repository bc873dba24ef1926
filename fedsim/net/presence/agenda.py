"""Agenda: when clients that are attended to change next, and an alarm on the simulated clock for the first of them.

The alarm rings at the earliest time that was set, and never late.  Not modelled: cancelling.  An alarm that
is moved to an earlier time drops the later one, which its owner sets again when it rings.
"""

import math
from collections.abc import Callable, Iterator
from heapq import heappop, heappush

import numpy as np
import simpy


class Agenda:
    """The next changes of `count` clients; without a clock the time is always 0, and nothing rings.

    `attended` counts how many attend to each client, `listed` are the clients with an entry.  `call` is
    called once, at the earliest of the times set since it was last called.
    """

    def __init__(self, count: int, call: Callable[[], None]) -> None:
        self.attended = np.zeros(count, dtype=np.int32)
        self.listed: set[int] = set()
        self._coming: list[tuple[float, int]] = []  # changes of clients attended to, and some others
        self._call = call
        self._env: simpy.Environment | None = None
        self._due = math.inf
        self._bell: simpy.Event | None = None

    def start(self, env: simpy.Environment) -> None:
        """Use this clock from now on."""
        self._env = env

    @property
    def now(self) -> float:
        """The present time in seconds."""
        return self._env.now if self._env else 0.0

    def add(self, client: int, time: float) -> None:
        """Record when a client changes next."""
        self.listed.add(client)
        heappush(self._coming, (time, client))

    def take_due(self) -> Iterator[int]:
        """Remove the changes up to now, and yield their clients, if they are attended to."""
        while self._coming and self._coming[0][0] <= self.now:
            client = heappop(self._coming)[1]
            self.listed.discard(client)
            if self.attended[client]:
                yield client

    def arm(self, latest: float = math.inf) -> None:
        """Set the alarm for the next change of a client that is attended to, or for `latest` if that is earlier."""
        while self._coming and not self.attended[self._coming[0][1]]:
            self.listed.discard(heappop(self._coming)[1])
        self.set(min(latest, self._coming[0][0] if self._coming else math.inf))

    def set(self, time: float) -> None:
        """Ring at this simulated second or earlier; for a time in the past, ring at once."""
        if self._env is None or time >= self._due:
            return
        delay = max(0.0, time - self.now)
        while self.now + delay > time and delay > 0:  # rounded up it would ring late; when early it is set again
            delay = math.nextafter(delay, 0.0)
        self._due, self._bell = time, self._env.timeout(delay)
        self._bell.callbacks.append(self._ring)

    def _ring(self, event: simpy.Event) -> None:
        if event is self._bell:  # otherwise an earlier time has been set since
            self._due = math.inf
            self._call()
