"""Flow control of a transport above TCP, as in HTTP/2: what its receivers let a sender send (`transfer.Terms`).

Windows count data, without TCP's headers.  A window that is renewed as its bytes are read allows a rate of one window a
round trip; the round trip is that of a quiet path, so that queues do not lower it.  A receiver that makes room for a
whole message as soon as it sees its beginning lets it wait once, for one round trip at most: on a new connection slow
start takes as long, and nobody waits.

Not modelled: one window for several messages under way on one connection; that the last window of a message moves as
fast as the links allow, which saves it up to a round trip.
"""

import math

import numpy as np
import numpy.typing as npt

from fedsim.net import kept, tcp
from fedsim.net.kept import Window
from fedsim.net.tcp import Rate, TransferModel
from fedsim.net.transfer import Terms

Floats = npt.NDArray[np.float64]


def ceiling(constants: TransferModel, terms: Terms, trip: Rate) -> Rate:
    """Return the rate (wire bytes/s) that a window a round trip allows; round trips are above 0."""
    return terms.window * _share(constants) / trip


def ceilings(constants: TransferModel, terms: Terms, trip: Floats, rate: Floats) -> Floats:
    """Return the rates (K,) of flows that could send at `rate`, no higher than what `terms` allow."""
    if terms.window == math.inf:
        return rate
    some, found = trip > 0, rate.copy()
    with np.errstate(over="ignore"):  # the rate is infinite for a tiny round trip
        found[some] = np.minimum(rate[some], ceiling(constants, terms, trip[some]))
    return found


def stall(
    constants: TransferModel, terms: Terms, size: float, trip: float, rate: float, window: Window | None
) -> float:
    """Return the seconds for which a flow waits once it has sent what it may before its receiver's first word.

    The receiver allows the rest as soon as the first packet has come, which its sender learns a round trip and a
    packet's time after it began.  The flow has `size` wire bytes and, but for the window of its sender (None: that of a
    new connection), this rate.
    """
    first = terms.first * _share(constants)
    if size <= first or rate <= 0:
        return 0.0
    if window is None:
        idle = tcp.stall(constants, first, trip, rate)
    else:
        idle = kept.pause(constants, first, trip, rate, window)
    return max(0.0, trip + (constants.mtu - first) / rate - idle)


def stalls(constants: TransferModel, terms: Terms, size: Floats, trip: Floats, rate: Floats) -> Floats:
    """Return the seconds of `stall` for many flows on new connections, each a row (K,); all rates are above 0."""
    first = terms.first * _share(constants)
    found = np.zeros(len(size))
    if len(some := np.flatnonzero(size > first)):
        trips, rates = trip[some], rate[some]
        idle = tcp.stalls(constants, np.full(len(some), first), trips, rates)
        found[some] = np.maximum(0.0, trips + (constants.mtu - first) / rates - idle)
    return found


def _share(constants: TransferModel) -> float:
    """Return the wire bytes of a byte of data in full packets."""
    return (constants.mss + constants.header) / constants.mss
