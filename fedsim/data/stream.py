"""Stream: the data that reach a client in each period, delivered by a process beside the protocol.

An implementation is a frozen dataclass of options, one file in `streams/`.  It cuts every client's graph into
periods before the run.  `arrivals.py` decides when they arrive.  Data arise at the clients: no client fetches
them over the network, and no arrival waits for a message.
"""

from abc import ABC, abstractmethod
from collections.abc import Generator, Sequence
from typing import Any

import numpy as np

from fedsim.core.seeds import Rng
from fedsim.data.graph import Graph, Period, classes_of
from fedsim.data.graphs.split import SplitOptions


class Stream(ABC):
    """A rule that cuts clients' graphs into periods and delivers them.

    `numbered`: without snapshots, whether nodes keep their numbers in the whole graph (`node`), ascending at
    each client; then there is an `Overview` of it, as of a graph of one snapshot.  `compared`: how many
    clients' partition divides the pairs that everybody is asked; None for the run's own.
    """

    numbered: bool = False
    compared: int | None = None

    @property
    def events(self) -> bool:
        """Whether graphs hold events, and later ones pairs that are asked at a second (time/event_pairs.py)."""
        return False

    @property
    def divides(self) -> bool:
        """Whether it divides the nodes themselves into those that train, validate and test."""
        return True

    @abstractmethod
    def prepare(self, graphs: Sequence[Graph], split: SplitOptions, rng: Rng) -> list[list[Period]]:
        """Return each client's periods, numbered from 0 in the order in which they arrive, with their masks.

        `graphs` are the clients' whole graphs; `rng` gives the random stream of a name.  A stream that does
        not divide them with `split_all` must apply `split.labels` itself.  Every client has the same number
        of periods.  Raises ScenarioError if the graphs cannot be divided this way.
        """

    def snapshots(self, graph: Graph) -> Sequence[Graph] | None:
        """Return the snapshots of the whole graph, or None if the stream ignores time.

        Raises ScenarioError if the graph cannot be cut this way.
        """
        return None

    def prepare_snapshots(
        self, snapshots: Sequence[Graph], owned: Sequence[Sequence[np.ndarray]], split: SplitOptions, rng: Rng
    ) -> list[list[Period]]:
        """Return each client's periods, where there are snapshots: `owned` holds its nodes in each of them.

        Called in place of `prepare`, and under the same rules.
        """
        raise TypeError(f"{type(self).__name__} has snapshots; it must implement prepare_snapshots")

    def held_out(self, snapshots: Sequence[Graph], owners: Sequence[np.ndarray]) -> Sequence[Graph] | None:
        """Return for each period the graph of unowned nodes, on which models are tested.

        `snapshots` are of the whole graph, a single one if the stream ignores time; `owners` (N,) give each
        node's owner in each snapshot.  None if the stream has no such test.
        """
        return None

    def pooled(
        self, graph: Graph, owned: Sequence[np.ndarray], periods: Sequence[Sequence[Period]]
    ) -> Sequence[Graph] | None:
        """Return for each period the graph of all clients' test nodes, the edges between clients among them.

        `owned` are each client's nodes of the whole graph, in its own order.  None if the stream has no such
        test.
        """
        return None

    @abstractmethod
    def run(self, world: Any, periods: Sequence[Sequence[Period]]) -> Generator[Any, Any, None]:
        """Return the process that delivers the periods; it starts before any that looks at a client's data.

        `world` has the clock `env`, the number of updates so far, `server.version`, the event of the next
        update, `server.updated`, the random stream of a name, `rng(name)`, and `deliver(client, period)`,
        after which a client's next jobs use that period's graph.  It ends after the last period.  Raises
        ScenarioError, immediately, if the periods cannot arrive this way.
        """

    def heads(self, graphs: Sequence[Graph]) -> int:
        """Return the number of classes of the model's head: all of the graphs, unless some are dropped."""
        return classes_of(graphs)
