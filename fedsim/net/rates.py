"""Rates: the rate of every client's access link, in each direction.

A rate is the last one set, directly or by a course that the client follows, times the factors of all effects that scale
it.  It matters only while something moves: a client that is not attended to costs the clock nothing, and its rates are
worked out when they are read.  The clock stops at each change of a client that is attended to.

Not modelled: rates that depend on each other, or on the traffic.
"""

import math
from array import array
from collections import defaultdict
from collections.abc import Callable
from heapq import heappop, heappush

import numpy as np
import numpy.typing as npt
import simpy

from fedsim.net.alarm import Alarm
from fedsim.net.courses import Course, Follower

Floats = npt.NDArray[np.float64]
UP, DOWN = True, False


class Rates:
    """The access rates (K,) of all clients in bit/s; without a clock the time is always 0."""

    def __init__(self, uplink: Floats, downlink: Floats) -> None:
        """Start with these rates, and attend to no client."""
        self.current = {UP: uplink, DOWN: downlink}  # up to date for clients attended to only
        self._given = {UP: uplink.copy(), DOWN: downlink.copy()}  # before scaling
        self._factors: defaultdict[int, dict[int, tuple[float, float]]] = defaultdict(dict)
        self._watchers: list[Callable[[int], None]] = []
        self._env: simpy.Environment | None = None
        self._followers: dict[int, list[Follower]] = {}
        self._attended = array("l", [0]) * len(uplink)  # how many attend to each
        self._coming: list[tuple[float, int]] = []  # next changes of clients attended to, and some others
        self._listed: set[int] = set()  # the clients in `_coming`
        self._alarm: Alarm | None = None

    def watch(self, callback: Callable[[int], None]) -> None:
        """Call the callback with each client whose rates change; on a course, only while it is attended to."""
        self._watchers.append(callback)

    def all(self, upload: bool) -> Floats:
        """Return the present rates of all clients in one direction; read only."""
        for client in self._followers:
            if not self._attended[client]:
                self._settle(client)
        return self.current[upload]

    def follow(
        self, env: simpy.Environment, client: int, course: Course, start: float, *, up: bool, down: bool
    ) -> None:
        """Have a client's rates follow a course that begins at second `start`; of several the latest change holds."""
        self._env = env
        self._alarm = self._alarm or Alarm(env, self._ring)
        follower = Follower(course, start, env.now, up=up, down=down)
        self._followers.setdefault(client, []).append(follower)
        if follower.begun:
            self._give(client, follower)
            self._refresh(client)
        if self._attended[client]:
            self._list(client)

    def attend(self, client: int) -> None:
        """Apply this client's changes at their moments, until `dismiss` has been called as often as this."""
        self._attended[client] += 1
        if self._attended[client] == 1 and client in self._followers:
            self._settle(client)
            if client not in self._listed:
                self._list(client)

    def dismiss(self, client: int) -> None:
        """Undo an `attend`."""
        self._attended[client] -= 1

    def set(self, client: int, uplink: float | None, downlink: float | None) -> None:
        """Change a client's rates at once; ValueError for a rate that is negative or not finite."""
        for name, rate in (("uplink", uplink), ("downlink", downlink)):
            if rate is not None and not (math.isfinite(rate) and rate >= 0):
                raise ValueError(f"{name} of client {client} is {rate}: it must be finite and not negative")
        self._catch_up(client)
        for rate, up in ((uplink, UP), (downlink, DOWN)):
            if rate is not None:
                self._given[up][client] = rate
        self._refresh(client)

    def scale(self, client: int, by: object, factors: tuple[float, float]) -> None:
        """Multiply a client's rates (up, down) until the same `by` sets other factors."""
        self._catch_up(client)
        own = self._factors[client]
        if factors == (1.0, 1.0):
            own.pop(id(by), None)
        else:
            own[id(by)] = factors
        if not own:
            del self._factors[client]
        self._refresh(client)

    def _refresh(self, client: int) -> None:
        factors = list(self._factors.get(client, {}).values())
        self.current[UP][client] = self._given[UP][client] * math.prod(up for up, _ in factors)
        self.current[DOWN][client] = self._given[DOWN][client] * math.prod(down for _, down in factors)
        for callback in self._watchers:
            callback(client)

    def _give(self, client: int, follower: Follower) -> None:
        if follower.up:
            self._given[UP][client] = follower.rate
        if follower.down:
            self._given[DOWN][client] = follower.rate

    def _catch_up(self, client: int) -> bool:
        """Apply the present rates of a client's courses; return whether there was a change."""
        now = self._env.now if self._env else 0.0
        new = [follower for follower in self._followers.get(client, ()) if follower.skip(now)]
        for follower in sorted(new, key=lambda one: one.since):  # stable: of two at once the later holds
            self._give(client, follower)
        return bool(new)

    def _settle(self, client: int) -> None:
        if self._catch_up(client):
            self._refresh(client)

    def _list(self, client: int) -> None:
        """Record when a client's courses change next, and set the alarm."""
        due = min(follower.next for follower in self._followers[client])
        if due < math.inf:
            self._listed.add(client)
            heappush(self._coming, (due, client))
            self._arm()

    def _arm(self) -> None:
        """Set the alarm for the next change of a client that is attended to."""
        while self._coming and not self._attended[self._coming[0][1]]:
            self._listed.discard(heappop(self._coming)[1])
        at = self._coming[0][0] if self._coming else math.inf
        if self._alarm is not None:
            self._alarm.set(at)

    def _ring(self) -> None:
        assert self._env is not None
        while self._coming and self._coming[0][0] <= self._env.now:
            client = heappop(self._coming)[1]
            self._listed.discard(client)
            if self._attended[client]:
                self._settle(client)
                self._list(client)
        self._arm()
