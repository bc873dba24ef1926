"""Spells: many things that alternate between inside and outside a spell, for exponential times, looked up, not run.

What `turns` does step by step is worked out here for all things at once, when the changes so far are read.  Each thing
draws from its own stream (SplitMix64: Steele, Lea and Flood, OOPSLA 2014, from a state mixed from its number), so its
times depend on the key and its number only: not on how many others there are, nor on how often changes are read.  Not
modelled: times that are not exponential, means that differ between things.
"""

import numpy as np
import numpy.typing as npt

from fedsim.core.seeds import GAMMA, mixed

Floats = npt.NDArray[np.float64]
Numbers = npt.NDArray[np.int64]

LEAST = 64  # changes worked out at a time on average, or one per `PART` things if more
PART = 8
GRAIN = 2.0**-32  # of a mean
Changes = tuple[Floats, Numbers, Numbers]  # in order: times, things, +1 if a spell begins and -1 if one ends


class Spells:
    """`count` things from the time `now` on; `until` (count,) is when each changes next, after the changes returned.

    `between` and `spell` are mean seconds, above 0.  Things start in the stationary state: each is in a spell with
    probability spell / (between + spell); `inside` (count,) is whether it is.
    """

    def __init__(self, now: float, count: int, between: float, spell: float, rng: np.random.Generator) -> None:
        """Draw the key from `rng`, and then the initial state of each thing."""
        self._means = np.array([between, spell])
        key = rng.integers(2**64, dtype=np.uint64)
        self._states = mixed(key + mixed(np.arange(1, count + 1, dtype=np.uint64) * GAMMA))
        everybody = np.arange(count)
        self.inside = self._uniform(everybody) < spell / (between + spell)
        self._turned = self.inside.copy()  # as `inside`, at the horizon
        self._ends = now + self._lengths(everybody)  # the first change of each from the horizon on
        self.until = self._ends.copy()
        self._width = (between + spell) / 2 * max(1 / PART, LEAST / count)
        self._horizon = now
        self._place = 0
        self._fill()

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
        self._horizon = max(self._horizon, float(self._ends.min())) + self._width
        times, who, steps, then = [], [], [], []
        due = np.flatnonzero(self._ends < self._horizon)
        while len(due):
            self._turned[due] ^= True
            times.append(self._ends[due])
            who.append(due)
            steps.append(2 * self._turned[due].astype(np.int64) - 1)
            self._ends[due] += self._lengths(due)
            then.append(self._ends[due])
            due = due[then[-1] < self._horizon]
        joined = np.concatenate(times)
        placed = _by_time(joined)
        self._times, self._who = joined[placed], np.concatenate(who)[placed]
        self._steps, self._then = np.concatenate(steps)[placed], np.concatenate(then)[placed]
        self._place = 0

    def _lengths(self, who: Numbers) -> Floats:
        """Draw how long these things stay in their present state."""
        # Logarithms may differ in their last bits between hosts; rounding to a grain keeps that from the clock
        units = np.rint(-np.log(self._uniform(who)) / GRAIN) * GRAIN
        return self._means[self._turned[who].astype(np.int64)] * units

    def _uniform(self, who: Numbers) -> Floats:
        """Draw a number from (0, 1) for each of these things, from its own stream."""
        self._states[who] += GAMMA
        bits = mixed(self._states[who]) >> np.uint64(11)
        return (bits.astype(np.float64) + 0.5) * 2.0**-53


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
