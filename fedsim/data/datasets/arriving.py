"""A static graph that arrives in snapshots: any other data set, its nodes in random order.

Snapshot k is the seconds from k to k + 1 (`steps` of the stream is `snapshots`).  A share `growth` of the
nodes joins after the first snapshot, evenly, with its features and label; an edge exists from when both ends
do. Not modelled: dates of citations, which the files of Cora and PubMed do not have, and edges that arrive
late or disappear.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fedsim.core import seeds
from fedsim.core.errors import ScenarioError
from fedsim.core.units import Count, Fraction
from fedsim.data.graph import Graph, has_edge_keys, with_keys
from fedsim.data.time.temporal import DynamicDataset, evolving
from fedsim.scenario.part import Part
from fedsim.scenario.parts import find


@dataclass(frozen=True)
class Arriving(DynamicDataset):
    """For example `{name: arriving, of: cora}`, or `of: {name: synthetic, nodes: 500}`."""

    of: Part  # the data set whose graph arrives
    snapshots: Count = 10  # number of snapshots
    growth: Fraction = 0.9  # share of the nodes that join after the first snapshot

    def load(self, root: Path, seed: int) -> Graph:
        """Return the graph of that seed.  Raises ScenarioError if the data set already changes over time."""
        graph: Graph = find.build("dataset", self.of, "data.dataset.of").load(root, seed)
        if "since" in graph:
            message = f"{self.of.name!r} is already a graph that changes; use it as the data set itself, "
            message += "or name a static graph (such as cora)"
            raise ScenarioError.at("data.dataset.of", message)
        if has_edge_keys(graph):
            message = "its edges have attributes or weights, which edges that arrive have not; leave them out"
            raise ScenarioError.at("data.dataset.of", message)
        nodes = len(graph["y"])
        born = self._born(nodes, seeds.generator(seed, "data.arriving"))
        low, high = graph["edges"].numpy()
        since = np.maximum(born[low], born[high])
        never = np.full(len(since), np.inf)
        span = (0.0, float(self.snapshots))
        arriving = evolving(np.stack([low, high]), since, never, nodes, y=graph["y"].numpy(), span=span, born=born)
        return with_keys(arriving, {key: graph[key] for key in ("x", "real") if key in graph})

    def _born(self, nodes: int, rng: np.random.Generator) -> np.ndarray:
        """Return the second (N,) at which each node joins."""
        late = round(nodes * self.growth) if self.snapshots > 1 else 0
        first = np.zeros(nodes - late)
        then = 1.0 + np.arange(late) * (self.snapshots - 1) // max(1, late)
        return rng.permutation(np.concatenate([first, then]))
