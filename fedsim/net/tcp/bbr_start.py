"""How a flow starts under BBR: its packets leave at a pace, two at a time, and not a window at once.

A new flow begins with 2 / ln 2 initial windows a round trip.  The pace follows the largest rate at which
packets have been acknowledged so far, times 2 / ln 2, less one percent as in Linux (Cardwell et al., "BBR:
congestion-based congestion control", 2016; tcp_bbr.c).  Where the path is never full, the moment at which a
packet leaves depends on its number alone.  So that is found once, packet by packet for five round trips;
after that every round trip takes twice as many.  On a path that is slower than the pace, packets wait for
those before them.  A connection keeps the rate: its next message leaves at the pace of that rate, if the
window has room for all of it.  No constant is fitted.

Not modelled: packets that are acknowledged two at a time, and more than two that leave together at high
rates (both delay by some percent of a round trip); the queue that the end of the start leaves, since the
link is not idle then.
"""

import math
from functools import lru_cache

import numpy as np

from fedsim.core.arrays import Floats

GAIN = 0.99 * 2 / math.log(2)
TOGETHER = 2  # packets
COMPUTED, DOUBLED = 5, 9  # round trips
UNYIELDING = 10  # round trips for which BBR remembers a rate (tcp_bbr.c: bbr_bw_rtts)
KNOTS = 8  # of a round trip's packets, between which the rest is interpolated


def stalls(window: int, count: Floats, rtt: Floats, gap: Floats) -> tuple[Floats, Floats]:
    """Return the seconds (K,) for which new flows leave their links idle, and the last packet that the link waits for.

    They have `count` packets; `window` is the initial one, `gap` the seconds that a packet takes on the path.  A round
    trip begins when the first packet of the one before has passed, which takes a gap, too.
    """
    number, time = departures(window)
    count = np.maximum(count, 1.0)[:, None]
    number, time = np.minimum(number, count), np.minimum(time, np.interp(count, number, time))
    waits = rtt[:, None] * time + (np.floor(time) + 1 - number) * gap[:, None]
    last = waits.argmax(1)[:, None]
    return np.take_along_axis(waits, last, 1)[:, 0], np.take_along_axis(number, last, 1)[:, 0]


def stall(window: int, count: float, rtt: float, gap: float) -> tuple[float, float]:
    """Return the `stalls` of a single flow."""
    idle, last = stalls(window, *(np.array([each]) for each in (count, rtt, gap)))
    return idle.item(), last.item()


def again(window: int, room: float, rate: float, count: float, rtt: float, gap: float) -> tuple[float, float, float]:
    """Return the same of a flow on a connection with a window of `room` packets, and the rate that it then knows.

    `rate` is what it has measured so far, 0 if nothing has been sent on it.  A flow that must wait until its window is
    acknowledged starts as a new one would whose initial window is that rate.
    """
    pace = GAIN * max(rate, window)
    if rate and (count <= room or room * gap >= rtt):
        last = max(1.0, min(count, pace))
        return (last - 1) * max(0.0, rtt / pace - gap), last, max(rate, count / (1 + (count - 1) / pace))
    scale, (number, time) = max(1.0, rate / window), departures(window)
    idle, last = stall(window, count / scale, rtt, gap * scale)
    before = np.interp(np.interp(count / scale, number, time) - 1, time, number, left=0.0)  # of the last round trip
    return max(0.0, idle - (scale - 1) * gap), last * scale, max(rate, count - scale * float(before))


def beside(window: int, count: float, trip: float, gap: float) -> float:
    """Return the seconds for which a new flow sends nothing on a link that others under BBR keep full.

    They go on at the largest rate of their last ten round trips.  So of its `count` packets the new one brings
    no more than an initial `window` through in each of its first ten, which take `trip` seconds; then it gets
    its share, of which a packet takes `gap` seconds.
    """
    slow = min(max(0.0, count - window), UNYIELDING * window)
    return slow * max(0.0, trip / window - gap)


@lru_cache
def departures(window: int) -> tuple[Floats, Floats]:
    """Return numbers of packets of a new flow, ascending from 1, and when each leaves on a path that is never full.

    Times are in round trips, `window` is the initial one in packets.
    """
    left = _left(window, window * (2**COMPUTED - 1))
    ends = [(window * (2**k - 1), window * (2 ** (k + 1) - 1) - 1) for k in range(COMPUTED)]
    knots = [np.unique(np.linspace(*each, KNOTS).astype(int)) for each in ends]
    numbers, times = [each + 1.0 for each in knots], [left[each] for each in knots]
    for _ in range(DOUBLED):
        numbers.append(2 * numbers[-1] + window)
        times.append(times[-1] + 1)
    return np.concatenate(numbers), np.concatenate(times)


def _left(window: int, count: int) -> Floats:
    """Return when the first packets leave, each of which is acknowledged one round trip later."""
    left, before = list[float](), list[int]()  # `before`: how many were acknowledged by then
    back, rate, now, due = 0, float(window), 0.0, 0.0
    while len(left) < count:
        flying = len(left) - back
        if flying and (flying >= window + back or left[back] + 1 <= due):
            since = left[before[back] - 1] if before[back] else -1.0
            rate = max(rate, (back + 1 - before[back]) / (left[back] - since))
            now, back = left[back] + 1, back + 1
        else:
            now, together = max(now, due), min(TOGETHER, window + back - flying)
            left += [now] * together
            before += [back] * together
            due = now + together / (GAIN * rate)
    return np.array(left[:count])
