"""LinkState: what a transfer meets on each link of its route besides the rate: a buffer and a token bucket.

When other flows have saturated a link for a while, the packets waiting in its buffer delay every flow that joins: the
standing queue.  When a link is shaped by a token bucket and has been idle, the first bytes take no time.  Not modelled:
queues that grow or drain gradually, tokens of a partly used link.
"""

import math
from collections.abc import Iterable
from typing import Protocol

from fedsim.net import tcp
from fedsim.net.tcp import TransferModel

LEAST_BUFFER = 64_000.0  # bytes
BUFFER_SECONDS = 0.1
EXACT = 1e-9  # relative difference that rounding may cause between two equal rates


class Crossing:
    """The flows that cross a link: how many, and the sum of their round trips without a queue, in seconds."""

    __slots__ = ("flows", "trips")

    def __init__(self) -> None:
        """Start with none."""
        self.flows, self.trips = 0, 0.0

    def join(self, trip: float) -> None:
        """Count a flow."""
        self.flows += 1
        self.trips += trip

    def leave(self, trip: float) -> None:
        """Count a flow as gone; the sum starts from zero when it can."""
        self.flows -= 1
        self.trips = self.trips - trip if self.flows else 0.0


class SharedState(Protocol):
    """One shared link of a route: a `Link` or a `MeshLink`."""

    @property
    def crossing(self) -> Crossing:
        """The flows that cross it."""
        ...

    @property
    def capacity(self) -> float:
        """The highest total rate in bytes/s; infinity if unlimited."""
        ...

    @property
    def buffer(self) -> float:
        """The bytes that can wait in front of the link."""
        ...

    @property
    def full_since(self) -> float:
        """The time since which flows have saturated the link without a break; infinity if they do not."""
        ...


class LinkState(Protocol):
    """One link of a route, with rates in bytes/s: a `Link`, a `MeshLink` or an `AccessChannel`."""

    @property
    def capacity(self) -> float:
        """The highest total rate; infinity if unlimited."""
        ...

    @property
    def buffer(self) -> float:
        """The bytes that can wait in front of the link."""
        ...

    @property
    def burst(self) -> float:
        """The size of its token bucket in bytes."""
        ...

    @property
    def full_since(self) -> float:
        """The time since which flows have saturated the link without a break; infinity if they do not."""
        ...

    @property
    def tokens(self) -> float:
        """The bytes that would pass at once if sent now."""
        ...


def default_buffer(capacity: float) -> float:
    """Return the size of a buffer that is not given: 100 ms at the full rate, at least 64 kB."""
    return max(LEAST_BUFFER, BUFFER_SECONDS * capacity)


def tokens(burst: float, rate: float, idle: float) -> float:
    """Return the bytes in a bucket of `burst` bytes, filled at `rate` bytes/s, after `idle` seconds without traffic."""
    return min(burst, rate * idle) if rate > 0 and idle > 0 else 0.0


def standing_queue(constants: TransferModel, links: Iterable[LinkState], rtt: float, now: float) -> float:
    """Return the seconds that packets wait in front of those links that other flows have saturated for 2 RTT."""
    seconds = 0.0
    for link in links:
        if now - link.full_since > 2 * rtt:
            seconds += tcp.standing_queue(constants, link.buffer / link.capacity, rtt)
    return seconds


def overflow(constants: TransferModel, rate: float, trip: float, links: Iterable[SharedState]) -> float:
    """Return the packets of the window that a flow has when it fills up a queue with the flows of others.

    It would get `rate` bytes/s, less than it could use, so that slow start only ends when a queue on its way is full
    and drops packets of all flows.  Drop-tail leaves flows with equal windows: what the flow's share is worth at the
    mean round trip of the others and with a full queue, whatever its own round trip.  If the others saturate no link of
    its way, there is no queue yet: the flow fills that of the slowest link at its own round trip of `trip` seconds.
    Infinity if there are no others.
    """
    shared = [link for link in links if link.crossing.flows and 0 < link.capacity < math.inf]
    waits = [
        link.crossing.trips / link.crossing.flows + link.buffer / link.capacity
        for link in shared
        if link.full_since < math.inf
    ]
    if not waits and shared:
        slowest = min(shared, key=lambda link: link.capacity)
        waits = [trip + slowest.buffer / slowest.capacity]
    return rate * min(waits) / constants.mtu if waits else math.inf


def credit(nbytes: float, rate: float, links: Iterable[LinkState]) -> float:
    """Return how many of a flow's bytes take no time, if the flow then runs at `rate` bytes/s.

    Token buckets in series let W bytes through in max (W - tokens) / capacity seconds.  There is no credit if the rate
    is set by anything but an idle link: a shared link, acknowledgements, losses.
    """
    met = [(link.capacity, link.tokens) for link in links]
    if rate <= 0 or rate < min(capacity for capacity, _ in met) * (1 - EXACT):
        return 0.0
    seconds = max((nbytes - held) / capacity if capacity < math.inf else 0.0 for capacity, held in met)
    return max(0.0, nbytes - rate * max(0.0, seconds))
