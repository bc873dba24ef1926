"""Diurnal: the availability of clients follows the time of day."""

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import simpy

from fedsim.core.units import Count, Duration, Fraction, PositiveFraction, Seconds
from fedsim.net.disturbance import drive_all
from fedsim.net.effect import Drive, Effect, Network

DAY = 86_400.0


@dataclass(frozen=True)
class Diurnal(Effect):
    """The share of clients online follows a cosine of one day between `trough` and `peak`.

    At local time t it is p(t) = trough + (peak - trough) (1 + cos(2 pi (t - peak_at) / day)) / 2.  Each
    client has a reluctance U, uniform on (0, 1), which is drawn again after exponential times of mean
    `every`, and is online while U < p(t): so at any time it is online with probability p(t), exactly, and its
    states at two times that are s apart are correlated by exp(-s / every).  Simulated time 0 is midnight of
    the first zone; each client is in one of `zones` time zones, drawn uniformly, each of which is day / zones
    behind the one before.  Not modelled: weekends, curves of other shapes, clients that are always more eager
    than others.
    """

    changes_presence_only: ClassVar[bool] = True

    peak: PositiveFraction  # share online at the best time of the day
    trough: Fraction  # share online half a day from it
    peak_at: Seconds = 0.0  # local time of the peak, after midnight
    every: Duration = 3600.0  # mean time until a client's threshold for being online is drawn again
    zones: Count = 1  # time zones, evenly spread over a day
    day: Duration = DAY  # length of a day

    def __post_init__(self) -> None:
        """Raise ValueError for shares in the wrong order, and for a peak beyond the day."""
        if self.trough > self.peak:
            raise ValueError(f"diurnal: option 'trough' is {self.trough}, above the peak of {self.peak}; swap them")
        if self.peak_at >= self.day:
            raise ValueError(f"diurnal: option 'peak_at' is {self.peak_at} s; it must lie within the day")

    def drive(self, env: simpy.Environment, network: Network, rng: np.random.Generator) -> Drive:
        """Put clients to sleep and wake them."""
        nodes, count = network.nodes, len(network.nodes)
        peaks: list[float] = (self.peak_at + rng.integers(self.zones, size=count) * (self.day / self.zones)).tolist()
        widths = [self._width(reluctance) for reluctance in rng.random(count).tolist()]
        redrawn: list[float] = (env.now + rng.exponential(self.every, count)).tolist()
        online = [True] * count

        def place(client: int, now: float) -> float:
            """Put the client on or offline by its reluctance and the hour, and return when either changes."""
            online[client], change = self._look(now - peaks[client], widths[client])
            (nodes.wake if online[client] else nodes.sleep)(client, self)
            return min(redrawn[client], now + change)

        def change(client: int, time: float) -> float:
            """Draw the client's reluctance anew if that is due, else put it on or offline with the hour."""
            if time == redrawn[client]:
                widths[client] = self._width(rng.random())
                redrawn[client] = time + float(rng.exponential(self.every))
                return place(client, time)
            online[client] = not online[client]
            (nodes.wake if online[client] else nodes.sleep)(client, self)
            lasts = 2 * widths[client] if online[client] else self.day - 2 * widths[client]
            return min(redrawn[client], time + lasts)

        yield from drive_all(env, [place(client, env.now) for client in range(count)], change)

    def _width(self, reluctance: float) -> float:
        """Return the seconds before and after the peak in which a client of this reluctance is online."""
        if reluctance < self.trough:
            return self.day / 2
        if reluctance >= self.peak:
            return 0.0
        height = (reluctance - self.trough) / (self.peak - self.trough)
        return self.day / (2 * math.pi) * math.acos(2 * height - 1)

    def _look(self, since_peak: float, width: float) -> tuple[bool, float]:
        """Return whether a client is online, and the seconds until the hour changes that (infinity if never)."""
        phase = (since_peak + self.day / 2) % self.day - self.day / 2  # from the nearest peak
        online = -width <= phase < width
        if width == 0 or 2 * width >= self.day:
            return online, math.inf
        return online, width - phase if online else (-width - phase) % self.day
