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
    are `rtts` in all, `opening` the bytes/s that those could use which have begun and do not move yet.
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
        self.crossing, self.rtts, self.opening = 0, 0.0, 0

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

    def cross(self, rtt: float, count: int = 1) -> None:
        """Count a message that crosses the link, as gone if `count` is -1; without any, `rtts` is 0."""
        self.crossing += count
        self.rtts = self.rtts + count * rtt if self.crossing else 0.0


def default_buffer(capacity: float) -> float:
    """Return the size of a buffer that is not given: 100 ms at the full rate, at least 64 kB."""
    return max(LEAST_BUFFER, BUFFER_SECONDS * capacity)


def tokens(burst: float, rate: float, idle: float) -> float:
    """Return the bytes in a bucket of `burst` bytes that fills at `rate` bytes/s, after `idle` seconds."""
    return min(burst, rate * idle) if rate > 0 and idle > 0 else 0.0


def standing_queue(constants: TransferModel, links: Iterable[LinkMeter], rtt: float, now: float) -> float:
    """Return the seconds that packets wait in front of links that other flows have saturated for 2 RTT."""
    seconds = 0.0
    for link in links:
        if now - link.full_since > 2 * rtt:
            seconds += tcp.standing_queue(constants, link.buffer, link.capacity, rtt)
    return seconds


def overflow(rate: float, ceiling: float, rtt: float, links: Iterable[LinkMeter]) -> float:
    """Return the bytes of the window in which a flow notices a queue that it has filled (infinity: never).

    It would get `rate` bytes/s of the `ceiling` it could use, so that slow start only ends when a queue on its
    way is full and drops packets of all flows.  Drop-tail leaves flows equal windows: what the flow's share is
    worth at the mean round trip of the others and with a full queue, whatever its own round trip.  If the
    others saturate no link of its way, there is no queue yet: the flow fills that of the slowest link at its
    own round trip of `rtt` seconds.  A queue that is short for the path overflows earlier, also if the flow
    has the link to itself: see `_burst`.
    """
    shared = [link for link in links if 0 < link.capacity < math.inf]
    trips = [(link, link.rtts / link.crossing) for link in shared if link.crossing and link.full_since < math.inf]
    if not trips and shared:
        slowest = min(shared, key=lambda link: link.capacity)
        if slowest.crossing:
            trips = [(slowest, rtt)]
        elif rate >= slowest.capacity * (1 - RATE_TOLERANCE):
            top = _burst(slowest, rate, ceiling)
            return top if top < rate * rtt else math.inf
    tops = [min(rate * (trip + link.buffer / link.capacity), _burst(link, rate, ceiling)) for link, trip in trips]
    return min(tops, default=math.inf)


def _burst(link: LinkMeter, rate: float, ceiling: float) -> float:
    """Return the bytes of the window in which slow start notices that a queue was too short for its bursts.

    Every acknowledgement lets two packets go, so that half of what a round trip sends waits in the queue:
    one with room for N bytes overflows with 2 N.  When that is noticed, a round trip later, the window has
    doubled.  The room is the flow's share of buffer and bucket, among those that move or start with it.
    """
    could_use = min(ceiling, link.capacity) / max(link.capacity, link.opening)
    return 4 * min(rate / link.capacity, could_use) * (link.buffer + link.burst)


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
