"""How a flow starts under BBR: its packets leave at a pace, two at a time, and not a window at once.

A new flow begins with 2 / ln 2 initial windows a round trip.  The pace follows the largest rate at which packets have
been acknowledged so far, times 2 / ln 2, less one percent as in Linux (Cardwell et al., "BBR: congestion-based
congestion control", 2016; tcp_bbr.c).  Where the path is never full, the moment at which a packet leaves depends on its
number alone.  So that is found once, packet by packet for five round trips; after that every round trip takes twice as
many.  On a path that is slower than the pace, packets wait for those before them.  A connection keeps the rate: its
next message leaves at the pace of that rate, if the window has room for all of it.  No constant is fitted.

Not modelled: packets that are acknowledged two at a time, and more than two that leave together at high rates (both
delay by some percent of a round trip); the queue that the end of the start leaves, since the link is not idle then.
"""

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from fedsim.core.arrays import Floats

GAIN = 0.99 * 2 / math.log(2)
TOGETHER = 2  # packets
COMPUTED, DOUBLED = 5, 9  # round trips
KNOTS = 8  # of a round trip's packets, between which the rest is interpolated


class Departures(NamedTuple):
    """What a new flow does on a path that is never full, by the `number` of the packet, ascending from 1.

    `time` (round trips) is when it leaves, `rate` (packets a round trip) what is measured once it is acknowledged.
    """

    number: Floats
    time: Floats
    rate: Floats


def stalls(window: int, count: Floats, rtt: Floats, gap: Floats) -> tuple[Floats, Floats]:
    """Return the seconds (K,) for which new flows leave their links idle, and the last packet that the link waits for.

    They have `count` packets; `window` is the initial one, `gap` the seconds that a packet takes on the path.  A round
    trip begins when the first packet of the one before has passed, which takes a gap, too.
    """
    number, time, _ = departures(window)
    count = np.maximum(count, 1.0)[:, None]
    number, time = np.minimum(number, count), np.minimum(time, np.interp(count, number, time))
    waits = rtt[:, None] * time + (np.floor(time) + 1 - number) * gap[:, None]
    last = waits.argmax(1)[:, None]
    return np.take_along_axis(waits, last, 1)[:, 0], np.take_along_axis(number, last, 1)[:, 0]


def stall(window: int, count: float, rtt: float, gap: float) -> tuple[float, float]:
    """Return the `stalls` of a single flow."""
    idle, last = stalls(window, *(np.array([each]) for each in (count, rtt, gap)))
    return idle.item(), last.item()


def again(window: int, room: float, rate: float, count: float, rtt: float, gap: float) -> tuple[float, float]:
    """Return the same of a flow on a connection that has measured this rate and has a window of `room` packets.

    One that must wait until its window is acknowledged starts as a new one would whose initial window is the rate.
    """
    pace = GAIN * max(rate, window)
    if rate and (count <= room or room * gap >= rtt):
        last = max(1.0, min(count, pace))
        return (last - 1) * max(0.0, rtt / pace - gap), last
    scale = max(1.0, rate / window)
    idle, last = stall(window, count / scale, rtt, gap * scale)
    return max(0.0, idle - (scale - 1) * gap), last * scale


def measured(window: int, room: float, rate: float, count: float) -> float:
    """Return the rate that a connection has measured after this message, on a path that is never full."""
    if rate and count <= room:
        return max(rate, count / (1 + (count - 1) / (GAIN * max(rate, window))))
    scale = max(1.0, rate / window)
    number, _, rates = departures(window)
    return max(rate, scale * float(np.interp(count / scale, number, rates)))


@lru_cache
def departures(window: int) -> Departures:
    """Return when packets of a new flow leave; `window` is the initial one in packets."""
    left, rate = _followed(window, window * (2**COMPUTED - 1))
    ends = [(window * (2**k - 1), window * (2 ** (k + 1) - 1) - 1) for k in range(COMPUTED)]
    knots = [np.unique(np.linspace(*each, KNOTS).astype(int)) for each in ends]
    rounds = [Departures(each + 1.0, left[each], rate[each]) for each in knots]
    for _ in range(DOUBLED):
        number, time, rate = rounds[-1]
        rounds.append(Departures(2 * number + window, time + 1, 2 * rate))
    return Departures(*(np.concatenate(column) for column in zip(*rounds, strict=True)))


def _followed(window: int, count: int) -> tuple[Floats, Floats]:
    """Return when the first packets leave, and the rate when each is acknowledged, one round trip after it has left."""
    left, before, rates = list[float](), list[int](), list[float]()  # `before`: how many were acknowledged by then
    rate = now = due = 0.0
    while len(rates) < count:
        back = len(rates)
        flying = len(left) - back
        if flying and (flying >= window + back or left[back] + 1 <= due):
            known = before[back]
            since = left[known - 1] if known else -1.0
            rate = max(rate, (back + 1 - known) / (left[back] - since))
            now = left[back] + 1
            rates.append(rate)
        else:
            now, together = max(now, due), min(TOGETHER, window + back - flying)
            left += [now] * together
            before += [back] * together
            due = now + together / (GAIN * max(rate, window))
    return np.array(left[:count]), np.array(rates)
