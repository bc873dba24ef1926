"""Spells: many things that are in a spell and out of it in turn, for exponential times, looked up instead of run.

What `turns` tells step by step is worked out here for all things at once, when somebody asks what has passed.  Each
thing draws from a stream of its own (SplitMix64: Steele, Lea and Flood, OOPSLA 2014, from the state that its number is
mixed to), so its times depend on the key and its number only: not on how many others there are, nor on how often
anybody asks.  Not modelled: times that are not exponential, means that differ from thing to thing.
"""

import numpy as np
import numpy.typing as npt

from fedsim.seeds import GAMMA, mixed

Floats = npt.NDArray[np.float64]
Numbers = npt.NDArray[np.int64]

LEAST = 64  # changes that are worked out at a time, on average, or else one for every `PART` things
PART = 8
GRAIN = 2.0**-32  # of a mean
Changes = tuple[Floats, Numbers, Numbers]  # in order: times, whose, +1 where a spell begins and -1 where one ends


class Spells:
    """`count` things from the time `now` on; `until` (count,) is when each changes next, after what has been asked for.

    `between` and `spell` are mean seconds, above 0.  All starts as in the long run: each is in a spell with probability
    spell / (between + spell), which `inside` (count,) tells.
    """

    def __init__(self, now: float, count: int, between: float, spell: float, rng: np.random.Generator) -> None:
        """Draw the key from `rng`, and then how each thing starts."""
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
        """The time of the next change of all that nobody has asked for."""
        return float(self._times[self._place])

    def passed(self, now: float) -> list[Changes]:
        """Return the changes up to this time that have not been returned before, in parts, one after another."""
        found = list[Changes]()
        while self._times[self._place] <= now:
            begin, end = self._place, int(self._times.searchsorted(now, "right"))
            part = begin + np.flatnonzero(self._steps[begin:end])
            found.append((self._times[part], self._who[part], self._steps[part]))
            self.until[self._who[part]] = self._then[part]  # of several changes of one thing the last stands
            self._place = end
            if end == len(self._times):
                self._fill()
        return found

    def passed_of(self, thing: int, now: float) -> int:
        """Return the step of this thing that is due just now, its first that has not been returned; else 0.

        `passed` leaves it out then.  It is 0 as well where nobody has asked `passed` for so long that it is not known.
        """
        here = self._times.searchsorted(now, "left")
        place = next((k for k in range(here, len(self._times)) if self._who[k] == thing or self._times[k] > now), None)
        if place is None or self._who[place] != thing or self._times[place] > now:
            return 0
        step, self._steps[place] = int(self._steps[place]), 0
        self.until[thing] = self._then[place]
        return step

    def _fill(self) -> None:
        """Work out the changes of a stretch of time, at least one; those before have all been returned."""
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
        """Draw how long those stay as they are now."""
        # Logarithms may differ in their last bits from host to host, and a grain keeps those from the clock
        units = np.rint(-np.log(self._uniform(who)) / GRAIN) * GRAIN
        return self._means[self._turned[who].astype(np.int64)] * units

    def _uniform(self, who: Numbers) -> Floats:
        """Draw a number from (0, 1) for each of those, from its own stream."""
        self._states[who] += GAMMA
        bits = mixed(self._states[who]) >> np.uint64(11)
        return (bits.astype(np.float64) + 0.5) * 2.0**-53


def order(values: Numbers) -> Numbers:
    """Return what orders whole numbers (n,) from 0, below 2 ** 62 / (2 n); equal ones stay in their order.

    A number with its place behind it is one number, and sorting numbers is several times faster than `argsort`.
    """
    bits = len(values).bit_length()
    places: Numbers = np.sort(values << bits | np.arange(len(values))) & ((1 << bits) - 1)
    return places


def _by_time(times: Floats) -> Numbers:
    """Return what orders the times (n,), n > 0; equal ones stay in their order, which is each thing's own."""
    start, length = times.min(), np.ptp(times)
    ticks = 2.0 ** (60 - len(times).bit_length())
    found = order(((times - start) * (ticks / length if length else 0.0)).astype(np.int64))
    ordered = times[found]
    if (ordered[1:] < ordered[:-1]).any():  # closer to one another than a tick
        found = np.argsort(times, kind="stable")
    return found
