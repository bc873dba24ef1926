"""Congestion avoidance: how the congestion window of a sender recovers from a loss, and what rate it allows meanwhile.

A loss leaves a share of the window.  From there it grows and is cut again by every further loss; here it
takes its mean course.  Cubic regains a cut in a time that goes as the cube root of the window, so that on
average it grows by c W^(2/3) packets a second, and Reno by a constant number a round trip.  At a loss rate p,
W^(4/3) for Cubic and W^2 for Reno then approach their steady values exponentially in the packets sent.  This
takes no parameter: the steady windows are those of `tcp.py` (Mathis et al. 1997, RFC 9438), and they fix c.
Cubic grows as Reno does where that is faster (its friendly region).  While the window is larger than what the
path holds, packets wait in a queue of the path, and a cut costs nothing.

All numbers are rows (K,); windows are in packets, and `pipe` is how many the path holds without a queue.  Not
modelled: further losses one by one; Cubic's growth being faster just after a cut and before the next; the
time-out of a loss among the last three packets.
"""

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from fedsim.core import portable
from fedsim.core.arrays import Floats
from fedsim.net.links.flows import OUTAGE
from fedsim.net.tcp import laws as tcp
from fedsim.net.tcp.laws import TransferModel

MULTIPLICATIVE_DECREASE = {"cubic": 0.7, "reno": 0.5}  # the share of the window that a loss leaves (RFC 9438, RFC 5681)
CUBIC_POWER, RENO_POWER = 4 / 3, 2.0  # the powers of the window that approach their steady value exponentially
FILLED = 2.0  # slow start has noticed the queue, and ended, when its window is this many times the pipe
FASTEST = 1e15  # bytes/s, that of a link whose rate is not known
SELDOM = 1e-7  # the share of lost packets at which a window only grows
NEAR = 1e-4  # relative difference below which two windows are averaged: there the closed form loses digits


class Start(NamedTuple):
    """How a flow starts that is alone on its way.

    For `idle` seconds slow start cannot use the `rate` (bytes/s), and after the last such gap come `burst`
    bytes, of which the window allows `limit` bytes/s.  Once `until` bytes have been sent (infinity: never) a
    loss is noticed in a `window` of so many packets (infinity: no loss); without it slow start would leave
    further gaps of `gap` seconds. The message arrives `late` seconds after what its last byte takes, as one
    is sent again.  `overflown`: the loss is that of a full queue.
    """

    idle: float
    burst: float
    rate: float
    until: float = math.inf
    window: float = math.inf
    gap: float = 0.0
    late: float = 0.0
    limit: float = math.inf
    overflown: bool = False


def losses(
    constants: TransferModel,
    size: Floats,
    rtt: Floats,
    rate: Floats,
    loss: Floats,
    packet: Floats,
    lossless_idle: Floats,
) -> tuple[Floats, Floats, Floats, Floats, Floats]:
    """Return idle, until, window, gap and late of the `Start` of new flows of `size` wire bytes that lose this packet.

    Packets count from 1.  Without a loss the flows would idle for `lossless_idle` seconds.

    A loss is noticed a round trip later, when a further window has been sent.  If bytes are left then, the
    window is cut.  A packet that is lost later is sent again a round trip after it was sent first, and the
    message arrives with it.
    """
    mtu = constants.mtu
    top = np.minimum(constants.initial_window + packet - 1, np.maximum(FILLED * rate * rtt / mtu, 1.0))
    until = (packet + top) * mtu
    cut = (until < size) & np.isfinite(tcp.steady_rate(constants, rtt, loss))
    sent = np.minimum(until, size)
    idle = np.where(cut, tcp.stalls(constants, sent, rtt, rate), lossless_idle)
    lost = np.minimum(packet * mtu, size)
    since = lossless_idle - tcp.stalls(constants, lost, rtt, rate) + (size - lost) / rate
    late = np.where(cut, 0.0, np.maximum(0.0, rtt - since))
    return idle, np.where(cut, until, np.inf), top, lossless_idle - idle, late


def lossy_start(constants: TransferModel, size: float, rtt: float, rate: float, loss: float, packet: float) -> Start:
    """Return the same of one flow; next to no `rate` is that of an outage."""
    idle, burst = tcp.slow_start(constants, size, rtt, rate)
    row = size, rtt, usable(rate), loss, packet, idle
    columns = losses(constants, *(np.array([value]) for value in row))
    _, until, top, gap, late = (column.item() for column in columns)
    if until < size:
        idle, burst = tcp.slow_start(constants, until, rtt, rate)
    return Start(idle, burst, rate, until, top, gap, late)


def limits(
    constants: TransferModel, rtt: Floats, loss: Floats, rate: Floats, window: Floats, left: Floats, gap: Floats
) -> Floats:
    """Return the mean rates (bytes/s) of flows that have noticed a loss in this window, for their `left` bytes.

    Without the loss they could send at `rate` bytes/s, after further gaps of `gap` seconds.
    """
    count, pipe = left / constants.mtu, rate * rtt / constants.mtu
    return left / np.maximum(_rest_seconds(constants, rtt, loss, pipe, window, count), gap + left / rate)


def limit(constants: TransferModel, rtt: float, loss: float, rate: float, start: Start, left: float) -> float:
    """Return the same of one flow; next to no `rate` is that of an outage."""
    row = rtt, loss, usable(rate), start.window, left, start.gap
    return limits(constants, *(np.array([value]) for value in row)).item()


def usable(rate: float) -> float:
    """Return the rate, or for one that is next to nothing that of a link whose rate is not known."""
    return rate if rate > OUTAGE else FASTEST


def _rest_seconds(
    constants: TransferModel, rtt: Floats, loss: Floats, pipe: Floats, window: Floats, count: Floats
) -> Floats:
    """Return the seconds that the last `count` packets of flows take after a loss in this window."""
    if constants.congestion_control == "bbr":
        return count * rtt / np.minimum(_steady(constants, rtt, loss), pipe)
    start = MULTIPLICATIVE_DECREASE[constants.congestion_control] * window
    with np.errstate(all="ignore"):  # what only next to no round trip makes infinite is not used
        times = [_seconds(law, rtt, loss, pipe, start, count) for law in laws(constants, rtt, loss)]
    return np.fmin.reduce(times)  # type: ignore[no-any-return]


class Law(NamedTuple):
    """The `power` of the window approaches that of `steady`, at this speed a packet and a lost packet."""

    power: float
    speed: float
    steady: Floats


def _steady(constants: TransferModel, rtt: Floats, loss: Floats) -> Floats:
    return tcp.steady_rate(constants, rtt, loss) * rtt / constants.mtu


def laws(constants: TransferModel, rtt: Floats, loss: Floats) -> Iterator[Law]:
    """Yield the laws of growth, of which the faster holds."""
    control = constants.congestion_control
    taken = 1 - MULTIPLICATIVE_DECREASE[control]
    reno = np.where(loss > tcp.PFTK_ABOVE, _steady(constants, rtt, loss), tcp.reno_cwnd(loss))
    yield Law(RENO_POWER, RENO_POWER * taken, reno)
    if control == "cubic":
        cubic = np.where(loss > tcp.PFTK_ABOVE, reno, tcp.cubic_cwnd(rtt, loss))
        yield Law(CUBIC_POWER, CUBIC_POWER * taken, cubic)


def _seconds(law: Law, rtt: Floats, loss: Floats, pipe: Floats, start: Floats, count: Floats) -> Floats:
    """Return the seconds of `count` packets from a window of `start` on."""
    steady, speed = law.steady, law.speed * loss
    begin, full = portable.power(start / steady, law.power), portable.power(pipe / steady, law.power)
    above = start >= pipe
    crossing = np.where((steady < pipe) == above, portable.log((begin - 1) / (full - 1)) / speed, np.inf)
    before = np.minimum(count, crossing)  # packets until the window is as large as the pipe
    slow = np.where(above, count - before, before)
    from_ = np.where(above, full, begin)
    to = 1 + (from_ - 1) * portable.exp(-speed * slow)
    return (count - slow) * rtt / pipe + _slow_seconds(law, rtt, speed, from_, to, slow)


def _slow_seconds(law: Law, rtt: Floats, speed: Floats, begin: Floats, end: Floats, count: Floats) -> Floats:
    """Return the integral of rtt / window over `count` packets, while window ** power goes from `begin` to `end`.

    Both are in units of the steady window's.
    """
    first, last = portable.power(begin, 1 / law.power), portable.power(end, 1 / law.power)
    if law.power == RENO_POWER:
        bend = portable.log((1 + last) / (1 + first))
    else:
        first_root, last_root = portable.cbrt(first), portable.cbrt(last)
        bend = (
            portable.log((1 + last_root) / (1 + first_root))
            + portable.log((1 + last_root**2) / (1 + first_root**2)) / 2
        )
        bend += portable.arctan(last_root) - portable.arctan(first_root)
    near = np.abs(last - first) < NEAR * first
    mean = np.where(near, 2 * count / (first + last), count + 2 / speed * bend)
    return rtt / law.steady * mean
