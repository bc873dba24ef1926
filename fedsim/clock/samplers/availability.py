"""Clients that have often, or seldom, been online so far are more likely to be asked.

`seldom` follows the idea of REFL's selection (Abdelmoniem et al., EuroSys 2023): rarely available clients are taken
while they are online.  REFL predicts each client's availability and takes the least available outright; here the
availability observed since the beginning sets a probability.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from fedsim.clock.clients import Clients
from fedsim.clock.sampler import Sampler, draw
from fedsim.core import portable
from fedsim.core.arrays import Ints
from fedsim.core.units import NonNegative


@dataclass(frozen=True)
class Availability(Sampler):
    """Draws without replacement with a weight of share ** exponent (`often`) or 1 / share ** exponent (`seldom`)."""

    prefer: Literal["often", "seldom"] = "seldom"  # clients often online, or those seldom online
    exponent: NonNegative = 1.0  # 0: all are equally likely; larger values prefer more strongly

    def choose(self, free: Ints, count: int, columns: Clients, rng: np.random.Generator) -> Ints:
        """Return the cohort."""
        sign = 1.0 if self.prefer == "often" else -1.0
        # a client online for the first time has a share of 0
        return draw(free, count, portable.power(columns.availability()[free], sign * self.exponent), rng)
