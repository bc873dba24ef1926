"""One period: every client holds its whole graph from the start."""

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fedsim.core.seeds import Rng
from fedsim.data.graph import Graph, Period
from fedsim.data.graphs.split import SplitOptions, held_out, pooled, split_all
from fedsim.data.stream import Stream
from fedsim.data.time.arrivals import at_times


@dataclass(frozen=True)
class Static(Stream):
    """All data are there from second 0."""

    numbered: bool = False  # nodes keep their numbers in the whole graph, so that cut edges can be identified

    def prepare(self, graphs: Sequence[Graph], split: SplitOptions, rng: Rng) -> list[list[Period]]:
        """Return one period a client: its whole graph, split."""
        return [[Period(0, graph)] for graph in split_all(graphs, split, rng)]

    def held_out(self, snapshots: Sequence[Graph], owners: Sequence[np.ndarray]) -> list[Graph]:
        """Return the one graph of the nodes that nobody owns."""
        return held_out(snapshots, owners)

    def pooled(self, graph: Graph, owned: Sequence[np.ndarray], periods: Sequence[Sequence[Period]]) -> list[Graph]:
        """Return the one graph of all clients' test nodes."""
        return [pooled(graph, owned, [own[0].graph for own in periods])]

    def run(self, world: Any, periods: Sequence[Sequence[Period]]) -> Generator[Any, Any, None]:
        """Deliver the one period."""
        return at_times(world, periods, [np.zeros(len(own)) for own in periods])
