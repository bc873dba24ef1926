"""The partition of DG-CoLearn (Au et al., arXiv 2605.31427, section 4.1): parts grown from seeds far apart.

A server that knows the whole graph keeps cross edges few and then balances edges and labels (`stages`).  On a changing
graph, newcomers join the existing parts, and a full partition is made only when the number of parts changes.
The paper's secondary gain of `tau` is so large that few vertices move, and parts are far from equal if the seeds lie at
the rim of the graph; see `fedsim.data.colearn` for what the paper leaves open.
It reads every label, also of validation and test vertices, so ownership may depend on them.
The random stream is used only if a static graph leaves a client empty: all seeds of a run give the same partition.
"""

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from fedsim.core.units import Count, Fraction
from fedsim.data.colearn.alone import Way
from fedsim.data.colearn.follow import Rule, Shot, Step, follow, full
from fedsim.data.colearn.stages import Config, Name
from fedsim.data.graph import Graph
from fedsim.data.partition import Partition, grouped, require, top_up

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class CoLearn(Partition):
    """Defaults are the paper's and, where it is silent, its code's."""

    stages: Name = "mincut_first"  # which steps improve the parts, in which order
    alpha: Fraction = 0.5  # weight of the first of the two secondary scores
    tau: float = 0.4  # a vertex moves for a larger gain than this
    most_cut: float | None = None  # cut edges that one move may add; null: any number
    raw: bool = False  # secondary scores as the published code counts them
    per_client: Count = 510  # directed edges of a snapshot per part; unused on a static graph
    isolated: Way = "round_robin"  # what happens to vertices without an edge
    exact_seeds: bool = False  # the exact farthest pair: a search from every vertex
    repartition: bool = False  # partition again at every snapshot

    def __post_init__(self) -> None:
        """Raise ValueError for thresholds that make no sense."""
        if np.isnan(self.tau) or not (self.most_cut is None or self.most_cut >= 0):
            raise ValueError("tau must be a number and most_cut 0 or more")

    def assign(self, graph: Graph, clients: int, rng: np.random.Generator) -> list[np.ndarray]:
        """Return each client's vertices, ascending: as many parts as clients, whatever `per_client` says."""
        vertices = len(graph["y"])
        require(vertices, clients)
        parts, _ = full(_shot(graph, np.arange(vertices)), clients, self._rule())
        return grouped(top_up(parts.owner, clients, 1, rng), clients)

    def follow(self, snapshots: Sequence[Graph], clients: int, rng: np.random.Generator) -> list[list[np.ndarray]]:
        """Return each client's vertices for each snapshot; clients beyond the number of parts have none."""
        return self.counted(snapshots, clients, rng)[0]

    def counted(
        self, snapshots: Sequence[Graph], clients: int, rng: np.random.Generator
    ) -> tuple[list[list[np.ndarray]], list[int]]:
        """Return what `follow` does, and the entries read for each snapshot."""
        found, scanned = [], []
        for number, step in enumerate(self.steps(snapshots, clients)):
            log.info(
                "snapshot %d: %s partition into %d, %d moved by the secondary stage, %d changed owner, %d entries read",
                number, "full" if step.full else "incremental", step.parts, step.moves, step.moved, step.scanned,
            )  # fmt: skip
            here = np.flatnonzero(step.owner >= 0)
            found.append([here[part] for part in grouped(step.owner[here], clients)])
            scanned.append(step.scanned)
        return found, scanned

    def steps(self, snapshots: Sequence[Graph], clients: int) -> Iterator[Step]:
        """Yield the result of each snapshot, with its work."""
        shots = [_shot(snapshot, snapshot["arrived"].nonzero().squeeze(1).numpy()) for snapshot in snapshots]
        return follow(shots, clients, self._rule())

    def _rule(self) -> Rule:
        most_cut = float("inf") if self.most_cut is None else self.most_cut
        config = Config(self.stages, self.alpha, self.tau, most_cut, self.raw)
        return Rule(config, self.per_client, self.isolated, self.exact_seeds, self.repartition)


def _shot(graph: Graph, present: np.ndarray) -> Shot:
    return Shot(graph["edges"].numpy(), present, graph["y"].numpy())
