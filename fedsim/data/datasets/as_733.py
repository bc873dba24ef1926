"""Daily routes among autonomous systems of the Internet (Leskovec, Kleinberg and Faloutsos, KDD 2005): 21 snapshots.

The largest connected component of each of 21 days of AS-733, as selected by Hou et al., "GloDyNE", TKDE 2020; 3,615
systems in all.  Edges come and go: one lives over the days that list it.  Day k of the graph is second 86,400 k on,
so `steps: 21` gives the days; the calendar's dates are not published with the selection.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fedsim.data.graph import Graph
from fedsim.data.published import prepared
from fedsim.data.temporal import Featureless, recorded

RAW, FILE = "AS733/raw", "as733_21snapshots_lcc.npz"
DAY = 86400.0


@dataclass(frozen=True)
class As733(Featureless):
    """One archive under `AS733/raw/`: `src`, `dst` numbers of systems, `t` the day (E,), and `num_snapshots`."""

    def topology(self, root: Path) -> Graph:
        """Return the graph; vertices are in the order of the systems' numbers, each there from its first edge."""
        return prepared(root, RAW, {FILE: ""}, _read)


def _read(above: Path) -> Graph:
    with np.load(above / RAW / FILE) as file:
        systems, number = np.unique(np.stack([file["src"], file["dst"]]).astype(np.int64), return_inverse=True)
        days, count = file["t"].astype(np.int64), int(file["num_snapshots"])
    return recorded(number.reshape(2, -1), days, len(systems), count, DAY)
