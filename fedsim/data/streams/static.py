"""One period: every client holds its whole graph from the start."""

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fedsim.data.arrivals import at_times
from fedsim.data.graph import Graph, Period
from fedsim.data.held_out import held_out
from fedsim.data.pooled import pooled
from fedsim.data.split import SplitOptions, split_all
from fedsim.data.stream import Stream, World


@dataclass(frozen=True)
class Static(Stream):
    """All data are there from second 0."""

    numbered: bool = False  # vertices keep their numbers in the whole graph, so that cut edges can be identified

    def prepare(
        self, graphs: Sequence[Graph], split: SplitOptions, rng: Callable[[str], np.random.Generator]
    ) -> list[list[Period]]:
        """Return one period a client: its whole graph, split."""
        return [[Period(0, graph)] for graph in split_all(graphs, split, rng)]

    def held_out(self, snapshots: Sequence[Graph], owners: Sequence[np.ndarray]) -> list[Graph]:
        """Return the one graph of the vertices that nobody owns."""
        return held_out(snapshots, owners)

    def pooled(self, graph: Graph, owned: Sequence[np.ndarray], periods: Sequence[Sequence[Period]]) -> list[Graph]:
        """Return the one graph of all clients' test vertices."""
        return [pooled(graph, owned, [own[0].graph for own in periods])]

    def run(self, world: World, periods: Sequence[Sequence[Period]]) -> Generator[Any, Any, None]:
        """Deliver the one period."""
        return at_times(world, periods, [np.zeros(len(own)) for own in periods])
