"""Counters of links: for each way, how many messages are under way, and how many bits a second they move.

The rate is each message's wire bytes over its whole passage, summed over those under way: waiting for a handshake or a
lost packet is spread over the message, because the table does not separate it.  Above POINTS changes a counter is taken
at POINTS moments, evenly spaced.

What it does not model: which link of a path carried the bytes, and its limit.
"""

import numpy as np
import pandas as pd

from analysis.timeline.events import LINKS, Event, event, nanoseconds
from fedsim.core.arrays import Floats

POINTS = 5000  # values of one counter
MBIT = 125_000  # bytes


def counters(transfers: pd.DataFrame) -> list[Event]:
    """Return the events of all counters of the transfers of a point, drawn clients or not."""
    source, target = transfers["src"].to_numpy(), transfers["dst"].to_numpy()
    ways = {
        "clients up": (source >= 0) & (target < 0),
        "clients down": (source < 0) & (target >= 0),
        "edges up": (source < -1) & (target == -1),
        "edges down": (source == -1) & (target < -1),
        "between peers": (source >= 0) & (target >= 0),
    }
    return [event for way, mine in ways.items() if mine.any() for event in _way(way, transfers[mine])]


def _way(name: str, transfers: pd.DataFrame) -> list[Event]:
    starts, ends = transfers["sent"].to_numpy(float), transfers["arrived"].to_numpy(float)
    lasts = ends > starts
    rates = transfers["wire_bytes"].to_numpy(float)[lasts] / (ends - starts)[lasts] / MBIT
    many = _steps(starts[lasts], ends[lasts], np.ones(int(lasts.sum())))
    fast = _steps(starts[lasts], ends[lasts], rates)
    values = [(f"{name}: under way", moment, float(round(value))) for moment, value in many]
    values += [(f"{name}: Mbit/s", moment, round(value, 6)) for moment, value in fast]
    return [event("C", title, LINKS, 0, moment, args={"value": value}) for title, moment, value in values]


def _steps(starts: Floats, ends: Floats, values: Floats) -> list[tuple[int, float]]:
    """Return (nanoseconds, sum of the values under way) at each change, or at evenly spaced moments."""
    times, changes = np.concatenate([starts, ends]), np.concatenate([values, -values])
    order = np.argsort(times, kind="stable")
    moments, sums = times[order], changes[order].cumsum()
    last = np.append(moments[1:] != moments[:-1], True)[: len(moments)]  # of several at one moment, what they leave
    moments, sums = moments[last], np.maximum(sums[last], 0.0)
    if len(moments) > POINTS:
        even = np.linspace(moments[0], moments[-1], POINTS)
        moments, sums = even, sums[np.searchsorted(moments, even, side="right") - 1]
    return [(nanoseconds(moment), float(value)) for moment, value in zip(moments, sums, strict=True)]
