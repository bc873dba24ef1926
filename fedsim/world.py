"""World: all that a protocol, a stream or an observer may touch, and nothing of torch."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import simpy

from fedsim import seeds
from fedsim.algorithm import Algorithm
from fedsim.hosts import ClientHost, ServerHost


class Streams:
    """One independent random stream a name, each continued from call to call."""

    def __init__(self, seed: int) -> None:
        """Draw everything from this seed."""
        self.seed = seed
        self._open: dict[str, np.random.Generator] = {}

    def __call__(self, name: str) -> np.random.Generator:
        """Return the stream of that name where it stands."""
        if name not in self._open:
            self._open[name] = seeds.generator(self.seed, name)
        return self._open[name]


@dataclass
class World:
    """The clock, the hosts, and named random streams."""

    env: simpy.Environment
    algorithm: Algorithm
    server: ServerHost
    clients: Mapping[int, ClientHost]
    rng: Streams
    online_now: np.ndarray = field(repr=False)  # (K,) bool, the network's own row

    def online(self) -> list[int]:
        """Return the clients online, in order."""
        return [int(client) for client in np.flatnonzero(self.online_now)]

    def available(self) -> list[int]:
        """Return the clients online that hold data and are not at work for an earlier ask."""
        busy, clients = self.server.busy, self.clients
        return [client for client in self.online() if client not in busy and clients[client].data is not None]

    def sample(self, count: int) -> list[int]:
        """Return `count` of the available clients, uniformly and in order; all of them if there are fewer."""
        free = self.available()
        if len(free) <= count:
            return free
        chosen = self.rng("participation").choice(len(free), size=count, replace=False)
        return [free[i] for i in sorted(chosen)]
