"""Jitter: packets are delayed by varying times."""

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fedsim.core.units import Seconds
from fedsim.net.effect import Effect
from fedsim.net.transfer import Transfer


@dataclass(frozen=True)
class Jitter(Effect):
    """Each packet is delayed by a time uniform in [0, `most`], in each direction; packets keep their order.

    A transfer is delayed by the mean, which is `most` per round trip.  Not modelled: delays in bursts, and the
    reordering of packets.
    """

    shapes: ClassVar[bool] = True

    most: Seconds  # longest extra delay of a packet

    def __post_init__(self) -> None:
        """Raise ValueError for a delay that is negative or not finite."""
        if not (math.isfinite(self.most) and self.most >= 0):
            raise ValueError(f"jitter: option 'most' is {self.most} s; it must be finite and not negative")

    def shape(self, transfer: Transfer, rng: np.random.Generator) -> None:
        """Add the delay to the transfer's round trip."""
        transfer.jitter += self.most
