"""Stream: what reaches a client, and in which period; a process beside the protocol hands each out in its time.

An implementation is a frozen dataclass of options, one file in `streams/`.  It cuts every client's graph into periods
before the run.  When they arrive is for `arrivals.py` to say.  It models data that arise at the clients, without a
message: no client fetches its data over the network, and no arrival waits for one.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Sequence
from typing import Any, Protocol

import numpy as np

from fedsim.data.graph import Graph, Period
from fedsim.data.split import SplitOptions, classes_of


class Server(Protocol):
    """What a stream needs of the server's host: its version and the event that fires after its next update."""

    @property
    def version(self) -> int:
        """How many updates there have been."""

    @property
    def updated(self) -> Any:
        """The event of the next one."""


class World(Protocol):
    """What a stream needs of a world: the clock `env`, the server, named random streams, and a way to the clients."""

    @property
    def env(self) -> Any:
        """The clock."""

    @property
    def server(self) -> Server:
        """The server's host."""

    @property
    def rng(self) -> Callable[[str], np.random.Generator]:
        """The random stream of a name."""

    def deliver(self, client: int, period: Period) -> None:
        """Let a period reach a client now: its next jobs see that graph."""


class Stream(ABC):
    """A rule that cuts clients' graphs into periods and delivers them.

    `numbered`: without snapshots, whether vertices keep their numbers in the whole graph (`vertex`), ascending at each
    client; then there is an `Overview` of it, as of a graph of one snapshot.
    """

    numbered: bool = False

    @abstractmethod
    def prepare(
        self, graphs: Sequence[Graph], split: SplitOptions, rng: Callable[[str], np.random.Generator]
    ) -> list[list[Period]]:
        """Return each client's periods, numbered from 0 in the order in which they arrive, with their masks.

        `graphs` are the clients' whole graphs; `rng` gives the random stream of a name.  Whoever does not divide them
        with `split_all` has to heed `split.labels` too.  Every client has the same number of periods.
        Raises ScenarioError if the graphs cannot be cut so.
        """

    def snapshots(self, graph: Graph) -> Sequence[Graph] | None:
        """Return the whole graph at one time after another, or None if the stream takes no account of time.

        Raises ScenarioError if the graph cannot be cut so.
        """
        return None

    def prepare_snapshots(
        self,
        snapshots: Sequence[Graph],
        owned: Sequence[Sequence[np.ndarray]],
        split: SplitOptions,
        rng: Callable[[str], np.random.Generator],
    ) -> list[list[Period]]:
        """Return each client's periods, where there are snapshots: `owned` holds its vertices in each of them.

        Called in place of `prepare`, and under the same rules.
        """
        raise TypeError(f"{type(self).__name__} has snapshots, but no way to make periods of them")

    def held_out(self, snapshots: Sequence[Graph], owners: Sequence[np.ndarray]) -> Sequence[Graph] | None:
        """Return for each period the graph of the vertices that nobody owns, on which models are tested.

        `snapshots` are of the whole graph, which is the only one where the stream takes no account of time; `owners`
        (N,) tell who owns what in each.  None if the stream has no such test.
        """
        return None

    def pooled(
        self, graph: Graph, owned: Sequence[np.ndarray], periods: Sequence[Sequence[Period]]
    ) -> Sequence[Graph] | None:
        """Return for each period the graph of all clients' test vertices, the edges between clients among them.

        `owned` are each client's vertices of the whole graph, in its own order.  None if the stream has no such
        test.
        """
        return None

    @abstractmethod
    def run(self, world: World, periods: Sequence[Sequence[Period]]) -> Generator[Any, Any, None]:
        """Return the process that delivers the periods, to be started before any that looks at a client's data.

        It ends after the last period.  Raises ScenarioError, at once, if the periods cannot arrive so.
        """

    def heads(self, graphs: Sequence[Graph]) -> int:
        """Return how many classes the model's head needs: every class of the graphs, unless some are dropped."""
        return classes_of(graphs)
