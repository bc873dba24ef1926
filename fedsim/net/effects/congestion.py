"""Congestion: background traffic takes a share of a link that clients share."""

from dataclasses import dataclass

import numpy as np
import simpy

from fedsim.core.units import Duration, FractionBelowOne
from fedsim.net.disturbance import Throttle, on_off, throttle
from fedsim.net.effect import Drive, Effect, Network


@dataclass(frozen=True)
class Congestion(Effect):
    """Background traffic takes the share `load` of a shared link, all the time or intermittently.

    What is left for the clients is capacity (1 - load); several effects on one link multiply.  With `on` and
    `off` the traffic comes and goes, for exponential times of these means, starting in the stationary state,
    so that the mean load is load x on / (on + off).  The traffic is not elastic: it yields to no flow.  The
    link must have a rate, and the model must not be naive, under which no link is shared.  Not modelled:
    background flows that share the link fairly, the queue that they build up, load that depends on the hour.
    """

    load: FractionBelowOne  # share of the capacity that is taken, below 1
    link: str = "ingress"  # "ingress", "egress" or another shared link of the topology
    on: Duration | None = None  # mean time with the traffic
    off: Duration | None = None  # mean time without it

    def __post_init__(self) -> None:
        """Raise ValueError if only one of the two times is given."""
        if (self.on is None) != (self.off is None):
            raise ValueError(
                "congestion: options 'on' and 'off' belong together; give both, or neither for steady load"
            )

    def drive(self, env: simpy.Environment, network: Network, rng: np.random.Generator) -> Drive | None:
        """Return the process that changes the link; UserError if it does not exist or is unlimited."""
        return self._load(env, throttle(network, self.link, "congestion"), rng)

    def _load(self, env: simpy.Environment, hold: Throttle, rng: np.random.Generator) -> Drive:
        if self.on and self.off:
            yield from on_off(env, 1, self.off, self.on, rng, lambda _, busy: hold.leave(1 - self.load * busy))
        else:
            hold.leave(1 - self.load)
