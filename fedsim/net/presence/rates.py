"""Rates: the rate of every client's access link, in each direction.

A rate is the last one set, directly or by a schedule that the client follows, times the factors of all
effects that scale it.  It matters only while something moves: a client that is not attended to costs the
clock nothing, and its rates are worked out when they are read.  The clock stops at each change of a client
that is attended to.

The rate of a schedule follows from the time alone, so any number of changes can be skipped at once.  Times
are added up as a clock that steps from change to change would add them, so that both agree to the last bit.

Not modelled: rates that depend on each other, or on the traffic.
"""

import math
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import simpy

from fedsim.core.arrays import Floats
from fedsim.net.presence.agenda import Agenda

UP, DOWN = True, False
T = TypeVar("T")
MANY = 1e5  # rounds of a schedule that are added up one by one; more are skipped at once, up to rounding


@dataclass(frozen=True, eq=False)
class RateSchedule:
    """`rates` (bit/s), each from its time (s after the start, increasing) until the next.

    After `period` seconds the schedule starts over; if infinite, the last rate holds for good.
    """

    times: Sequence[float]
    rates: Sequence[float]
    period: float = math.inf


class Follower:
    """A place on a schedule that began at second `start`: the present rate, `since` when, and until when (`next`).

    `up` and `down` are the directions of the client that follow the schedule.
    """

    __slots__ = ("_place", "_schedule", "_start", "down", "next", "since", "up")

    def __init__(self, schedule: RateSchedule, start: float, now: float, *, up: bool, down: bool) -> None:
        """Start at the present place of the schedule, or before its first rate."""
        self._schedule, self._start, self._place = schedule, start, -1
        self.up, self.down = up, down
        self.since, self.next = -math.inf, start + schedule.times[0]
        self.skip(now)

    @property
    def rate(self) -> float:
        """The rate from `since` to `next`; only valid once the schedule has begun."""
        return self._schedule.rates[self._place]

    @property
    def begun(self) -> bool:
        """Whether the schedule has reached its first rate."""
        return self._place >= 0

    def skip(self, now: float) -> bool:
        """Advance to the present rate; return whether there was a change."""
        if self.next > now:
            return False
        schedule, times = self._schedule, self._schedule.times
        if len(times) > 1 and (rounds := (now - self._start) / schedule.period) > MANY:  # not to count for hours
            self._start, self._place = self._start + (math.floor(rounds) - 1) * schedule.period, 0
        while (over := self._start + schedule.period) <= now and len(times) > 1:
            self._start, self._place = over, 0
        place = max(self._place, bisect_right(times, now - self._start) - 1, 0)
        while place > self._place + 1 and self._start + times[place] > now:  # rounding: the sum decides
            place -= 1
        while place + 1 < len(times) and self._start + times[place + 1] <= now:
            place += 1
        self._place, self.since = place, self._start + times[place]
        if place + 1 < len(times):
            self.next = self._start + times[place + 1]
        else:
            self.next = self._start + schedule.period if len(times) > 1 else math.inf
        return True


class AccessRates:
    """The access rates (K,) of all clients in bit/s; without a clock the time is always 0."""

    def __init__(self, uplink: Floats, downlink: Floats) -> None:
        """Start with these rates, and attend to no client."""
        self.current = {UP: uplink, DOWN: downlink}  # up to date for clients attended to only
        self._given = {UP: uplink.copy(), DOWN: downlink.copy()}  # before scaling
        self._factors: defaultdict[int, dict[int, tuple[float, float]]] = defaultdict(dict)
        self._watchers: list[Callable[[int], None]] = []
        self.followers: dict[int, list[Follower]] = {}
        self._agenda = Agenda(len(uplink), self._ring)
        self._attended = self._agenda.attended

    def watch(self, callback: Callable[[int], None]) -> None:
        """Call the callback with each client whose rates change; on a schedule, only while it is attended to."""
        self._watchers.append(callback)

    def all(self, upload: bool) -> Floats:
        """Return the present rates of all clients in one direction; read only."""
        for client in self.followers:
            if not self._attended[client]:
                self._settle(client)
        return self.current[upload]

    def follow(
        self, env: simpy.Environment, client: int, schedule: RateSchedule, start: float, *, up: bool, down: bool
    ) -> None:
        """Have a client's rates follow a schedule that begins at second `start`; of several the latest change holds."""
        self._agenda.start(env)
        follower = Follower(schedule, start, env.now, up=up, down=down)
        self.followers.setdefault(client, []).append(follower)
        if follower.begun:
            self._give(client, follower)
            self._refresh(client)
        if self._attended[client]:
            self._list(client)

    def attend(self, client: int) -> None:
        """Apply this client's changes at their moments, until `dismiss` has been called as often as this."""
        self._attended[client] += 1
        if self._attended[client] == 1 and client in self.followers:
            self._settle(client)
            if client not in self._agenda.listed:
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
        set_factor(self._factors, client, by, None if factors == (1.0, 1.0) else factors)
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
        """Apply the present rates of a client's schedules; return whether there was a change."""
        new = [follower for follower in self.followers.get(client, ()) if follower.skip(self._agenda.now)]
        for follower in sorted(new, key=lambda follower: follower.since):  # stable: of two at once the later holds
            self._give(client, follower)
        return bool(new)

    def _settle(self, client: int) -> None:
        if self._catch_up(client):
            self._refresh(client)

    def _list(self, client: int) -> None:
        """Record when a client's schedules change next, and set the alarm."""
        due = min(follower.next for follower in self.followers[client])
        if due < math.inf:
            self._agenda.add(client, due)
            self._agenda.arm()

    def _ring(self) -> None:
        for client in self._agenda.take_due():
            self._settle(client)
            self._list(client)
        self._agenda.arm()


def set_factor(factors: defaultdict[int, dict[int, T]], client: int, by: object, factor: T | None) -> None:
    """Set the factor by which `by` changes something of a client; None removes it."""
    if factor is None:
        factors[client].pop(id(by), None)
        if not factors[client]:
            del factors[client]
    else:
        factors[client][id(by)] = factor
