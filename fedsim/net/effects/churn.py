"""Churn: clients go offline and come back."""

import math
from dataclasses import dataclass
from heapq import heapify, heapreplace

import numpy as np
import simpy

from fedsim.net.effect import Drive, Effect, Network
from fedsim.net.node import Nodes
from fedsim.units import Seconds


@dataclass(frozen=True)
class Churn(Effect):
    """Each client by itself is online and offline in turn, for exponential times with these means.

    The clients start as in the long run: each is online with probability online / (online + offline).  Not modelled:
    hours of the day, clients that fail together, clients that never come back.
    """

    online: Seconds  # mean time online
    offline: Seconds  # mean time offline; 0: nobody ever is

    def __post_init__(self) -> None:
        """Raise ValueError for means that are negative or not finite, or that leave all clients offline for ever."""
        if not (math.isfinite(self.online) and self.online > 0):
            raise ValueError(f"churn: option 'online' is {self.online} s; it must be finite and above 0")
        if not (math.isfinite(self.offline) and self.offline >= 0):
            raise ValueError(f"churn: option 'offline' is {self.offline} s; it must be finite and not negative")

    def drive(self, env: simpy.Environment, network: Network, rng: np.random.Generator) -> Drive | None:
        """Return the process that puts clients to sleep and wakes them."""
        nodes = network.nodes
        return self._turns(env, nodes, rng) if self.offline and len(nodes) else None

    def _turns(self, env: simpy.Environment, nodes: Nodes, rng: np.random.Generator) -> Drive:
        away = rng.random(len(nodes)) < self.offline / (self.online + self.offline)
        for sleeper in np.flatnonzero(away).tolist():
            nodes.sleep(sleeper, self)
        first = env.now + rng.exponential(np.where(away, self.offline, self.online))
        turns: list[tuple[float, int]] = [(time, client) for client, time in enumerate(first.tolist())]
        heapify(turns)
        while True:
            time, client = turns[0]
            yield env.timeout(max(0.0, time - env.now))
            away[client] = not away[client]
            (nodes.sleep if away[client] else nodes.wake)(client, self)
            heapreplace(turns, (time + rng.exponential(self.offline if away[client] else self.online), client))
