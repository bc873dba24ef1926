"""Congestion: background traffic takes a share of a link that clients share."""

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import simpy

from fedsim.core.units import Fraction, Seconds
from fedsim.net.effect import Drive, Effect, Network
from fedsim.net.throttle import Throttle, throttle
from fedsim.net.turns import turns


@dataclass(frozen=True)
class Congestion(Effect):
    """Background traffic takes the share `load` of a shared link, all the time or intermittently.

    What is left for the clients is capacity (1 - load); several effects on one link multiply.  With `on` and `off` the
    traffic comes and goes, for exponential times of these means, starting in the stationary state, so that the mean
    load is load x on / (on + off).  The traffic is not elastic: it yields to no flow.  The link must have a rate, and
    the model must not be naive, under which no link is shared.  Not modelled: background flows that share the link
    fairly, the queue that they build up, load that depends on the hour.
    """

    drives: ClassVar[bool] = True

    load: Fraction  # share of the capacity that is taken, below 1
    link: str = "ingress"  # "ingress", "egress" or another shared link of the topology
    on: Seconds | None = None  # mean time with the traffic
    off: Seconds | None = None  # mean time without it

    def __post_init__(self) -> None:
        """Raise ValueError for a load outside [0, 1), and for times that are not above 0 or of which one is missing."""
        if not 0 <= self.load < 1:
            raise ValueError(f"congestion: option 'load' is {self.load}; it must be at least 0 and below 1")
        if (self.on is None) != (self.off is None):
            raise ValueError(
                "congestion: options 'on' and 'off' belong together; give both, or neither for steady load"
            )
        for name, value in (("on", self.on), ("off", self.off)):
            if value is not None and not (math.isfinite(value) and value > 0):
                raise ValueError(f"congestion: option '{name}' is {value} s; it must be finite and above 0")

    def drive(self, env: simpy.Environment, network: Network, rng: np.random.Generator) -> Drive | None:
        """Return the process that changes the link; UserError if it does not exist or is unlimited."""
        return self._load(env, throttle(network, self.link, "congestion"), rng)

    def _load(self, env: simpy.Environment, hold: Throttle, rng: np.random.Generator) -> Drive:
        if self.on and self.off:
            yield from turns(env, 1, self.off, self.on, rng, lambda _, busy: hold.leave(1 - self.load if busy else 1.0))
        else:
            hold.leave(1 - self.load)
