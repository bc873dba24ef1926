"""LinkMeter: what a transfer meets on each link of its route besides the rate: a buffer and a token bucket.

When other flows have saturated a link for a while, the packets waiting in its buffer delay every flow that
joins: the standing queue.  When a link is shaped by a token bucket and has been idle, the first bytes take no
time: the bucket is full at the start of the run, empty once a flow has begun to move, and fills at the link's
rate while the link is idle. Not modelled: queues that grow or drain gradually, tokens of a partly used link.
"""

import math
from collections.abc import Iterable

import simpy

from fedsim.net.links.flows import checked_capacity
from fedsim.net.tcp import laws as tcp
from fedsim.net.tcp.laws import TransferModel

LEAST_BUFFER = 64_000.0  # bytes
BUFFER_SECONDS = 0.1
RATE_TOLERANCE = 1e-9  # relative difference that rounding may cause between two equal rates


class LinkMeter:
    """A link of `capacity` bytes/s (it may be infinite), and what its flows have done to it so far.

    `flows` counts those on it.  `full_since` is the time since which they have saturated it without a break,
    infinity if they do not.  `crossing` counts the messages that cross it, whose round trips without a queue
    are `rtts` in all.
    """

    full_since: float = math.inf

    def __init__(
        self, env: simpy.Environment, capacity: float, buffer: float | None = None, burst: float = 0.0
    ) -> None:
        """Start idle, with a `buffer` (None: derived from the capacity) and a token bucket of `burst` bytes.

        Raises ValueError if a number is negative.
        """
        if not (burst >= 0 and (buffer is None or buffer >= 0)):
            raise ValueError(f"a link has a buffer of {buffer} and a burst of {burst} bytes: neither may be negative")
        self.env, self.capacity = env, checked_capacity(capacity)
        self._buffer, self.burst = buffer, burst
        self.flows = 0
        self._full_before = self._full_until = -math.inf  # the time before: a break of no length does not count
        self.idle_since = -math.inf  # when the last flow left
        self.crossing, self.rtts = 0, 0.0

    @property
    def buffer(self) -> float:
        """The bytes that can wait in front of the link."""
        return default_buffer(self.capacity) if self._buffer is None else self._buffer

    @property
    def tokens(self) -> float:
        """The bytes that would pass at once if sent now: none while there is a flow."""
        return 0.0 if self.flows else tokens(self.burst, self.capacity, self.env.now - self.idle_since)

    def note_full(self, full: bool, now: float) -> None:
        """Record whether flows saturate the link now."""
        if full:
            if self.full_since == math.inf:
                self.full_since = self._full_before if now == self._full_until else now
        elif self.full_since < math.inf:
            self._full_before, self._full_until, self.full_since = self.full_since, now, math.inf

    def part(self, flows: int, now: float) -> None:
        """Count so many flows as gone; the bucket fills again once the link is idle."""
        self.flows -= flows
        if not self.flows:
            self.idle_since = now

    def cross(self, rtt: float) -> None:
        """Count a message that begins to cross the link."""
        self.crossing += 1
        self.rtts += rtt

    def uncross(self, rtt: float) -> None:
        """Count a message as gone; the sum starts from zero when it can."""
        self.crossing -= 1
        self.rtts = self.rtts - rtt if self.crossing else 0.0


def default_buffer(capacity: float) -> float:
    """Return the size of a buffer that is not given: 100 ms at the full rate, at least 64 kB."""
    return max(LEAST_BUFFER, BUFFER_SECONDS * capacity)


def tokens(burst: float, rate: float, idle: float) -> float:
    """Return the bytes in a bucket of `burst` bytes, filled at `rate` bytes/s, after `idle` seconds without traffic."""
    return min(burst, rate * idle) if rate > 0 and idle > 0 else 0.0


def standing_queue(constants: TransferModel, links: Iterable[LinkMeter], rtt: float, now: float) -> float:
    """Return the seconds that packets wait in front of those links that other flows have saturated for 2 RTT."""
    seconds = 0.0
    for link in links:
        if now - link.full_since > 2 * rtt:
            seconds += tcp.standing_queue(constants, link.buffer, link.capacity, rtt)
    return seconds


def overflow(constants: TransferModel, rate: float, rtt: float, links: Iterable[LinkMeter]) -> float:
    """Return the packets of the window that a flow has when it fills up a queue with the flows of others.

    It would get `rate` bytes/s, less than it could use, so that slow start only ends when a queue on its way
    is full and drops packets of all flows.  Drop-tail leaves flows with equal windows: what the flow's share
    is worth at the mean round trip of the others and with a full queue, whatever its own round trip.  If the
    others saturate no link of its way, there is no queue yet: the flow fills that of the slowest link at its
    own round trip of `rtt` seconds. Infinity if there are no others.
    """
    shared = [link for link in links if link.crossing and 0 < link.capacity < math.inf]
    waits = [link.rtts / link.crossing + link.buffer / link.capacity for link in shared if link.full_since < math.inf]
    if not waits and shared:
        slowest = min(shared, key=lambda link: link.capacity)
        waits = [rtt + slowest.buffer / slowest.capacity]
    return rate * min(waits) / constants.mtu if waits else math.inf


def credit(nbytes: float, rate: float, links: Iterable[LinkMeter]) -> float:
    """Return how many of a flow's bytes take no time, if the flow then runs at `rate` bytes/s.

    Token buckets in series let W bytes through in max (W - tokens) / capacity seconds.  There is no credit if
    the rate is set by anything but an idle link: a shared link, acknowledgements, losses.
    """
    met = [(link.capacity, link.tokens) for link in links]
    if rate <= 0 or rate < min(capacity for capacity, _ in met) * (1 - RATE_TOLERANCE):
        return 0.0
    seconds = max((nbytes - tokens) / capacity if capacity < math.inf else 0.0 for capacity, tokens in met)
    return max(0.0, nbytes - rate * max(0.0, seconds))
