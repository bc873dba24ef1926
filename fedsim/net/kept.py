"""Kept: how a flow starts in the window that its sender's last message on the connection has left, and what it leaves.

As in `window.py`, for one flow at a time: only single messages keep connections.  Below its threshold a window doubles
every round trip, above it grows as it does between two losses, round by round: W^(4/3) for Cubic and W^2 for Reno rise
by the same amount with every packet.  It grows no further than slow start lets it, as more would wait in a queue of the
path.  BBR has no threshold and does not cut its window.  A queue that overflows is a loss of the packet with which the
window is as large as there is room for.

Not modelled: windows that shrink as a sender has too little to send.
"""

import math
from typing import NamedTuple

import numpy as np

from fedsim.net import tcp
from fedsim.net.sharing.flows import OUTAGE
from fedsim.net.tcp import TransferModel
from fedsim.net.window import CUBIC, FASTEST, FILLED, KEEPS, RENO, SELDOM, Start, laws


class Window(NamedTuple):
    """A sender's congestion window in packets, and the threshold from which it no longer doubles."""

    packets: float
    threshold: float = math.inf


class _Rounds(NamedTuple):
    """How slow start and the growth after it leave a link idle, in seconds; then come so many bytes without a gap."""

    idle: float
    crawl: float
    burst: float


def idled(constants: TransferModel, window: Window, timeouts: int) -> Window:
    """Return the window after an idle time of so many whole time-outs, each of which halves it.

    It stays as large as an initial window, if it was, and remembers three quarters of what it was as its threshold.
    """
    if not timeouts:
        return window
    least = min(window.packets, float(constants.initial_window))
    return Window(max(least, window.packets * 0.5**timeouts), max(window.threshold, 0.75 * window.packets))


def pause(constants: TransferModel, size: float, trip: float, rate: float, window: Window) -> float:
    """Return the seconds in which a flow that starts in this window leaves the link idle before its last bytes."""
    found = _rounds(constants, size, trip, rate if rate > OUTAGE else FASTEST, window)
    return found.idle + found.crawl


def start(
    constants: TransferModel, size: float, trip: float, rate: float, loss: float, packet: float, window: Window
) -> Start:
    """Return how a flow of `size` wire bytes starts in this window that loses this packet, from 1 (infinity: none)."""
    mtu, fast = constants.mtu, rate if rate > OUTAGE else FASTEST
    whole = _rounds(constants, size, trip, fast, window)
    if packet == math.inf:
        return Start(whole.idle, whole.burst, rate, limit=_mean(size, fast, whole.crawl))
    top = _grown(constants, trip, fast * trip / mtu, window, packet - 1)
    until = (packet + top) * mtu
    if until < size and tcp.loss_ceiling(constants, trip, loss) < math.inf:
        part = _rounds(constants, until, trip, fast, window)
        gap = whole.idle + whole.crawl - part.idle - part.crawl
        return Start(part.idle, part.burst, rate, until, top, gap, 0.0, _mean(until, fast, part.crawl))
    part = _rounds(constants, packet * mtu, trip, fast, window)
    since = whole.idle + whole.crawl - part.idle - part.crawl + max(0.0, size - packet * mtu) / fast
    late = max(0.0, trip - since)
    return Start(whole.idle, whole.burst, rate, math.inf, top, 0.0, late, _mean(size, fast, whole.crawl))


def overflown(
    constants: TransferModel,
    size: float,
    trip: float,
    rate: float,
    allowed: float,
    loss: float,
    packet: float,
    window: Window,
    top: float,
) -> Start | None:
    """Return how a flow starts whose slow start ends as a queue overflows at a window of `top` packets.

    None if it loses `packet` before that, or has sent all, or if what is left of the window limits it no more than a
    path of `allowed` bytes a round trip does.
    """
    early = max(1.0, top - window.packets + 1)
    if KEEPS[constants.congestion_control] * top * constants.mtu >= allowed:
        return None
    if early >= min(packet, size / constants.mtu):
        return None
    found = start(constants, size, trip, rate, max(loss, SELDOM), early, window)
    return found._replace(window=min(found.window, max(top, constants.initial_window)), overflown=True)


def after(constants: TransferModel, size: float, trip: float, loss: float, start: Start, window: Window) -> Window:
    """Return the window in which a flow of `size` wire bytes leaves its sender that started so in this window."""
    count = math.ceil(size / constants.mtu - 1e-9)  # the last packet need not be full
    pipe = (start.rate if start.rate > OUTAGE else FASTEST) * trip / constants.mtu
    if constants.congestion_control == "bbr":
        return Window(_grown(constants, trip, pipe, window, count), window.threshold)
    if start.window == math.inf:
        return Window(_left(constants, trip, pipe, window, count), window.threshold)
    cut = KEEPS[constants.congestion_control] * start.window
    if start.until == math.inf:
        return Window(cut, cut)
    left = count - start.until / constants.mtu
    found = cut
    with np.errstate(all="ignore"):
        for power, speed, found_steady in laws(constants, np.array([trip]), np.array([loss])):
            steady = found_steady.item()
            distance = (cut**power - steady**power) * math.exp(-speed * loss * left)
            found = max(found, float(steady**power + distance) ** (1 / power))
    return Window(found, cut)


def _mean(nbytes: float, rate: float, crawl: float) -> float:
    """Return the mean rate of bytes that would take `crawl` seconds less if the window did not limit them."""
    return nbytes / (nbytes / rate + crawl) if crawl else math.inf


def _rounds(constants: TransferModel, size: float, trip: float, rate: float, window: Window) -> _Rounds:
    """Return the gaps between a flow's windows, as `tcp.slow_start` does for a new one."""
    mtu, sent, idle, crawl = constants.mtu, 0.0, 0.0, 0.0
    packets, threshold = window
    while True:
        gap = trip + (mtu - packets * mtu) / rate
        if sent + packets * mtu >= size or gap <= 0:
            return _Rounds(idle, crawl, size - sent)
        sent += packets * mtu
        if packets < threshold:
            idle += gap
            packets = min(2 * packets, threshold)
        else:
            crawl += gap
            packets = _risen(constants, trip, packets, packets)


def _left(constants: TransferModel, trip: float, pipe: float, window: Window, count: float) -> float:
    """Return the packets of a window after a message of so many without a loss.

    The last packets, which do not fill the window, make it grow to twice their number at most, and beyond its
    threshold not at all.
    """
    packets, threshold = window
    while packets < min(count, pipe):  # the path idles until the window is acknowledged
        count -= packets
        packets = min(2 * packets, threshold) if packets < threshold else _risen(constants, trip, packets, packets)
    if count >= min(packets, pipe):
        return _grown(constants, trip, pipe, Window(packets, threshold), count)
    return max(packets, min(packets + count, 2 * count, threshold))


def _grown(constants: TransferModel, trip: float, pipe: float, window: Window, count: float) -> float:
    """Return the packets of a window after so many have been acknowledged without a loss."""
    packets, threshold = window
    most = max(FILLED * pipe, packets)
    if packets < threshold:
        doubled = min(count, threshold - packets)
        packets, count = packets + doubled, count - doubled
    return min(_risen(constants, trip, packets, count) if count else packets, most)


def _risen(constants: TransferModel, trip: float, packets: float, count: float) -> float:
    """Return a window above its threshold after so many further packets: that of the law that grows faster."""
    control = constants.congestion_control
    taken = 1 - KEEPS.get(control, 0.0)
    found = (packets**RENO + RENO * taken * 1.5 * count) ** (1 / RENO)
    if control == "cubic":
        found = max(found, (packets**CUBIC + CUBIC * taken * 1.054**CUBIC * trip * count) ** (1 / CUBIC))
    return float(found)
