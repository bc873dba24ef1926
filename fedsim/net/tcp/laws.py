"""TCP's effects beyond the sharing of rates, as closed formulas: headers, handshake, slow start, losses.

Rates are in wire bytes per second, times in seconds, `rtt` is the round trip with its mean jitter.  Sources:
RFC 6928 (initial window), Mathis et al. 1997 (Reno under loss), RFC 9438 (CUBIC's response function), Padhye
et al. 1998 (time-outs).  What a window does between the first loss and the steady state is in
`congestion_avoidance.py`, what connections keep of it in `window_reuse.py`.  Not modelled: TCP's receive
windows; those of a transport above it are in `flow_control.py`.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar, overload

import numpy as np
from pydantic import Field, NonNegativeInt, PositiveInt

from fedsim.core import portable
from fedsim.core.arrays import Floats, Ints
from fedsim.core.units import Bytes, Duration, NonNegative, Seconds
from fedsim.net.tcp import bbr_start

RENO = 1.5  # cwnd = sqrt(1.5 / p) packets with an acknowledgement per packet: Mathis et al. 1997
CUBIC = 1.054  # cwnd = 1.054 (RTT / p)^(3/4) packets: RFC 9438
PFTK_ABOVE = 0.02  # loss from which time-outs matter
BBR_IGNORES = 0.05  # loss up to which BBR keeps its rate
RTTVAR_DECAY = 0.75  # the share of a time-out's first excess that a round trip leaves
UNSETTLED = 1.65  # round trips of data before that; 1.5 to 1.75 as read from Linux 6.18, 0.2 to 0.5 s
# An overflow leaves this share of a flow's window, under BBR of its rate, and a draw below 1 more of it
LEAST_OVERFLOW_SHARE = 0.5
PacketBytes = Annotated[Bytes, Field(gt=0)]
AtLeastZero = Annotated[float, Field(ge=0)]
Whole = TypeVar("Whole", int, Ints)
Rate = TypeVar("Rate", float, Floats)
SHORTEST_RTT = 1e-4  # seconds; below it round trips weigh alike


@dataclass(frozen=True)
class TransferModel:
    """The constants of the model; the defaults are those of a Linux host."""

    mtu: PacketBytes = 1500  # of a full IP packet
    mss: PacketBytes = 1448  # payload bytes in it, TCP timestamps on
    header: PacketBytes = 52  # IP and TCP header of a packet; the size of an acknowledgement
    initial_window: PositiveInt = 10  # packets
    ack_every: PositiveInt = 2  # packets an acknowledgement
    congestion_control: str = "cubic"  # or reno, bbr
    syn_rto: Duration = 1.0  # until the first packet is sent again; doubles each time
    rto_max: Seconds = 120.0  # the longest wait between two tries
    rto_min: Seconds = 0.2  # by which a time-out of data exceeds the round trip
    tls_rtts: NonNegativeInt = 0  # further round trips before data
    deterministic: bool = False  # losses occur at their mean instead of being drawn
    queue_share: AtLeastZero = 0.85  # of the buffer that Cubic and Reno keep full; from few points, as the next
    queue_trips: AtLeastZero = 8.0  # round trips, the longest queue that they keep
    bbr_queue_packets: AtLeastZero = 10.0  # the longest queue that BBR keeps
    short_packets: NonNegativeInt = 70  # up to this many, a flow's last bytes wait in the queue of others
    rtt_bias: NonNegative = 0.0  # shares go as rtt ** -rtt_bias; 0.5 suits Cubic, 0: equal shares

    def __post_init__(self) -> None:
        """Raise ValueError for an unknown congestion control and for constants that contradict each other."""
        if self.congestion_control not in STEADY_RATE:
            known = ", ".join(STEADY_RATE)
            raise ValueError(f"congestion_control: no '{self.congestion_control}'; there are {known}")
        if not self.syn_rto <= self.rto_max:
            raise ValueError(f"rto_max is {self.rto_max}: it must be at least syn_rto ({self.syn_rto})")
        if self.rtt_bias and self.congestion_control == "bbr":
            raise ValueError(f"rtt_bias is {self.rtt_bias}: it must be 0 for bbr, which has no such bias")


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

    `lost` is the probability that one is lost; `draw` in [0, 1) decides how many are (by inversion, so a
    larger probability never means a shorter wait).  In deterministic mode the mean over all draws is
    returned.
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


def full_packets(constants: TransferModel, size: Rate) -> Rate:
    """Return how many packets wire bytes take, of which the last need not be full."""
    return np.ceil(size / constants.mtu - 1e-9)  # type: ignore[no-any-return]


def slow_start(constants: TransferModel, size: float, rtt: float, rate: float) -> tuple[float, float]:
    """Return the seconds in which slow start leaves the link idle, and the bytes that come after the last such gap.

    The flow has `size` wire bytes and, after slow start, this rate.  A round's first packet takes its time
    even if a token bucket would let it pass, since its acknowledgement waits for the next.  A rate of 0
    causes no stall: the flow waits for its rate instead.
    """
    idle, mtu, sent = 0.0, constants.mtu, 0
    if rate > 0 and constants.congestion_control == "bbr":
        idle, last = bbr_start.stall(constants.initial_window, full_packets(constants, size), rtt, mtu / rate)
        return idle, size - (last - 1) * mtu
    flight = constants.initial_window * mtu
    while rate > 0:
        gap = rtt + (mtu - flight) / rate
        if sent + flight >= size or gap <= 0:
            break
        sent += flight
        idle += gap
        flight *= 2
    return idle, size - sent


def stalls(constants: TransferModel, size: Floats, rtt: Floats, rate: Floats) -> Floats:
    """Return the seconds (K,) in which slow start leaves the links of K flows idle; all rates are above 0.

    The same as `slow_start`, which is some thirty times faster for a single flow.
    """
    if constants.congestion_control == "bbr":
        return bbr_start.stalls(constants.initial_window, full_packets(constants, size), rtt, constants.mtu / rate)[0]
    idle, flight, sent = np.zeros(len(size)), constants.initial_window * constants.mtu, 0
    slow = size > 0
    while slow.any():
        gap = rtt + (constants.mtu - flight) / rate
        slow &= (sent + flight < size) & (gap > 0)
        idle[slow] += gap[slow]
        sent, flight = sent + flight, 2 * flight
    return idle


def timeout(constants: TransferModel, rtt: float, round_trips: float) -> float:
    """Return the seconds after which a sender considers its data lost that has sent data for so many round trips.

    It is the round trip and four times its mean deviation, which Linux takes for `rto_min` at least.  The
    first measurement sets that to twice the round trip (RFC 6298); after the first of data it approaches
    `rto_min` by a quarter each, as measured on Linux.
    """
    more = max(0.0, 2 * rtt - constants.rto_min) * RTTVAR_DECAY ** max(0.0, round_trips - UNSETTLED)
    return float(rtt + constants.rto_min + more)


def standing_queue(constants: TransferModel, buffer: float, capacity: float, rtt: float) -> float:
    """Return the seconds that packets wait in the `buffer` (bytes) of a full link of `capacity` bytes/s."""
    if constants.congestion_control == "bbr":
        return min(buffer, constants.bbr_queue_packets * constants.mtu) / capacity
    return min(constants.queue_share * buffer / capacity, constants.queue_trips * rtt)


def weight(constants: TransferModel, rtt: float) -> float:
    """Return the weight of a flow on a shared link; 1 unless long round trips get less."""
    return max(rtt, SHORTEST_RTT) ** -constants.rtt_bias if constants.rtt_bias else 1.0


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


def steady_rate(constants: TransferModel, rtt: Floats, loss: Floats) -> Floats:
    """Return the rates (wire bytes/s, (K,)) that congestion control sustains under these losses; infinity without."""
    rates, limited = np.full(len(loss), math.inf), (loss > 0) & (rtt > 0)
    with np.errstate(over="ignore", divide="ignore"):  # the rate is infinite for a tiny round trip
        rates[limited] = STEADY_RATE[constants.congestion_control](constants, rtt[limited], loss[limited])
    return rates


def steady_rate_of(constants: TransferModel, rtt: float, loss: float) -> float:
    """Return the `steady_rate` of a single flow."""
    return steady_rate(constants, np.array([rtt]), np.array([loss])).item()


def reno_cwnd(loss: Floats) -> Floats:
    """Return the steady window of Reno in packets."""
    return np.sqrt(RENO / loss)


def cubic_cwnd(rtt: Floats, loss: Floats) -> Floats:
    """Return the steady window of Cubic in packets, beyond its Reno-friendly region."""
    return CUBIC * portable.power(rtt / loss, 0.75)


def _reno(constants: TransferModel, rtt: Floats, loss: Floats) -> Floats:
    return np.where(loss > PFTK_ABOVE, _with_timeouts(constants, rtt, loss), reno_cwnd(loss) * constants.mtu / rtt)


def _cubic(constants: TransferModel, rtt: Floats, loss: Floats) -> Floats:
    cwnd = np.maximum(reno_cwnd(loss), cubic_cwnd(rtt, loss))
    return np.where(loss > PFTK_ABOVE, _with_timeouts(constants, rtt, loss), cwnd * constants.mtu / rtt)


def _bbr(constants: TransferModel, rtt: Floats, loss: Floats) -> Floats:
    return np.where(loss <= BBR_IGNORES, math.inf, _with_timeouts(constants, rtt, loss))


def _with_timeouts(constants: TransferModel, rtt: Floats, loss: Floats) -> Floats:
    """Return the rates of Reno with retransmission time-outs (Padhye et al. 1998)."""
    timeout_share = np.minimum(1.0, 3 * np.sqrt(3 * loss / 8))
    timeouts = np.maximum(constants.rto_min, 2 * rtt) * timeout_share * loss * (1 + 32 * loss**2)
    return constants.mtu / (rtt * np.sqrt(2 * loss / 3) + timeouts)  # type: ignore[no-any-return]


STEADY_RATE: dict[str, Callable[[TransferModel, Floats, Floats], Floats]] = {
    "cubic": _cubic,
    "reno": _reno,
    "bbr": _bbr,
}
