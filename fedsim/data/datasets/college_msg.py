"""Private messages at a college (Panzarasa et al., JASIST 2009), the graph "UCI" of the literature.

59,835 messages among 1,899 students, from April to October 2004, as the SNAP collection has them.  A message
is an event, read in both directions.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fedsim.data.graph import Graph
from fedsim.data.time.temporal import PublishedEvents, events

FILE = "CollegeMsg.txt"


@dataclass(frozen=True)
class CollegeMsg(PublishedEvents):
    """One table without a header under `CollegeMsg/raw/`: source, target, second."""

    raw, urls = "CollegeMsg/raw", {FILE: "https://snap.stanford.edu/data/CollegeMsg.txt.gz"}

    def read(self, folder: Path) -> Graph:
        """Return the graph; nodes are in the order of the students' numbers."""
        table = np.loadtxt(folder / FILE, dtype=np.int64, ndmin=2)
        known, number = np.unique(table[:, :2], return_inverse=True)
        return events(number.reshape(-1, 2).T, table[:, 2].astype(np.float64), len(known))
