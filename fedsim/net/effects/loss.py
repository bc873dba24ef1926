"""Loss: packets are lost independently of each other."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fedsim.core.units import Fraction
from fedsim.net.effect import Effect
from fedsim.net.transfer import Transfer


@dataclass(frozen=True)
class Loss(Effect):
    """Every packet is lost with probability `rate`, or `up` towards the server and `down` towards the client.

    Not modelled: losses in bursts, and losses caused by a full queue.
    """

    shapes: ClassVar[bool] = True

    rate: Fraction = 0.0  # in both directions
    up: Fraction | None = None  # towards the server, instead of `rate`
    down: Fraction | None = None  # towards the client, instead of `rate`

    def __post_init__(self) -> None:
        """Raise ValueError for a rate outside [0, 1)."""
        for name, value in (("rate", self.rate), ("up", self.up), ("down", self.down)):
            if value is not None and not 0 <= value < 1:
                raise ValueError(f"loss: option '{name}' is {value}; it must be at least 0 and below 1")

    def shape(self, transfer: Transfer, rng: np.random.Generator) -> None:
        """Combine these losses with those of other effects, as independent events."""
        up = self.rate if self.up is None else self.up
        down = self.rate if self.down is None else self.down
        transfer.loss_up = 1 - (1 - transfer.loss_up) * (1 - up)
        transfer.loss_down = 1 - (1 - transfer.loss_down) * (1 - down)
