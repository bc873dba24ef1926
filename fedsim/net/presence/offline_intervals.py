"""Offline intervals: when many things go offline and come back, worked out for all at once and read in parts.

What `disturbance.on_off` does step by step is worked out here for all things at once, when the changes so far
are read. When a thing changes next is for a subclass to say: `ExponentialIntervals` after exponential times,
`MeasuredIntervals` as on measured days.  Each thing draws from a stream of its own, so that its times depend
neither on how many others there are nor on how often changes are read.  Not modelled: means that differ
between things, days of the week, habits that change.
"""

import math
from abc import ABC, abstractmethod

import numpy as np

from fedsim.core import seeds
from fedsim.core.arrays import Bools, Floats, Ints
from fedsim.core.seeds import GAMMA, mixed
from fedsim.net.measurements.days import CUT, DAY, DAYS, SAMPLE, Days

LEAST = 64  # changes worked out at a time on average, or one per `PART` things if more
PART = 8
Changes = tuple[Floats, Ints, Ints]  # in order: times, things, +1 if a spell begins and -1 if one ends


class OfflineIntervals(ABC):
    """Things from the time `now` on; `until` (count,) is when each changes next, after the changes returned.

    `inside` (count,) is whether each is in a spell at first; infinity stands for never.
    """

    def __init__(self, now: float, inside: Bools, mean: float) -> None:
        """Work out the first changes of these things, of which there is one at least; `mean` seconds lie between two.

        The subclass must be ready for `_after`.
        """
        count = len(inside)
        self.inside = inside
        self._turned = inside.copy()  # as `inside`, at the horizon
        self._ends = self._after(np.arange(count), np.full(count, now))  # the first change of each from the horizon on
        self.until = self._ends.copy()
        self._width = mean * max(1 / PART, LEAST / count)
        self._horizon = now
        self._place = 0
        self._fill()

    @abstractmethod
    def _after(self, who: Ints, times: Floats) -> Floats:
        """Return when these things change next, having changed at these times; `_turned` is their state since.

        Called for each thing's changes in order, and first with the time at which the absences begin.
        """

    @property
    def next(self) -> float:
        """The time of the next change that has not been returned."""
        return float(self._times[self._place])

    def passed(self, now: float) -> list[Changes]:
        """Return the changes up to this time that have not been returned before, in consecutive parts."""
        parts = list[Changes]()
        while self._times[self._place] <= now:
            begin, end = self._place, int(self._times.searchsorted(now, "right"))
            part = begin + np.flatnonzero(self._steps[begin:end])
            parts.append((self._times[part], self._who[part], self._steps[part]))
            self.until[self._who[part]] = self._then[part]  # of several changes of one thing the last one holds
            self._place = end
            if end == len(self._times):
                self._fill()
        return parts

    def passed_of(self, thing: int, now: float) -> int:
        """Return the step of this thing that is due right now, if it is its first not yet returned; else 0.

        `passed` then leaves it out.  It is also 0 if `passed` was last called so long ago that the step is
        not known.
        """
        here = self._times.searchsorted(now, "left")
        place = next((k for k in range(here, len(self._times)) if self._who[k] == thing or self._times[k] > now), None)
        if place is None or self._who[place] != thing or self._times[place] > now:
            return 0
        step, self._steps[place] = int(self._steps[place]), 0
        self.until[thing] = self._then[place]
        return step

    def _fill(self) -> None:
        """Work out the next changes, at least one; all earlier ones have been returned."""
        self._place, soonest = 0, float(self._ends.min())
        if soonest == math.inf:
            self._times, self._then = np.array([math.inf]), np.array([math.inf])
            self._who, self._steps = np.zeros(1, dtype=np.int64), np.zeros(1, dtype=np.int64)
            return
        self._horizon = max(self._horizon, soonest) + self._width
        times, who, steps, then = [], [], [], []
        due = np.flatnonzero(self._ends < self._horizon)
        while len(due):
            self._turned[due] ^= True
            times.append(self._ends[due])
            who.append(due)
            steps.append(2 * self._turned[due].astype(np.int64) - 1)
            self._ends[due] = self._after(due, times[-1])
            then.append(self._ends[due])
            due = due[then[-1] < self._horizon]
        joined = np.concatenate(times)
        placed = _by_time(joined)
        self._times, self._who = joined[placed], np.concatenate(who)[placed]
        self._steps, self._then = np.concatenate(steps)[placed], np.concatenate(then)[placed]


def order(values: Ints) -> Ints:
    """Return the stable sorting permutation of whole numbers (n,), at least 0 and below 2 ** 62 / (2 n).

    Number and index are packed into one integer, and sorting integers is several times faster than `argsort`.
    """
    bits = len(values).bit_length()
    return np.sort(values << bits | np.arange(len(values))) & ((1 << bits) - 1)


def _by_time(times: Floats) -> Ints:
    """Return the stable sorting permutation of the times (n,), n > 0; equal times stay in each thing's order."""
    start, length = times.min(), np.ptp(times)
    ticks = 2.0 ** (60 - len(times).bit_length())
    by_time = order(((times - start) * (ticks / length if length else 0.0)).astype(np.int64))
    ordered = times[by_time]
    if (ordered[1:] < ordered[:-1]).any():  # closer to one another than a tick
        by_time = np.argsort(times, kind="stable")
    return by_time


GRAIN = 2.0**-32  # of a mean


class ExponentialIntervals(OfflineIntervals):
    """Things that stay outside a spell for `between` seconds on average and inside for `spell`, both above 0.

    They start in the stationary state: each is in a spell with probability spell / (between + spell).  Things
    of one stream (`streams` has each one's number, from 0) change together.  A stream is SplitMix64 (Steele,
    Lea and Flood, OOPSLA 2014), from a state mixed from its number.
    """

    def __init__(self, now: float, streams: Ints, between: float, spell: float, rng: np.random.Generator) -> None:
        """Draw the key from `rng`, and then the initial state of each thing."""
        self._means = np.array([between, spell])
        key = rng.integers(2**64, dtype=np.uint64)
        self._states = mixed(key + mixed((streams.astype(np.uint64) + np.uint64(1)) * GAMMA))
        inside = self._uniform(np.arange(len(streams))) < spell / (between + spell)
        super().__init__(now, inside, (between + spell) / 2)

    def _after(self, who: Ints, times: Floats) -> Floats:
        """Draw how long these things stay in their present state."""
        # Logarithms may differ in their last bits between hosts; rounding to a grain keeps that from the clock
        units = np.rint(-np.log(self._uniform(who)) / GRAIN) * GRAIN
        return times + self._means[self._turned[who].astype(np.int64)] * units

    def _uniform(self, who: Ints) -> Floats:
        """Draw a number from (0, 1) for each of these things, from its own stream."""
        self._states[who] += GAMMA
        return ((mixed(self._states[who]) >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53


class MeasuredIntervals(OfflineIntervals):
    """Things that are absent unless their `phones` (count,) are available, on days drawn among those of the phone.

    Each day of a thing, from one `CUT` to the next by its own clock, is drawn independently among the three
    measured days of its phone, and a stretch goes on from one day into the next if it is online on either
    side.  What is measured every half hour has begun up to half an hour earlier: each stream is moved back by
    such a time of its own, so that clients do not come and go all at the same moment.

    `ahead` (count,) is the time of day at simulated time 0, in seconds.  Things of equal phone, stream and
    `ahead` are absent at the same times.
    """

    def __init__(self, now: float, days: Days, phones: Ints, streams: Ints, ahead: Floats, seed: int) -> None:
        """Draw the days under way; `seed` is the key of all streams."""
        self._measured, self._streams, self._seed = days, streams, seed
        self._changes = np.append(days.changes, 0.0)  # the last one: at the beginning of a day
        self._phones, self._day = phones, np.zeros(len(phones), dtype=np.int64)
        since = (now + ahead + SAMPLE * seeds.uniforms(seed, streams, count=1)[0] - CUT) % DAY
        self._origin = now - since  # beginning of each thing's day number 0
        cells = self._drawn(np.arange(len(phones)))
        self._start, self._stop = days.starts[cells], days.starts[cells + 1]
        # Changes ascend within a day; with the number of the day in front they ascend over all days
        keys = np.repeat(np.arange(len(days.first)), np.diff(days.starts)) * DAY + days.changes
        past = np.searchsorted(keys, cells * DAY + since, side="right")
        self._turn = past - 1  # of the last change
        online = days.first[cells] ^ ((past - self._start) % 2 == 1)
        self._still = _still(days)[phones]
        super().__init__(now, ~online, DAY / 2)

    def _after(self, who: Ints, times: Floats) -> Floats:
        """Go on to the next change of these things, over as many days as that takes."""
        self._turn[who] += 1
        waiting = who[(self._turn[who] >= self._stop[who]) & ~self._still[who]]
        while len(waiting):
            self._day[waiting] += 1
            cells = self._drawn(waiting)
            start, stop = self._measured.starts[cells], self._measured.starts[cells + 1]
            changes = self._measured.first[cells] == self._turned[waiting]  # between the two days
            self._start[waiting], self._stop[waiting], self._turn[waiting] = start, stop, start - changes
            waiting = waiting[~changes & (start == stop)]
        place = np.where(self._turn[who] < self._start[who], len(self._changes) - 1, self._turn[who])
        since = self._changes[np.minimum(place, len(self._changes) - 1)]
        return np.where(self._still[who], math.inf, self._origin[who] + self._day[who] * DAY + since)

    def _drawn(self, who: Ints) -> Ints:
        """Return the measured days that these things' present days are."""
        spins = seeds.uniforms(self._seed, self._streams[who], self._day[who], count=1)[0]
        cells: Ints = DAYS * self._phones[who] + (DAYS * spins).astype(np.int64)
        return cells


def _still(days: Days) -> Bools:
    """Return whether a phone's days never change, nor differ (phones,)."""
    quiet = np.diff(days.starts).reshape(-1, DAYS) == 0
    alike = days.first.reshape(-1, DAYS) == days.first[::DAYS, np.newaxis]
    return (quiet & alike).all(axis=1)  # type: ignore[no-any-return]
