"""Citations among patents of the United States (Hall, Jaffe and Trajtenberg, NBER 2001), with labels.

41,916 citations among 12,214 patents of six categories, as selected by Liu et al., "Deep Temporal Graph
Clustering", ICLR 2024, who scaled times to 0..1: a second of the graph is no second of a clock.  A citation
is an event, read in both directions.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fedsim.data.graph import Graph
from fedsim.data.time.temporal import PublishedEvents, events

EDGES, LABELS = "patent.txt", "node2label.txt"


@dataclass(frozen=True)
class Patent(PublishedEvents):
    """Two tables under `Patent/raw/`: source, target, time of a citation; a patent, its label from 1 on."""

    raw, urls = "Patent/raw", {EDGES: "", LABELS: ""}

    def read(self, folder: Path) -> Graph:
        """Return the graph; a patent is there from its first citation.

        Raises ValueError if a patent has no label, or two.
        """
        table = np.loadtxt(folder / EDGES, ndmin=2)
        labels = np.loadtxt(folder / LABELS, dtype=np.int64, ndmin=2)
        order = np.argsort(labels[:, 0])
        known, ends = labels[order, 0], table[:, :2].astype(np.int64).T
        if (np.diff(known) == 0).any() or not np.isin(ends, known).all() or labels[:, 1].min() < 1:
            raise ValueError(f"every patent of {EDGES} must have one label, 1 or more, in {LABELS}")
        return events(np.searchsorted(known, ends), table[:, 2], len(known), labels[order, 1] - 1)
