"""Spells: many things that alternate between inside and outside a spell, for exponential times, looked up, not run.

Each thing draws from its own stream (SplitMix64: Steele, Lea and Flood, OOPSLA 2014, from a state mixed from its
number), so its times depend on the key and its number only: not on how many others there are, nor on how often changes
are read.  Not modelled: times that are not exponential, means that differ between things.
"""

import numpy as np

from fedsim.core.seeds import GAMMA, mixed
from fedsim.net.absences import Absences, Floats, Numbers

GRAIN = 2.0**-32  # of a mean


class Spells(Absences):
    """`count` things that stay outside a spell for `between` seconds on average and inside for `spell`, both above 0.

    They start in the stationary state: each is in a spell with probability spell / (between + spell).
    """

    def __init__(self, now: float, count: int, between: float, spell: float, rng: np.random.Generator) -> None:
        """Draw the key from `rng`, and then the initial state of each thing."""
        self._means = np.array([between, spell])
        key = rng.integers(2**64, dtype=np.uint64)
        self._states = mixed(key + mixed(np.arange(1, count + 1, dtype=np.uint64) * GAMMA))
        inside = self._uniform(np.arange(count)) < spell / (between + spell)
        super().__init__(now, inside, (between + spell) / 2)

    def _after(self, who: Numbers, times: Floats) -> Floats:
        """Draw how long these things stay in their present state."""
        # Logarithms may differ in their last bits between hosts; rounding to a grain keeps that from the clock
        units = np.rint(-np.log(self._uniform(who)) / GRAIN) * GRAIN
        later: Floats = times + self._means[self._turned[who].astype(np.int64)] * units
        return later

    def _uniform(self, who: Numbers) -> Floats:
        """Draw a number from (0, 1) for each of these things, from its own stream."""
        self._states[who] += GAMMA
        bits = mixed(self._states[who]) >> np.uint64(11)
        return (bits.astype(np.float64) + 0.5) * 2.0**-53
