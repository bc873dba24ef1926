"""Partitions in simulated time: the result of partitioning each snapshot of a changing graph, and its cost.

A snapshot's partition is recorded when the first client's period of it arrives.  If the partition counts the entries of
adjacency rows that it has read, one of the server's cores is busy for one operation per entry from that moment on:
updates queue behind it, but no client waits, as if the server had begun early enough.

`run.log` has how unevenly each snapshot's edges and labels were divided, beside the share of edges cut.

Not modelled: how the server learns of edges and nodes, that reading an entry costs more than an addition, and
messages that notify clients of what they own; what moves to a new owner is a step of its own (`repartition.py`).
"""

import logging
from collections.abc import Generator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from fedsim.core import portable
from fedsim.core.arrays import Ints
from fedsim.core.record import UNCOUNTED, PartitionRow

log = logging.getLogger(__name__)
MAJORS = 2  # labels that characterise a client if labels are skewed

if TYPE_CHECKING:
    from fedsim.clock.world import World
    from fedsim.data.time.temporal import Overview


def watch(world: "World", overview: "Overview", clients: int) -> Generator[Any, Any, None]:
    """Return the process that records each partition as its snapshot arrives, and charges the server for it."""
    latest = -1
    for t in range(len(overview.snapshots)):
        while latest < t:
            fresh: Sequence[Any] = yield world.arrival
            latest = max(latest, *(period.number for _, period in fresh))
        row = described(overview, t, clients, world.env.now)
        world.write(row)
        owner, y = overview.owners[t], overview.snapshots[t]["y"].numpy()
        log.info(
            "snapshot %d: %.3f %% of %d edges cut, coefficient of variation of owners' edges %.3f, "
            "entropy of owners' labels %.3f bits",
            t, 100 * row.cut / max(1, row.edges), row.edges,
            variation(edges_within(overview, t, clients)[np.unique(owner[owner >= 0])]), entropy(owner, y),
        )  # fmt: skip
        if row.scanned != UNCOUNTED:
            world.env.process(world.server.compute(row.scanned))


def described(overview: "Overview", t: int, clients: int, now: float) -> PartitionRow:
    """Return the row that describes snapshot t's partition."""
    owner = overview.owners[t]
    before = overview.owners[t - 1] if t else np.full_like(owner, -1)
    edges, within = overview.snapshots[t]["edges"].shape[1] // 2, edges_within(overview, t, clients)
    return PartitionRow(
        now, t,
        owners=len(np.unique(owner[owner >= 0])), nodes=int((owner >= 0).sum()),
        edges=edges, cut=edges - int(within.sum()), largest=int(within.max(initial=0)),
        moved=int(((owner != before) & (owner >= 0) & (before >= 0)).sum()),
        scanned=UNCOUNTED if overview.scanned is None else overview.scanned[t],
        unowned=int((overview.snapshots[t]["arrived"].numpy() & (owner < 0)).sum()),
        majority=majority(owner, overview.snapshots[t]["y"].numpy()),
    )  # fmt: skip


def edges_within(overview: "Overview", t: int, clients: int) -> Ints:
    """Return how many undirected edges of snapshot t each client has within its own nodes: (clients,)."""
    source, target = overview.owners[t][overview.snapshots[t]["edges"].numpy()]
    return np.bincount(source[(source == target) & (source >= 0)], minlength=clients) // 2


def variation(counts: Ints) -> float:
    """Return the coefficient of variation, the population's standard deviation over the mean; NaN if all are zero."""
    return float(counts.std() / counts.mean()) if counts.any() else float("nan")


def entropy(owner: Ints, labels: Ints) -> float:
    """Return the Shannon entropy in bits of a client's labels, averaged over the clients that own labelled nodes.

    `owner` and `labels` are as for `majority`; NaN if there are none.
    """
    counts = tallied(owner, labels)
    share = counts / counts.sum(axis=1, keepdims=True)
    terms = -share * portable.log2(np.where(share > 0, share, 1))
    return float(terms.sum(axis=1).mean()) if len(counts) else float("nan")


def majority(owner: Ints, labels: Ints) -> float:
    """Return the share of the two most frequent labels in a client's labelled nodes, averaged over clients.

    `owner` and `labels` are (N,), below 0 for none.  Return -1 if no client owns a labelled node.
    """
    counts = tallied(owner, labels)
    if not len(counts):
        return float(UNCOUNTED)
    return float((np.sort(counts)[:, -MAJORS:].sum(axis=1) / counts.sum(axis=1)).mean())


def tallied(owner: Ints, labels: Ints) -> Ints:
    """Return how many nodes of each label every client has that owns a labelled one: (clients, labels)."""
    known = (owner >= 0) & (labels >= 0)
    counts = np.zeros((owner.max(initial=-1) + 1, labels.max(initial=-1) + 1), dtype=np.int64)
    np.add.at(counts, (owner[known], labels[known]), 1)
    return counts[counts.any(axis=1)]
