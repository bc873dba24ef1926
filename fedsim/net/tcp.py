"""What TCP adds to the sharing of rates: headers, handshake, slow start, losses, as closed formulas.

Rates are wire bytes a second, times are seconds, `trip` is the round trip with its mean jitter.  Sources: RFC 6928
(initial window), Mathis et al. 1997 (Reno under loss), RFC 9438 (CUBIC's response function), Padhye et al. 1998
(time-outs).  Not modelled: queueing, losses that a full queue causes, reused connections, receive windows.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

PFTK_ABOVE = 0.02  # loss from which time-outs matter
BBR_IGNORES = 0.05  # loss up to which BBR keeps its rate


@dataclass(frozen=True)
class TransferModel:
    """The constants of the model; the defaults are those of a Linux host."""

    mtu: int = 1500  # bytes of a full IP packet
    mss: int = 1448  # payload bytes in it, TCP timestamps on
    header: int = 52  # IP and TCP header of a packet; the size of an acknowledgement
    initial_window: int = 10  # packets
    ack_every: int = 2  # packets an acknowledgement
    congestion_control: str = "cubic"  # or reno, bbr
    syn_rto: float = 1.0  # seconds until the first packet is tried again; doubles each time
    rto_max: float = 120.0  # seconds, the longest wait between two tries
    tls_rtts: int = 0  # further round trips before data
    deterministic: bool = False  # losses strike at their mean instead of being drawn

    def __post_init__(self) -> None:
        """Raise ValueError for an unknown congestion control or for constants that make no sense."""
        if self.congestion_control not in LOSS_CEILING:
            known = ", ".join(LOSS_CEILING)
            raise ValueError(f"congestion_control: no '{self.congestion_control}'; there are {known}")
        sizes = (self.mtu, self.mss, self.header, self.initial_window, self.ack_every, self.syn_rto)
        if min(sizes) <= 0 or self.tls_rtts < 0 or self.rto_max < self.syn_rto:
            raise ValueError(f"{self}: sizes and times must be positive, tls_rtts not negative, rto_max >= syn_rto")


def packets(constants: TransferModel, nbytes: int) -> int:
    """Return how many packets that many payload bytes fill."""
    return -(-nbytes // constants.mss)


def wire_size(constants: TransferModel, nbytes: int, loss: float) -> float:
    """Return the bytes that nbytes of payload take on the wire, with headers and the mean number of repeats."""
    return (nbytes + constants.header * packets(constants, nbytes)) / (1 - loss)


def syn_wait(constants: TransferModel, lost: float, draw: float) -> float:
    """Return the seconds for which lost handshakes hold a connection up.

    `lost` is the probability that one is; `draw` in [0, 1) decides how many are (inversion, so a larger probability
    never means a shorter wait).  In deterministic mode it is the mean over all draws.
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


def stall(constants: TransferModel, size: float, trip: float, rate: float) -> float:
    """Return the seconds in which slow start leaves the link idle: `size` wire bytes at `rate` once it is through.

    A rate of 0 makes no stall: the flow waits for its rate instead.
    """
    idle, window, sent = 0.0, constants.initial_window, 0
    while rate > 0:
        sent += window * constants.mtu
        gap = trip + constants.mtu / rate - window * constants.mtu / rate
        if sent >= size or gap <= 0:
            break
        idle += gap
        window *= 2
    return idle


def ack_ceiling(constants: TransferModel, reverse: float) -> float:
    """Return the rate (wire bytes/s) that acknowledgements over a path of `reverse` bytes/s allow."""
    return reverse * constants.ack_every * constants.mtu / constants.header


def first_loss(constants: TransferModel, count: int, loss: float, draw: float) -> float:
    """Return after how many of the `count` packets the first is lost (infinity: none is); `draw` is in [0, 1)."""
    if not loss:
        return math.inf
    if constants.deterministic:
        number = (1 - math.pow(1 - loss, count)) * (1 - loss) / loss + 1.0
    else:
        number = math.floor(math.log1p(-draw) / math.log1p(-loss)) + 1.0
    return number if number <= count else math.inf


def loss_ceiling(constants: TransferModel, trip: float, loss: float) -> float:
    """Return the rate (wire bytes/s) that congestion control holds under this loss; infinity where there is none."""
    return LOSS_CEILING[constants.congestion_control](constants.mtu, trip, loss) if loss and trip else math.inf


def _reno(mtu: int, trip: float, loss: float) -> float:
    return math.sqrt(1.5 / loss) * mtu / trip if loss <= PFTK_ABOVE else _pftk(mtu, trip, loss)


def _cubic(mtu: int, trip: float, loss: float) -> float:
    if loss > PFTK_ABOVE:
        return _pftk(mtu, trip, loss)
    return max(math.sqrt(1.5 / loss), 1.054 * math.pow(trip / loss, 0.75)) * mtu / trip


def _bbr(mtu: int, trip: float, loss: float) -> float:
    return math.inf if loss <= BBR_IGNORES else _pftk(mtu, trip, loss)


def _pftk(mtu: int, trip: float, loss: float) -> float:
    timeout = max(0.2, 2 * trip)
    seldom = min(1.0, 3 * math.sqrt(3 * loss / 8))
    return mtu / (trip * math.sqrt(2 * loss / 3) + timeout * seldom * loss * (1 + 32 * loss**2))


LOSS_CEILING: dict[str, Callable[[int, float, float], float]] = {"cubic": _cubic, "reno": _reno, "bbr": _bbr}
