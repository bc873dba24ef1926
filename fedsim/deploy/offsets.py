"""Offsets between clocks, estimated from the exchanges of a run.

An exchange is sent at s, received at r and answered at e by the client's clock, and arrived at a.  If both ways take
equally long, the client's clock is ahead by ((r - s) + (e - a)) / 2, and wrong by at most half of what both ways take,
a - s - (e - r).  So of a client's exchanges the one with the shortest ways counts (NTP's clock filter).  Clocks that
already agree are left alone: where an offset of zero is within that bound, it is zero, and wrong by both ways at most.

Not modelled: drift, and ways that differ.
"""

from dataclasses import dataclass, field


@dataclass
class Offsets:
    """The offset in seconds by which each client's clock is ahead, and the seconds of both ways behind it."""

    best: dict[int, tuple[float, float]] = field(default_factory=dict)

    def of(self, client: int, sent: float, received: float, ended: float, arrived: float) -> float:
        """Return the client's offset after one more exchange."""
        ways = max(0.0, arrived - sent - (ended - received))
        if client not in self.best or ways < self.best[client][0]:
            self.best[client] = ways, ((received - sent) + (ended - arrived)) / 2
        ways, offset = self.best[client]
        return 0.0 if abs(offset) <= ways / 2 else offset
