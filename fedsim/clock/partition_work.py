"""Partitions in simulated time: the result of partitioning each snapshot of a changing graph, and its cost.

A snapshot's partition is recorded when the first client's period of it arrives.  If the partition counts the entries of
adjacency rows that it has read, one of the server's cores is busy for one operation per entry from that moment on:
updates queue behind it, but no client waits, as if the server had begun early enough.

Not modelled: how the server learns of edges and vertices, that reading an entry costs more than an addition, and
messages that notify clients of what they own; what moves to a new owner is a step of its own (`repartition.py`).
"""

from collections.abc import Generator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from fedsim.core.record import UNCOUNTED, Partition

MAJORS = 2  # labels that characterise a client if labels are skewed

if TYPE_CHECKING:
    from fedsim.clock.world import World
    from fedsim.data.temporal import Overview


def watch(world: "World", overview: "Overview", clients: int) -> Generator[Any, Any, None]:
    """Return the process that records each partition as its snapshot arrives, and charges the server for it."""
    latest = -1
    for t in range(len(overview.snapshots)):
        while latest < t:
            fresh: Sequence[Any] = yield world.arrival
            latest = max(latest, *(period.number for _, period in fresh))
        row = described(overview, t, clients, world.env.now)
        world.write(row)
        if row.scanned != UNCOUNTED:
            world.env.process(world.server.compute(row.scanned))


def described(overview: "Overview", t: int, clients: int, now: float) -> Partition:
    """Return the row that describes snapshot t's partition."""
    owner = overview.owners[t]
    before = overview.owners[t - 1] if t else np.full_like(owner, -1)
    source, target = owner[overview.snapshots[t]["edges"].numpy()]
    within = np.bincount(source[(source == target) & (source >= 0)], minlength=clients) // 2
    return Partition(
        now, t,
        owners=len(np.unique(owner[owner >= 0])), vertices=int((owner >= 0).sum()),
        edges=len(source) // 2, cut=len(source) // 2 - int(within.sum()), largest=int(within.max(initial=0)),
        moved=int(((owner != before) & (owner >= 0) & (before >= 0)).sum()),
        scanned=UNCOUNTED if overview.scanned is None else overview.scanned[t],
        unowned=int((overview.snapshots[t]["arrived"].numpy() & (owner < 0)).sum()),
        majority=majority(owner, overview.snapshots[t]["y"].numpy()),
    )  # fmt: skip


def majority(owner: npt.NDArray[np.int64], labels: npt.NDArray[np.int64]) -> float:
    """Return the share of the two most frequent labels in a client's labelled vertices, averaged over clients.

    `owner` and `labels` are (N,), below 0 for none.  Return -1 if no client owns a labelled vertex.
    """
    known = (owner >= 0) & (labels >= 0)
    if not known.any():
        return float(UNCOUNTED)
    counts = np.zeros((owner.max() + 1, labels.max() + 1), dtype=np.int64)
    np.add.at(counts, (owner[known], labels[known]), 1)
    counts = counts[counts.any(axis=1)]
    return float((np.sort(counts)[:, -MAJORS:].sum(axis=1) / counts.sum(axis=1)).mean())
