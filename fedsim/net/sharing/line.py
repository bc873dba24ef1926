"""Line: what a transfer meets on each link of its path, beside the rate: a buffer before it and a bucket of tokens.

Where other flows have used a link up for a while, the packets that wait in its buffer delay whoever joins: the
standing queue.  Where a link is shaped by a token bucket and has been idle, the first bytes cost no time.  Not
modelled: queues that grow or drain bit by bit, packets that a full buffer drops, tokens of a link that is used in part.
"""

import math
from collections.abc import Iterable
from typing import Protocol

from fedsim.net import tcp
from fedsim.net.tcp import TransferModel

LEAST_BUFFER = 64_000.0  # bytes
BUFFER_SECONDS = 0.1
EXACT = 1e-9  # relative: what rounding may make of two equal rates


class Line(Protocol):
    """One link of a path, with rates in bytes/s; a `Link` or a `Lane`."""

    @property
    def capacity(self) -> float:
        """What it can carry; infinity: no limit."""
        ...

    @property
    def buffer(self) -> float:
        """The bytes that can wait before it."""
        ...

    @property
    def burst(self) -> float:
        """The bytes that its token bucket holds."""
        ...

    @property
    def full_since(self) -> float:
        """The time since which flows have used it up without a break; infinity where they do not."""
        ...

    @property
    def tokens(self) -> float:
        """The bytes that would pass at once now."""
        ...


def default_buffer(capacity: float) -> float:
    """Return the bytes of a buffer that nobody has told: 100 ms of the rate, and no less than 64 kB."""
    return max(LEAST_BUFFER, BUFFER_SECONDS * capacity)


def tokens(burst: float, rate: float, idle: float) -> float:
    """Return the bytes in a bucket of `burst` bytes, filled at `rate` bytes/s, after so many idle seconds."""
    return min(burst, rate * idle) if rate > 0 and idle > 0 else 0.0


def standing_queue(constants: TransferModel, lines: Iterable[Line], rtt: float, now: float) -> float:
    """Return the seconds for which packets wait on a path before the links that others have used up for 2 RTT."""
    seconds = 0.0
    for line in lines:
        if now - line.full_since > 2 * rtt:
            seconds += tcp.standing_queue(constants, line.buffer / line.capacity, rtt)
    return seconds


def credit(nbytes: float, rate: float, lines: Iterable[Line]) -> float:
    """Return how many of a flow's bytes cost no time, where it then goes at `rate` bytes/s.

    Token buckets in series let W bytes through in max (W - tokens) / capacity seconds.  There is no credit where
    something else than an idle link sets the rate: a share, acknowledgements, losses.
    """
    met = [(line.capacity, line.tokens) for line in lines]
    if rate <= 0 or rate < min(capacity for capacity, _ in met) * (1 - EXACT):
        return 0.0
    seconds = max((nbytes - held) / capacity if capacity < math.inf else 0.0 for capacity, held in met)
    return max(0.0, nbytes - rate * max(0.0, seconds))
