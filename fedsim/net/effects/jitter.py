"""Jitter: packets are delayed by varying times."""

from dataclasses import dataclass

import numpy as np

from fedsim.core.units import Seconds
from fedsim.net.effect import Effect
from fedsim.net.transfer import Transfer


@dataclass(frozen=True)
class Jitter(Effect):
    """Each packet is delayed by a time uniform in [0, `most`], in each direction; packets keep their order.

    A transfer is delayed by the mean, which is `most` per round trip.  Not modelled: delays in bursts, and
    the reordering of packets.
    """

    most: Seconds  # longest extra delay of a packet

    def shape(self, transfer: Transfer, rng: np.random.Generator) -> None:
        """Add the delay to the transfer's round trip."""
        transfer.jitter += self.most
