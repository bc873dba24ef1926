"""Daily routes among autonomous systems of the Internet (Leskovec, Kleinberg and Faloutsos, KDD 2005): 21
snapshots.

The largest connected component of each of 21 days of AS-733, as selected by Hou et al., "GloDyNE", TKDE 2020;
3,615 systems in all.  Edges come and go: one lives over the days that list it.  Day k of the graph is second
86,400 k on, so `steps: 21` gives the days; the calendar's dates are not published with the selection.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fedsim.data.graph import Graph
from fedsim.data.time.temporal import PublishedEvents, recorded

FILE = "as733_21snapshots_lcc.npz"
DAY = 86400.0


@dataclass(frozen=True)
class As733(PublishedEvents):
    """One archive under `AS733/raw/`: `src`, `dst` numbers of systems, `t` the day (E,), and `num_snapshots`."""

    raw, urls = "AS733/raw", {FILE: ""}

    def read(self, folder: Path) -> Graph:
        """Return the graph; nodes are in the order of the systems' numbers, and there from the first edge on."""
        with np.load(folder / FILE) as file:
            ends = np.stack([file["src"], file["dst"]]).astype(np.int64)
            days, count = file["t"].astype(np.int64), int(file["num_snapshots"])
        systems, number = np.unique(ends, return_inverse=True)
        return recorded(number.reshape(2, -1), days, len(systems), count, DAY)
