"""Flow control of a transport above TCP, as in HTTP/2: what its receivers let a sender send (`Terms`).

Windows count data, without TCP's headers.  A window that is renewed as its bytes are read allows a rate of
one window a round trip; the round trip is that of a quiet path, so that queues do not lower it.  A receiver
that makes room for a whole message as soon as it sees its beginning lets it wait once, for one round trip at
most: on a new connection slow start takes as long, and nobody waits.

Not modelled: one window for several messages under way on one connection; that the last window of a message
moves as fast as the links allow, which saves it up to a round trip.
"""

import math
from typing import NamedTuple

import numpy as np

from fedsim.core.arrays import Floats
from fedsim.net.tcp import laws as tcp
from fedsim.net.tcp import window_reuse
from fedsim.net.tcp.laws import Rate, TransferModel
from fedsim.net.tcp.window_reuse import CongestionWindow


class Terms(NamedTuple):
    """On which terms a transport has a connection carry data; by default TCP's alone.

    A new connection takes `rtts` round trips more before its first message.  A sender sends at most `first`
    bytes of a message before its receiver's first word about it has come back, and `window` bytes a round
    trip.
    """

    rtts: int = 0
    first: float = math.inf
    window: float = math.inf


PLAIN = Terms()


def ceiling(constants: TransferModel, terms: Terms, rtt: Rate) -> Rate:
    """Return the rate (wire bytes/s) that a window a round trip allows; a single round trip is above 0."""
    return terms.window * _wire_share(constants) / rtt


def stall(
    constants: TransferModel, terms: Terms, size: float, rtt: float, rate: float, window: CongestionWindow | None
) -> float:
    """Return the seconds for which a flow waits once it has sent what it may before its receiver's first word.

    The receiver allows the rest as soon as the first packet has come, which its sender learns a round trip
    and a packet's time after it began.  The flow has `size` wire bytes and, but for the window of its sender
    (None: that of a new connection), this rate.
    """
    first = terms.first * _wire_share(constants)
    if size <= first or rate <= 0:
        return 0.0
    if window is None:
        idle = tcp.slow_start(constants, first, rtt, rate)[0]
    else:
        idle = window_reuse.pause(constants, first, rtt, rate, window)
    return max(0.0, rtt + (constants.mtu - first) / rate - idle)


def stalls(constants: TransferModel, terms: Terms, size: Floats, rtt: Floats, rate: Floats) -> Floats:
    """Return the seconds of `stall` for many flows on new connections, each a row (K,); all rates are above 0."""
    first = terms.first * _wire_share(constants)
    idle = tcp.stalls(constants, np.full(len(size), first), rtt, rate)
    return np.where(size > first, np.maximum(0.0, rtt + (constants.mtu - first) / rate - idle), 0.0)


def _wire_share(constants: TransferModel) -> float:
    """Return the wire bytes of a byte of data in full packets."""
    return (constants.mss + constants.header) / constants.mss
