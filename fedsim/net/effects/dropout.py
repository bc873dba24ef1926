"""Dropout: clients leave in the middle of their work."""

import math
from dataclasses import dataclass

import numpy as np

from fedsim.core.units import Frequency
from fedsim.net.effect import Effect


@dataclass(frozen=True)
class Dropout(Effect):
    """A busy client leaves after an exponential time; `rate` is the mean number of departures per second of work.

    It stays online and may be asked again.  Not modelled: clients that drop out more often than others.
    """

    rate: Frequency  # mean number of departures per time of work; 0: none

    def stay(self, rng: np.random.Generator) -> float:
        """Draw the seconds of work after which the client leaves."""
        return float(rng.exponential(1 / self.rate)) if self.rate else math.inf
