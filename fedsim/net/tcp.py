"""TCP's effects beyond the sharing of rates, as closed formulas: headers, handshake, slow start, losses.

Rates are in wire bytes per second, times in seconds, `trip` is the round trip with its mean jitter.  Sources: RFC 6928
(initial window), Mathis et al. 1997 (Reno under loss), RFC 9438 (CUBIC's response function), Padhye et al. 1998
(time-outs), Cardwell et al. 2016 (BBR's pacing).  What a window does between the first loss and the steady state is in
`window.py`, what connections keep of it in `kept.py`.  Not modelled: TCP's receive windows; those of
a transport above it are in `flow_control.py`.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar, overload

import numpy as np
import numpy.typing as npt

from fedsim.core import portable
from fedsim.core.units import Bytes, Seconds

PFTK_ABOVE = 0.02  # loss from which time-outs matter
BBR_IGNORES = 0.05  # loss up to which BBR keeps its rate
SETTLES = 0.75  # the share of a time-out's first excess that a round trip leaves
UNSETTLED = 0.7  # round trips of data before that; with the share above fitted to time-outs of Linux
LUCKLESS = 0.5  # a queue leaves this share of the window at which it overflows, and a draw below 1 more of it
BBR_GAIN = 2 / math.log(2)  # windows a round trip at which BBR paces its start
POSITIVE = ("mtu", "mss", "header", "initial_window", "ack_every", "syn_rto")
NOT_NEGATIVE = ("tls_rtts", "rto_min", "queue_share", "queue_trips", "bbr_queue_trips", "short_packets")
Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Whole = TypeVar("Whole", int, Ints)
Rate = TypeVar("Rate", float, Floats)
SHORTEST_TRIP = 1e-4  # seconds; below it round trips weigh alike


@dataclass(frozen=True)
class TransferModel:
    """The constants of the model; the defaults are those of a Linux host."""

    mtu: Bytes = 1500  # of a full IP packet
    mss: Bytes = 1448  # payload bytes in it, TCP timestamps on
    header: Bytes = 52  # IP and TCP header of a packet; the size of an acknowledgement
    initial_window: int = 10  # packets
    ack_every: int = 2  # packets an acknowledgement
    congestion_control: str = "cubic"  # or reno, bbr
    syn_rto: Seconds = 1.0  # until the first packet is sent again; doubles each time
    rto_max: Seconds = 120.0  # the longest wait between two tries
    rto_min: Seconds = 0.2  # by which a time-out of data exceeds the round trip
    tls_rtts: int = 0  # further round trips before data
    deterministic: bool = False  # losses occur at their mean instead of being drawn
    queue_share: float = 0.85  # of the buffer that Cubic and Reno keep full; calibrated on few points, as the next two
    queue_trips: float = 8.0  # round trips, the longest queue that they keep
    bbr_queue_trips: float = 0.6  # round trips, the longest queue that BBR keeps
    short_packets: int = 70  # up to this many, a flow's last bytes wait in the queue of others
    rtt_bias: float = 0.0  # shares go as the round trip to the power of minus this; 0.5 suits Cubic, 0: equal shares

    def __post_init__(self) -> None:
        """Raise ValueError for an unknown congestion control and for constants that make no sense."""
        if self.congestion_control not in LOSS_CEILING:
            known = ", ".join(LOSS_CEILING)
            raise ValueError(f"congestion_control: no '{self.congestion_control}'; there are {known}")
        for name in POSITIVE:
            if not 0 < getattr(self, name) < math.inf:
                raise ValueError(f"{name} is {getattr(self, name)}: it must be more than 0 and finite")
        if not self.syn_rto <= self.rto_max < math.inf:
            raise ValueError(f"rto_max is {self.rto_max}: it must be at least syn_rto ({self.syn_rto}) and finite")
        for name in NOT_NEGATIVE:
            if not getattr(self, name) >= 0:
                raise ValueError(f"{name} is {getattr(self, name)}: it must be at least 0")
        if not 0 <= self.rtt_bias < math.inf or (self.rtt_bias and self.congestion_control == "bbr"):
            raise ValueError(
                f"rtt_bias is {self.rtt_bias}: it must not be negative, and 0 for bbr, which has no such bias"
            )


def packets(constants: TransferModel, nbytes: Whole) -> Whole:
    """Return how many packets the payload fills."""
    return -(-nbytes // constants.mss)


@overload
def wire_size(constants: TransferModel, nbytes: int, loss: float) -> float: ...
@overload
def wire_size(constants: TransferModel, nbytes: Ints, loss: Floats) -> Floats: ...
def wire_size(constants: TransferModel, nbytes: Any, loss: Any) -> Any:
    """Return the wire bytes of a payload, with headers and the mean number of retransmissions."""
    return (nbytes + constants.header * packets(constants, nbytes)) / (1 - loss)


def syn_wait(constants: TransferModel, lost: float, draw: float) -> float:
    """Return the seconds by which lost handshakes delay a connection.

    `lost` is the probability that one is lost; `draw` in [0, 1) decides how many are (by inversion, so a larger
    probability never means a shorter wait).  In deterministic mode the mean over all draws is returned.
    """
    if not lost:
        return 0.0
    first, longest = constants.syn_rto, constants.rto_max
    doublings = math.ceil(math.log2(longest / first))
    if constants.deterministic:
        growing = math.fsum(lost * first * (2 * lost) ** i for i in range(doublings))
        return growing + longest * lost ** (doublings + 1) / (1 - lost)
    times = math.floor(math.log1p(-draw) / math.log(lost))
    return first * ((1 << min(times, doublings)) - 1) + longest * max(0, times - doublings)


def syn_waits(constants: TransferModel, lost: Floats, draws: Floats) -> Floats:
    """Return the seconds of `syn_wait` for many handshakes at once, each a row (K,)."""
    some, first, longest = lost > 0, constants.syn_rto, constants.rto_max
    own, doublings = lost[some], math.ceil(math.log2(longest / first))
    waits = np.zeros(len(lost))
    if constants.deterministic:
        growing = sum(own * first * (2 * own) ** i for i in range(doublings))
        waits[some] = growing + longest * portable.power(own, doublings + 1) / (1 - own)
        return waits
    times = np.floor(portable.log1p(-draws[some]) / portable.log(own))
    waits[some] = first * (np.ldexp(1.0, np.minimum(times, doublings).astype(np.int64)) - 1) + longest * np.maximum(
        0.0, times - doublings
    )
    return waits


def slow_start(constants: TransferModel, size: float, trip: float, rate: float) -> tuple[float, float]:
    """Return the seconds in which slow start leaves the link idle, and the bytes that come after the last such gap.

    The flow has `size` wire bytes and, after slow start, this rate.  A round's first packet takes its time even if a
    token bucket would let it pass, since its acknowledgement waits for the next.  A rate of 0 causes no stall: the flow
    waits for its rate instead.
    """
    idle, mtu, sent = 0.0, constants.mtu, 0
    flight = constants.initial_window * mtu
    while rate > 0:
        gap = trip + (mtu - flight) / rate
        if sent + flight >= size or gap <= 0:
            break
        sent += flight
        idle += gap
        flight *= 2
    return idle, size - sent


def stall(constants: TransferModel, size: float, trip: float, rate: float) -> float:
    """Return the seconds in which slow start leaves the link idle; see `slow_start`."""
    return slow_start(constants, size, trip, rate)[0]


def stalls(
    constants: TransferModel,
    size: npt.NDArray[np.float64],
    trip: npt.NDArray[np.float64],
    rate: npt.NDArray[np.float64],
) -> npt.NDArray[np.float64]:
    """Return the seconds of `stall` for many flows at once, each a row (K,); all rates are above 0."""
    idle, flight, sent = np.zeros(len(size)), constants.initial_window * constants.mtu, 0
    slow = size > 0
    while slow.any():
        gap = trip + (constants.mtu - flight) / rate
        slow &= (sent + flight < size) & (gap > 0)
        idle[slow] += gap[slow]
        sent, flight = sent + flight, 2 * flight
    return idle


def pacing(constants: TransferModel, count: Whole, trip: Rate, rate: Rate) -> Rate:
    """Return the seconds by which BBR's pacing of the first window delays the start of new flows, 0 for others.

    The flows have `count` packets.  A path at least as slow as the pace hides it; what follows is sent as
    acknowledgements of the first window arrive, and keeps that delay.
    """
    if constants.congestion_control != "bbr":
        return 0.0 * trip
    later = np.maximum(np.minimum(count, constants.initial_window) - 1, 0)
    with np.errstate(divide="ignore"):
        slower = np.maximum(trip / (BBR_GAIN * constants.initial_window) - constants.mtu / np.asarray(rate), 0.0)
    found: Rate = later * slower
    return found


def timeout(constants: TransferModel, trip: float, rounds: float) -> float:
    """Return the seconds after which a sender considers its data lost that has sent data for so many round trips.

    It is the round trip and four times its mean deviation, which Linux takes for `rto_min` at least.  The first
    measurement sets that to twice the round trip (RFC 6298); after the first of data it approaches `rto_min` by a
    quarter each, as measured on Linux.
    """
    more = max(0.0, 2 * trip - constants.rto_min) * SETTLES ** max(0.0, rounds - UNSETTLED)
    return float(trip + constants.rto_min + more)


def standing_queue(constants: TransferModel, drain: float, rtt: float) -> float:
    """Return the seconds that packets wait in front of a full link whose buffer takes `drain` seconds to empty."""
    if constants.congestion_control == "bbr":
        return min(drain, constants.bbr_queue_trips * rtt)
    return min(constants.queue_share * drain, constants.queue_trips * rtt)


def weight(constants: TransferModel, trip: float) -> float:
    """Return the weight of a flow on a shared link; 1 unless long round trips get less."""
    return max(trip, SHORTEST_TRIP) ** -constants.rtt_bias if constants.rtt_bias else 1.0


def ack_ceiling(constants: TransferModel, reverse: Rate) -> Rate:
    """Return the rate (wire bytes/s) that acknowledgements over a path of `reverse` bytes/s allow."""
    return reverse * constants.ack_every * constants.mtu / constants.header


def first_loss(constants: TransferModel, count: int, loss: float, draw: float) -> float:
    """Return the number of the first of `count` packets that is lost (infinity if none is); `draw` is in [0, 1)."""
    if not loss:
        return math.inf
    if constants.deterministic:
        number = (1 - math.pow(1 - loss, count)) * (1 - loss) / loss + 1.0
    else:
        through = math.log1p(-draw) / math.log1p(-loss)  # not finite if the loss is tiny
        number = math.floor(min(through, count)) + 1.0
    return number if number <= count else math.inf


def first_losses(constants: TransferModel, counts: Ints, loss: Floats, draws: Floats) -> Floats:
    """Return the packets of `first_loss` for many transfers at once, each a row (K,)."""
    some = loss > 0
    own, count = loss[some], counts[some]
    if constants.deterministic:
        numbers = (1 - portable.power(1 - own, count)) * (1 - own) / own + 1.0
    else:
        with np.errstate(over="ignore"):
            numbers = np.floor(np.minimum(portable.log1p(-draws[some]) / portable.log1p(-own), count)) + 1.0
    found = np.full(len(loss), math.inf)
    found[some] = np.where(numbers <= count, numbers, math.inf)
    return found


def loss_ceiling(constants: TransferModel, trip: float, loss: float) -> float:
    """Return the rate (wire bytes/s) that congestion control keeps under this loss; infinity without loss."""
    control = constants.congestion_control
    if not (loss and trip) or (control == "bbr" and loss <= BBR_IGNORES):
        return math.inf
    if control == "bbr" or loss > PFTK_ABOVE:
        seldom = min(1.0, 3 * math.sqrt(3 * loss / 8))
        waits = max(constants.rto_min, 2 * trip) * seldom * loss * (1 + 32 * (loss * loss))
        return constants.mtu / (trip * math.sqrt(2 * loss / 3) + waits)
    window = math.sqrt(1.5 / loss)
    if control == "cubic":
        window = max(window, 1.054 * math.pow(trip / loss, 0.75))
    return window * constants.mtu / trip


def loss_ceilings(constants: TransferModel, trips: Floats, loss: Floats) -> Floats:
    """Return the rates of `loss_ceiling` for many transfers at once, each a row (K,)."""
    found, some = np.full(len(loss), math.inf), (loss > 0) & (trips > 0)
    with np.errstate(over="ignore", divide="ignore"):  # the rate is infinite for a tiny round trip
        found[some] = LOSS_CEILING[constants.congestion_control](constants, trips[some], loss[some])
    return found


def _reno(constants: TransferModel, trip: Floats, loss: Floats) -> Floats:
    window = np.sqrt(1.5 / loss) * constants.mtu / trip
    return np.where(loss > PFTK_ABOVE, _pftk(constants, trip, loss), window)


def _cubic(constants: TransferModel, trip: Floats, loss: Floats) -> Floats:
    window = np.maximum(np.sqrt(1.5 / loss), 1.054 * portable.power(trip / loss, 0.75)) * constants.mtu / trip
    return np.where(loss > PFTK_ABOVE, _pftk(constants, trip, loss), window)


def _bbr(constants: TransferModel, trip: Floats, loss: Floats) -> Floats:
    return np.where(loss <= BBR_IGNORES, math.inf, _pftk(constants, trip, loss))


def _pftk(constants: TransferModel, trip: Floats, loss: Floats) -> Floats:
    seldom = np.minimum(1.0, 3 * np.sqrt(3 * loss / 8))
    waits = np.maximum(constants.rto_min, 2 * trip) * seldom * loss * (1 + 32 * loss**2)
    rates: Floats = constants.mtu / (trip * np.sqrt(2 * loss / 3) + waits)
    return rates


LOSS_CEILING: dict[str, Callable[[TransferModel, Floats, Floats], Floats]] = {
    "cubic": _cubic,
    "reno": _reno,
    "bbr": _bbr,
}
