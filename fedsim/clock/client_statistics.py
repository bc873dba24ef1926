"""What the server has observed of each client so far, for samplers that choose by it.

It holds what a real server would: how often a client was asked, how long its replies took from the ask to the last byte
(by the simulated clock), and the loss that came with an upload.  A loss is read when its upload is folded; what arrives
too late to be folded shows its time alone.  Not modelled: clients that report a false loss.
"""

import math
from dataclasses import dataclass, field

import numpy as np

from fedsim.core.arrays import Floats


@dataclass
class ClientStatistics:
    """Arrays (K,) of `clients` entries, NaN where nothing was observed.

    `asked`: asks so far; `replies`: replies so far; `total`: seconds of all replies; `seconds`: those of the last one;
    `losses`: the last loss; `cohorts`: the number of cohorts drawn when the client was last heard from.  `gains` is the
    sum over replies of training nodes times loss, by the number of cohorts drawn.
    """

    clients: int
    gains: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Start without observations."""
        self.asked, self.replies, self.cohorts = (np.zeros(self.clients, dtype=np.int64) for _ in range(3))
        self.total = np.zeros(self.clients)
        self.seconds, self.losses = np.full(self.clients, math.nan), np.full(self.clients, math.nan)

    def replied(self, client: int, seconds: float, cohorts: int) -> None:
        """Note a reply, late or not, and how long it took."""
        self.replies[client] += 1
        self.total[client] += seconds
        self.seconds[client], self.cohorts[client] = seconds, cohorts

    def reported(self, client: int, loss: float, training_nodes: int, cohorts: int) -> None:
        """Note the loss of a reply that is folded; one that is not finite says nothing."""
        if not math.isfinite(loss):
            return
        self.losses[client], self.cohorts[client] = loss, cohorts
        self.gains.extend([0.0] * (cohorts + 1 - len(self.gains)))
        self.gains[cohorts] += training_nodes * loss

    def mean_seconds(self) -> Floats:
        """Return the mean seconds (K,) of a client's replies, NaN without any."""
        return np.where(self.replies > 0, self.total / np.maximum(self.replies, 1), math.nan)
