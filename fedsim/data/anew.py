"""Anew: partitions that may start over at every snapshot of a changing graph, independent of the one before.

The baselines of DG-CoLearn do so.  Clients are then numbered so that as few vertices as possible change their owner.
What moves then travels in a step of its own (`fedsim/clock/repartition.py`).
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from fedsim.data.colearn.follow import names
from fedsim.data.graph import Graph, induced
from fedsim.data.partition import Partition
from fedsim.data.temporal import owners_of


@dataclass(frozen=True)
class Anew(Partition):
    """A partition with the option to assign each snapshot separately, using the vertices arrived by then."""

    each_snapshot: bool = field(default=False, kw_only=True)  # partition every snapshot; otherwise once, their union

    def follow(self, snapshots: Sequence[Graph], clients: int, rng: np.random.Generator) -> list[list[np.ndarray]]:
        """Return for each snapshot each client's vertices, ascending."""
        if not self.each_snapshot:
            return super().follow(snapshots, clients, rng)
        found, before = [], np.full(len(snapshots[0]["y"]), -1, dtype=np.int64)
        for snapshot in snapshots:
            here = snapshot["arrived"].nonzero().squeeze(1).numpy()
            own = [np.sort(here[part]) for part in self.assign(induced(snapshot, here), clients, rng)]
            owner = owners_of(own, len(before))
            order = np.argsort(names(owner, before, clients))
            own = [own[part] for part in order]
            before = np.where(owner >= 0, owners_of(own, len(before)), before)
            found.append(own)
        return found
