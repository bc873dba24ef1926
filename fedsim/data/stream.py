"""Stream: what reaches a client, in which period, and when.

An implementation is a frozen dataclass of options, one file in `streams/`.  It cuts every client's graph into periods
before the run, and then is a process beside the protocol that hands each out in its time.  It models data that
arrives at all clients at once, without a message: no client fetches its data over the network.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from fedsim.data.graph import Graph, Period
from fedsim.data.split import SplitOptions, classes_of
from fedsim.units import Updates


class Holder(Protocol):
    """What a stream needs of a client's host."""

    def arrive(self, period: Period) -> None:
        """Let the client's jobs see that period's graph from now on."""


class Server(Protocol):
    """What a stream needs of the server's host: its version and the event that fires after its next update."""

    version: int
    updated: Any


class World(Protocol):
    """What a stream needs of a world: the clock `env`, the clients by number, and the server."""

    env: Any

    @property
    def clients(self) -> Mapping[int, Holder]:
        """The clients' hosts by number."""

    @property
    def server(self) -> Server:
        """The server's host."""


class Stream(ABC):
    """A rule that cuts clients' graphs into periods and delivers them."""

    @abstractmethod
    def prepare(
        self, graphs: Sequence[Graph], split: SplitOptions, rng: Callable[[str], np.random.Generator]
    ) -> list[list[Period]]:
        """Return each client's periods, numbered from 0 in the order in which they arrive, with their masks.

        `graphs` are the clients' whole graphs; `rng` gives the random stream of a name.  Every client has the same
        number of periods.  Raises UserError where the graphs cannot be cut so.
        """

    @abstractmethod
    def run(self, world: World, periods: Sequence[Sequence[Period]]) -> Generator[Any, Any, None]:
        """Deliver the periods: a process, to be started before any that looks at a client's data."""

    def heads(self, graphs: Sequence[Graph]) -> int:
        """Return how many classes the model's head needs: every class of the graphs, unless some are dropped."""
        return classes_of(graphs)


def deliver(world: World, periods: Sequence[Sequence[Period]], every: Updates | float) -> Generator[Any, Any, None]:
    """Deliver every client's first period now, and the next ones each time so many updates or seconds have gone by."""
    for number in range(max(map(len, periods), default=0)):
        if number and isinstance(every, Updates):
            due = number * every.count
            while world.server.version < due:
                yield world.server.updated
        elif number:
            yield world.env.timeout(every)
        for client, own in enumerate(periods):
            if number < len(own):
                world.clients[client].arrive(own[number])
