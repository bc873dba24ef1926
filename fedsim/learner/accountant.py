"""Account for all Gaussian releases of a run: one client's epsilon at a delta, by Opacus's Renyi accountant.

Two data sets are neighbours if they differ in one client.  Opacus's divergence of a release with Poisson subsampling is
summed over releases at every order (Mironov et al., 2019) and converted into epsilon (Balle et al., 2020): an upper
bound, a few percent above the optimum.

If a round's clients are drawn uniformly from the free ones, their share is taken as the rate of Poisson subsampling.
That is the usual approximation: cohorts have a fixed size here, for which the bound is not proven.
Otherwise sampling is not credited, and each client's loss is that of the releases it took part in: the largest over all
clients is reported.

Not modelled: delta by client, and the loss from revealing who took part, or from choosing options on the same data.
"""

import math
import warnings
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from opacus.accountants.analysis import rdp

from fedsim.core.arrays import Floats

ORDERS = [1.01, 1.02, 1.05, *(1 + tenth / 10 for tenth in range(1, 100)), *range(12, 64), 80, 96, 128, 192, 256, 512]


class Accountant:
    """Add up releases with one noise multiplier: the noise's deviation over the most that a client can change a sum."""

    def __init__(self, noise: float, delta: float) -> None:
        """Start without any release."""
        self._noise, self._delta = noise, delta
        self._sampled = np.zeros(len(ORDERS))
        self._shares: Counter[int] = Counter()  # by client, the sum over releases of its squared multiplicity

    def sampled(self, rate: float) -> None:
        """Count a release whose clients were sampled at this rate, in (0, 1]."""
        self._sampled = self._sampled + renyi(rate, self._noise)

    def unsampled(self, clients: Sequence[int]) -> None:
        """Count a release of these clients' uploads without credit for sampling; a client may be listed twice."""
        for client, times in Counter(clients).items():
            self._shares[client] += times**2

    def notes(self) -> list[Any]:
        """Return the counts, for a checkpoint."""
        return [self._sampled, dict(self._shares)]

    def reopen(self, notes: Sequence[Any]) -> None:
        """Continue from a checkpoint."""
        self._sampled, shares = notes
        self._shares = Counter(shares)

    def epsilon(self) -> float:
        """Return epsilon of all releases; infinite without noise, 0 before the first."""
        most = max(self._shares.values(), default=0)
        if not most and not self._sampled.any():
            return 0.0
        if self._noise == 0:
            return math.inf
        spent = self._sampled + most * renyi(1.0, self._noise)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a best order at the end of the range is still a valid bound
            found, _ = rdp.get_privacy_spent(orders=ORDERS, rdp=spent, delta=self._delta)
        return max(0.0, float(found))


@lru_cache(maxsize=256)  # takes a second; there are few different rates
def renyi(rate: float, noise: float) -> Floats:
    """Return the Renyi divergence of one release at every order of `ORDERS`; infinite without noise."""
    if noise == 0:
        return np.full(len(ORDERS), math.inf)
    return np.asarray(rdp.compute_rdp(q=rate, noise_multiplier=noise, steps=1, orders=ORDERS))
