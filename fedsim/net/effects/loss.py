"""Loss: packets are lost independently of each other."""

from dataclasses import dataclass

import numpy as np

from fedsim.core.units import FractionBelowOne
from fedsim.net.effect import Effect
from fedsim.net.transfer import Transfer


@dataclass(frozen=True)
class Loss(Effect):
    """Every packet is lost with probability `rate`, or `up` towards the server and `down` towards the client.

    Not modelled: losses in bursts, and losses caused by a full queue.
    """

    rate: FractionBelowOne = 0.0  # in both directions
    up: FractionBelowOne | None = None  # towards the server, instead of `rate`
    down: FractionBelowOne | None = None  # towards the client, instead of `rate`

    def shape(self, transfer: Transfer, rng: np.random.Generator) -> None:
        """Combine these losses with those of other effects, as independent events."""
        up = self.rate if self.up is None else self.up
        down = self.rate if self.down is None else self.down
        transfer.loss_up = 1 - (1 - transfer.loss_up) * (1 - up)
        transfer.loss_down = 1 - (1 - transfer.loss_down) * (1 - down)
