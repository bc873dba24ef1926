"""Bucket: the token bucket that shapes a client's access link; the server's own is part of `Link`.

It is full at the start of the run, empty once a flow has begun to move, and fills at the link's rate while none does.
Not modelled: what a link that is used in part has to spare.
"""

import math

from fedsim.net.sharing.line import tokens


class Bucket:
    """Holds `burst` bytes at most; it outlasts the lane, which is there only while something is under way."""

    __slots__ = ("_rested", "burst")

    def __init__(self, burst: float) -> None:
        """Start full."""
        self.burst = burst
        self._rested = -math.inf

    def tokens(self, rate: float, now: float) -> float:
        """Return the bytes that have come together at `rate` bytes/s since the last flow left."""
        return tokens(self.burst, rate, now - self._rested)

    def rest(self, now: float) -> None:
        """Hear that the last flow has left."""
        self._rested = now
