"""The partition of DG-CoLearn (Au et al., arXiv 2605.31427, section 4.1): parts grown from seeds far apart.

A server that knows the whole graph keeps cross edges few and then balances edges and labels (`stages`).  On a
changing graph, newcomers join the existing parts, and a full partition is made only when the number of parts
changes.  The paper's secondary gain of `tau` is so large that few nodes move, and parts are far from equal if
the seeds lie at the rim of the graph; see `fedsim.data.colearn` for what the paper leaves open.  It reads
every label, also of validation and test nodes, so ownership may depend on them.  The random stream is used
only if a static graph leaves a client empty: all seeds of a run give the same partition.
"""

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from fedsim.data.colearn.follow import Shot, Step, follow, full
from fedsim.data.colearn.stages import Rule
from fedsim.data.graph import Graph
from fedsim.data.partition import Partition, grouped, require, top_up

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class CoLearn(Rule, Partition):
    """Parts that are grown, balanced and followed by the rule that the options make."""

    by_edges = True

    def assign(self, graph: Graph, clients: int, rng: np.random.Generator) -> list[np.ndarray]:
        """Return each client's nodes, ascending: as many parts as clients, whatever `per_client` says."""
        nodes = len(graph["y"])
        require(nodes, clients)
        parts, _ = full(_shot(graph, np.arange(nodes)), clients, self)
        return grouped(top_up(parts.owner, clients, 1, rng), clients)

    def follow(self, snapshots: Sequence[Graph], clients: int, rng: np.random.Generator) -> list[list[np.ndarray]]:
        """Return each client's nodes for each snapshot; clients beyond the number of parts have none."""
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
        return follow(shots, clients, self)


def _shot(graph: Graph, present: np.ndarray) -> Shot:
    return Shot(graph["edges"].numpy(), present, graph["y"].numpy())
