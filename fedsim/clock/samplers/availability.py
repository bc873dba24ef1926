"""Clients that have often, or seldom, been online so far are more likely to be asked.

`seldom` follows the idea of REFL's selection (Abdelmoniem et al., EuroSys 2023): rarely available clients are taken
while they are online.  REFL predicts each client's availability and takes the least available outright; here the
availability observed since the beginning sets a probability.
"""

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from fedsim.clock.sampler import Numbers, Rows, Sampler, draw
from fedsim.core import portable


@dataclass(frozen=True)
class Availability(Sampler):
    """Draws without replacement with a weight of share ** exponent (`often`) or 1 / share ** exponent (`seldom`)."""

    prefer: Literal["often", "seldom"] = "seldom"  # clients often online, or those seldom online
    exponent: float = 1.0  # 0: all are equally likely; larger values prefer more strongly

    def __post_init__(self) -> None:
        """Check the exponent's range."""
        if not 0 <= self.exponent < math.inf:
            raise ValueError("exponent: must be finite and not negative (1 weighs by the share itself)")

    def choose(self, free: Numbers, count: int, rows: Rows, rng: np.random.Generator) -> Numbers:
        """Return the cohort."""
        sign = 1.0 if self.prefer == "often" else -1.0
        # a client online for the first time has a share of 0
        return draw(free, count, portable.power(rows.availability()[free], sign * self.exponent), rng)
