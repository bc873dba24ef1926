"""Straggler: some clients are slow, permanently or for a while."""

from dataclasses import dataclass
from typing import Annotated

import numpy as np
import simpy
from pydantic import Field

from fedsim.core.units import Duration, Fraction
from fedsim.net.disturbance import on_off
from fedsim.net.effect import Drive, Effect, Network


@dataclass(frozen=True)
class Straggler(Effect):
    """A random share of the clients computes `factor` times longer permanently, and any other client temporarily.

    The others alternate between slow and normal independently, for exponential times of mean `length` and
    `every`, starting in the stationary state; without these two they are never slow.  With `links` the rates
    of a slow client are divided by `factor` as well.  A change of pace takes effect at once, also for a job
    in progress.  Not modelled: factors that differ from client to client, clients that slow down together.
    """

    factor: Annotated[float, Field(ge=1, allow_inf_nan=False)]  # how many times longer
    share: Fraction = 0.0  # of the clients, rounded, that are slow permanently
    every: Duration | None = None  # mean time between slow phases of each other client
    length: Duration | None = None  # mean length of a slow phase
    links: bool = False  # a slow client's rates are divided by factor too

    def __post_init__(self) -> None:
        """Raise ValueError if one of the two times is missing, or if no client would ever be slow."""
        if (self.every is None) != (self.length is None):
            raise ValueError("straggler: options 'every' and 'length' belong together; give both or neither")
        if self.share == 0 and self.every is None:
            raise ValueError("straggler: no client would be slow; give a 'share' above 0, or 'every' and 'length'")

    def drive(self, env: simpy.Environment, network: Network, rng: np.random.Generator) -> Drive:
        """Slow clients down."""
        nodes = network.nodes
        drawn = rng.permutation(len(nodes))
        always = round(self.share * len(nodes))
        others = np.sort(drawn[always:]).tolist()

        def pace(client: int, slow: bool) -> None:
            factor = self.factor if slow else 1.0
            nodes.slow(client, self, factor)
            if self.links:
                nodes.scale(client, self, uplink=1 / factor, downlink=1 / factor)

        for client in np.sort(drawn[:always]).tolist():
            pace(client, True)
        if self.every and self.length:
            yield from on_off(
                env, len(others), self.every, self.length, rng, lambda place, slow: pace(others[place], slow)
            )
