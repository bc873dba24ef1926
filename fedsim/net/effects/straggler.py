"""Straggler: some clients are slow, permanently or for a while."""

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import simpy

from fedsim.core.units import Fraction, Seconds
from fedsim.net.effect import Drive, Effect, Network
from fedsim.net.turns import turns


@dataclass(frozen=True)
class Straggler(Effect):
    """A random share of the clients computes `factor` times longer permanently, and any other client temporarily.

    The others alternate between slow and normal independently, for exponential times of mean `length` and `every`,
    starting in the stationary state; without these two they are never slow.  With `links` the rates of a slow client
    are divided by `factor` as well.  A change of pace takes effect at once, also for a job in progress.  Not modelled:
    factors that differ from client to client, clients that slow down together.
    """

    drives: ClassVar[bool] = True

    factor: float  # how many times longer
    share: Fraction = 0.0  # of the clients, rounded, that are slow permanently
    every: Seconds | None = None  # mean time between slow phases of each other client
    length: Seconds | None = None  # mean length of a slow phase
    links: bool = False  # a slow client's rates are divided by factor too

    def __post_init__(self) -> None:
        """Raise ValueError for a factor below 1, times that are not above 0, or if no client would ever be slow."""
        if not (math.isfinite(self.factor) and self.factor >= 1):
            raise ValueError(f"straggler: option 'factor' is {self.factor}; it must be finite and at least 1")
        if not 0 <= self.share <= 1:
            raise ValueError(f"straggler: option 'share' is {self.share}; it must lie between 0 and 1")
        if (self.every is None) != (self.length is None):
            raise ValueError("straggler: options 'every' and 'length' belong together; give both or neither")
        for name, value in (("every", self.every), ("length", self.length)):
            if value is not None and not (math.isfinite(value) and value > 0):
                raise ValueError(f"straggler: option '{name}' is {value} s; it must be finite and above 0")
        if self.share == 0 and self.every is None:
            raise ValueError("straggler: no client would be slow; give a 'share' above 0, or 'every' and 'length'")

    def drive(self, env: simpy.Environment, network: Network, rng: np.random.Generator) -> Drive | None:
        """Return the process that slows clients down."""
        return self._slow(env, network, rng)

    def _slow(self, env: simpy.Environment, network: Network, rng: np.random.Generator) -> Drive:
        nodes = network.nodes
        drawn = rng.permutation(len(nodes))
        always = round(self.share * len(nodes))
        others = np.sort(drawn[always:]).tolist()

        def pace(client: int, slow: bool) -> None:
            factor = self.factor if slow else 1.0
            nodes.slow(client, self, factor)
            if self.links:
                nodes.scale(client, self, 1 / factor, 1 / factor)

        for client in np.sort(drawn[:always]).tolist():
            pace(client, True)
        if self.every and self.length:
            yield from turns(
                env, len(others), self.every, self.length, rng, lambda place, slow: pace(others[place], slow)
            )
