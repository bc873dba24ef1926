"""Private messages at a college (Panzarasa, Opsahl and Carley, JASIST 2009), the graph "UCI" of the literature.

59,835 messages among 1,899 students, from April to October 2004, as the SNAP collection has them.  A message is an
event, read in both directions.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fedsim.data.graph import Graph
from fedsim.data.published import prepared
from fedsim.data.temporal import Featureless, events

RAW, FILE = "CollegeMsg/raw", "CollegeMsg.txt"
URL = "https://snap.stanford.edu/data/CollegeMsg.txt.gz"


@dataclass(frozen=True)
class CollegeMsg(Featureless):
    """One table without a header under `CollegeMsg/raw/`: source, target, second."""

    def topology(self, root: Path) -> Graph:
        """Return the graph; vertices are in the order of the students' numbers."""
        return prepared(root, RAW, {FILE: URL}, _read)


def _read(above: Path) -> Graph:
    table = np.loadtxt(above / RAW / FILE, dtype=np.int64, ndmin=2)
    known, number = np.unique(table[:, :2], return_inverse=True)
    return events(number.reshape(-1, 2).T, table[:, 2].astype(np.float64), len(known))
