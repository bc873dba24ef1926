"""Absences: when many things change between inside and outside a spell, worked out for all at once and read in parts.

What `turns` does step by step is worked out here for all things at once, when the changes so far are read.  When a
thing changes next is for a subclass to say (`Spells`: after exponential times; `DaySpells`: as on measured days).
"""

import math
from abc import ABC, abstractmethod

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Numbers = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

LEAST = 64  # changes worked out at a time on average, or one per `PART` things if more
PART = 8
Changes = tuple[Floats, Numbers, Numbers]  # in order: times, things, +1 if a spell begins and -1 if one ends


class Absences(ABC):
    """Things from the time `now` on; `until` (count,) is when each changes next, after the changes returned.

    `inside` (count,) is whether each is in a spell at first; infinity stands for never.
    """

    def __init__(self, now: float, inside: Flags, mean: float) -> None:
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
    def _after(self, who: Numbers, times: Floats) -> Floats:
        """Return when these things change next, having changed at these times; `_turned` is their state since.

        Called for each thing's changes in order, and first with the time at which the absences begin.
        """

    @property
    def next(self) -> float:
        """The time of the next change that has not been returned."""
        return float(self._times[self._place])

    def passed(self, now: float) -> list[Changes]:
        """Return the changes up to this time that have not been returned before, in consecutive parts."""
        found = list[Changes]()
        while self._times[self._place] <= now:
            begin, end = self._place, int(self._times.searchsorted(now, "right"))
            part = begin + np.flatnonzero(self._steps[begin:end])
            found.append((self._times[part], self._who[part], self._steps[part]))
            self.until[self._who[part]] = self._then[part]  # of several changes of one thing the last one holds
            self._place = end
            if end == len(self._times):
                self._fill()
        return found

    def passed_of(self, thing: int, now: float) -> int:
        """Return the step of this thing that is due right now, if it is its first not yet returned; else 0.

        `passed` then leaves it out.  It is also 0 if `passed` was last called so long ago that the step is not known.
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


def order(values: Numbers) -> Numbers:
    """Return the stable sorting permutation of whole numbers (n,), at least 0 and below 2 ** 62 / (2 n).

    Number and index are packed into one integer, and sorting integers is several times faster than `argsort`.
    """
    bits = len(values).bit_length()
    places: Numbers = np.sort(values << bits | np.arange(len(values))) & ((1 << bits) - 1)
    return places


def _by_time(times: Floats) -> Numbers:
    """Return the stable sorting permutation of the times (n,), n > 0; equal times stay in each thing's order."""
    start, length = times.min(), np.ptp(times)
    ticks = 2.0 ** (60 - len(times).bit_length())
    found = order(((times - start) * (ticks / length if length else 0.0)).astype(np.int64))
    ordered = times[found]
    if (ordered[1:] < ordered[:-1]).any():  # closer to one another than a tick
        found = np.argsort(times, kind="stable")
    return found
