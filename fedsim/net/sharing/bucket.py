"""Bucket: the token bucket that shapes a client's access link; the server's bucket is part of `Link`.

It is full at the start of the run, empty once a flow has begun to move, and fills at the link's rate while the link is
idle.  Not modelled: tokens that accumulate on a partly used link.
"""

import math

from fedsim.net.sharing.link_state import tokens


class Bucket:
    """Holds at most `burst` bytes; it outlives the channel, which exists only while a transfer is under way."""

    __slots__ = ("_rested", "burst")

    def __init__(self, burst: float) -> None:
        """Start full."""
        self.burst = burst
        self._rested = -math.inf

    def tokens(self, rate: float, now: float) -> float:
        """Return the bytes accumulated at `rate` bytes/s since the last flow left."""
        return tokens(self.burst, rate, now - self._rested)

    def rest(self, now: float) -> None:
        """Record that the last flow has left."""
        self._rested = now
