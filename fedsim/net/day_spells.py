"""Day spells: absences as on measured days, each thing's days drawn among those of one phone, looked up, not run.

A thing is a phone with a stream of its own: each of its days, from one `CUT` to the next by its own clock, is drawn
independently among the three measured days of that phone, and a stretch goes on from one day into the next if it is
online on either side.  Draws depend on the stream's number and the number of the day only.  What is measured every half
hour has begun up to half an hour earlier: each stream is moved back by such a time of its own, so that clients
do not come and go all at the same moment.  Not modelled: days of the week, habits that change.
"""

import math

import numpy as np

from fedsim.core import seeds
from fedsim.net.absences import Absences, Flags, Floats, Numbers
from fedsim.net.inputs.days import CUT, DAY, DAYS, SAMPLE, Days


class DaySpells(Absences):
    """Things that are absent unless their `phones` (count,) are available.

    `ahead` (count,) is the time of day at simulated time 0, in seconds.  Things of equal phone, stream and `ahead` are
    absent at the same times.
    """

    def __init__(self, now: float, days: Days, phones: Numbers, streams: Numbers, ahead: Floats, seed: int) -> None:
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

    def _after(self, who: Numbers, times: Floats) -> Floats:
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

    def _drawn(self, who: Numbers) -> Numbers:
        """Return the measured days that these things' present days are."""
        spins = seeds.uniforms(self._seed, self._streams[who], self._day[who], count=1)[0]
        cells: Numbers = DAYS * self._phones[who] + (DAYS * spins).astype(np.int64)
        return cells


def _still(days: Days) -> Flags:
    """Return whether a phone's days never change, nor differ (phones,)."""
    quiet = np.diff(days.starts).reshape(-1, DAYS) == 0
    alike = days.first.reshape(-1, DAYS) == days.first[::DAYS, np.newaxis]
    found: Flags = (quiet & alike).all(axis=1)
    return found
