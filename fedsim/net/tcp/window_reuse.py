"""Window reuse (RFC 7661): a flow starts in the window that its sender's last message on the connection has
left.

As in `congestion_avoidance.py`, for one flow at a time: only single messages keep connections.  Below its
threshold a window doubles every round trip, above it grows as it does between two losses, round by round:
W^(4/3) for Cubic and W^2 for Reno rise by the same amount with every packet.  It grows no further than slow
start lets it, as more would wait in a queue of the path.  BBR has no threshold, does not cut its window, and
starts at the pace of the rate that it has measured (`bbr_start.py`). A queue that overflows is a loss of the
packet with which the window is as large as there is room for.

Not modelled: windows that shrink as a sender has too little to send.
"""

import math
from typing import NamedTuple

import numpy as np

from fedsim.net.tcp import bbr_start
from fedsim.net.tcp import laws as tcp
from fedsim.net.tcp.congestion_avoidance import (
    CUBIC_POWER,
    FILLED,
    MULTIPLICATIVE_DECREASE,
    RENO_POWER,
    SELDOM,
    Start,
    laws,
    usable,
)
from fedsim.net.tcp.laws import TransferModel


class CongestionWindow(NamedTuple):
    """A sender's congestion window in packets, and the threshold from which it no longer doubles.

    `rate` is the largest that BBR has measured, in packets a round trip.
    """

    cwnd: float
    ssthresh: float = math.inf
    rate: float = 0.0


class _Rounds(NamedTuple):
    """How slow start and the growth after it leave a link idle, in seconds; then come so many bytes without a gap."""

    idle: float
    avoidance_idle: float
    burst: float


def idled(constants: TransferModel, window: CongestionWindow, timeouts: int) -> CongestionWindow:
    """Return the window after an idle time of so many whole time-outs, each of which halves it.

    It stays as large as an initial window, if it was, and remembers three quarters of what it was as its
    threshold.
    """
    if not timeouts:
        return window
    least = min(window.cwnd, float(constants.initial_window))
    halved = math.floor(window.cwnd * 0.5**timeouts)  # whole packets, on which a round trip may depend
    return CongestionWindow(max(least, halved), max(window.ssthresh, 0.75 * window.cwnd))


def pause(constants: TransferModel, size: float, rtt: float, rate: float, window: CongestionWindow) -> float:
    """Return the seconds in which a flow that starts in this window leaves the link idle before its last bytes."""
    rounds = _rounds(constants, size, rtt, usable(rate), window)
    return rounds.idle + rounds.avoidance_idle


def start(
    constants: TransferModel, size: float, rtt: float, rate: float, loss: float, packet: float, window: CongestionWindow
) -> Start:
    """Return how a flow of `size` wire bytes starts in this window that loses this packet, from 1 (infinity: none)."""
    mtu, fast = constants.mtu, usable(rate)
    lossless = _rounds(constants, size, rtt, fast, window)
    begun = Start(lossless.idle, lossless.burst, rate, limit=_mean(size, fast, lossless.avoidance_idle))
    if packet == math.inf:
        return begun
    top = _grown(constants, rtt, fast * rtt / mtu, window, packet - 1)
    until = (packet + top) * mtu
    cut = until < size and tcp.steady_rate_of(constants, rtt, loss) < math.inf
    sent = until if cut else packet * mtu
    part = _rounds(constants, sent, rtt, fast, window)
    gap = lossless.idle + lossless.avoidance_idle - part.idle - part.avoidance_idle
    if cut:
        return Start(part.idle, part.burst, rate, until, top, gap, 0.0, _mean(until, fast, part.avoidance_idle))
    return begun._replace(window=top, late=max(0.0, rtt - (gap + max(0.0, size - sent) / fast)))


def overflown(
    constants: TransferModel, size: float, rtt: float, rate: float, allowed: float, loss: float, packet: float,
    window: CongestionWindow, top: float,
) -> Start | None:  # fmt: skip
    """Return how a flow starts whose slow start ends as a queue overflows at a window of `top` packets.

    None if it loses `packet` before that, or has sent all, or if what is left of the window limits it no more
    than a path of `allowed` bytes a round trip does.
    """
    early = max(1.0, top - window.cwnd + 1)
    if MULTIPLICATIVE_DECREASE[constants.congestion_control] * top * constants.mtu >= allowed:
        return None
    if early >= min(packet, size / constants.mtu):
        return None
    begun = start(constants, size, rtt, rate, max(loss, SELDOM), early, window)
    return begun._replace(window=min(begun.window, max(top, constants.initial_window)), overflown=True)


def after(
    constants: TransferModel, size: float, rtt: float, loss: float, start: Start, window: CongestionWindow
) -> CongestionWindow:
    """Return the window in which a flow of `size` wire bytes leaves its sender that started so in this window."""
    count = float(tcp.full_packets(constants, size))
    pipe = usable(start.rate) * rtt / constants.mtu
    if constants.congestion_control == "bbr":
        gap = constants.mtu / usable(start.rate)
        rate = bbr_start.again(constants.initial_window, window.cwnd, window.rate, count, rtt, gap)[2]
        return CongestionWindow(_grown(constants, rtt, pipe, window, count), rate=min(rate, max(pipe, 1.0)))
    if start.window == math.inf:
        return CongestionWindow(_left(constants, rtt, pipe, window, count), window.ssthresh)
    cut = MULTIPLICATIVE_DECREASE[constants.congestion_control] * start.window
    if start.until == math.inf:
        return CongestionWindow(cut, cut)
    left = count - start.until / constants.mtu
    cwnd = cut
    with np.errstate(all="ignore"):
        for power, speed, steadies in laws(constants, np.array([rtt]), np.array([loss])):
            steady = steadies.item()
            distance = (cut**power - steady**power) * math.exp(-speed * loss * left)
            cwnd = max(cwnd, float(steady**power + distance) ** (1 / power))
    return CongestionWindow(cwnd, cut)


def _mean(nbytes: float, rate: float, avoidance_idle: float) -> float:
    """Return the mean rate of bytes that would take `avoidance_idle` seconds less if the window did not limit them."""
    return nbytes / (nbytes / rate + avoidance_idle) if avoidance_idle else math.inf


def _rounds(constants: TransferModel, size: float, rtt: float, rate: float, window: CongestionWindow) -> _Rounds:
    """Return the gaps between a flow's windows, as `tcp.slow_start` does for a new one."""
    mtu, sent, idle, avoidance_idle = constants.mtu, 0.0, 0.0, 0.0
    cwnd, ssthresh, measured = window
    if constants.congestion_control == "bbr":
        count = tcp.full_packets(constants, size)
        idle, last, _ = bbr_start.again(constants.initial_window, cwnd, measured, count, rtt, mtu / rate)
        return _Rounds(idle, 0.0, size - (last - 1) * mtu)
    while True:
        gap = rtt + (mtu - cwnd * mtu) / rate
        if sent + cwnd * mtu >= size or gap <= 0:
            return _Rounds(idle, avoidance_idle, size - sent)
        sent += cwnd * mtu
        if cwnd < ssthresh:
            idle += gap
            cwnd = min(2 * cwnd, ssthresh)
        else:
            avoidance_idle += gap
            cwnd = _after_avoidance(constants, rtt, cwnd, cwnd)


def _left(constants: TransferModel, rtt: float, pipe: float, window: CongestionWindow, count: float) -> float:
    """Return the packets of a window after a message of so many without a loss.

    Within its first window it makes that grow to twice its number at most, since nothing waited for the window
    (Linux: `tcp_is_cwnd_limited`); else every packet counts.  Beyond its threshold what does not fill it adds
    nothing.
    """
    cwnd, ssthresh, _ = window
    most = 2 * count if count < cwnd else math.inf
    while cwnd < min(count, pipe):  # the path idles until the window is acknowledged
        count -= cwnd
        cwnd = min(2 * cwnd, ssthresh) if cwnd < ssthresh else _after_avoidance(constants, rtt, cwnd, cwnd)
    if count >= min(cwnd, pipe):
        return _grown(constants, rtt, pipe, CongestionWindow(cwnd, ssthresh), count)
    return max(cwnd, min(cwnd + count, most, ssthresh))


def _grown(constants: TransferModel, rtt: float, pipe: float, window: CongestionWindow, count: float) -> float:
    """Return the packets of a window after so many have been acknowledged without a loss."""
    cwnd, ssthresh, _ = window
    most = max(FILLED * pipe, cwnd)
    if cwnd < ssthresh:
        doubled = min(count, ssthresh - cwnd)
        cwnd, count = cwnd + doubled, count - doubled
    return min(_after_avoidance(constants, rtt, cwnd, count) if count else cwnd, most)


def _after_avoidance(constants: TransferModel, rtt: float, cwnd: float, count: float) -> float:
    """Return a window above its threshold after so many further packets: that of the law that grows faster."""
    control = constants.congestion_control
    taken = 1 - MULTIPLICATIVE_DECREASE.get(control, 0.0)
    reno = (cwnd**RENO_POWER + RENO_POWER * taken * tcp.RENO * count) ** (1 / RENO_POWER)
    if control != "cubic":
        return float(reno)
    growth = CUBIC_POWER * taken * tcp.CUBIC**CUBIC_POWER * rtt * count
    return float(max(reno, (cwnd**CUBIC_POWER + growth) ** (1 / CUBIC_POWER)))
