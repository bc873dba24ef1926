"""Co-authorship in DBLP over ten years (Xu et al., "Spatio-Temporal Attentive RNN ...", IJCAI 2019): edges.

Only the adjacency of the published graphs DBLP3 and DBLP5 is read; neither their features nor their labels
are in these files, and most authors never have an edge.  Year k is the seconds from 31,536,000 k on, so
`steps: 10` gives the years; an edge lives over the years that list it.  `star_arrays` reads the complete
graphs.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from fedsim.data.files.published import prepared
from fedsim.data.graph import Graph
from fedsim.data.time.temporal import Featureless, recorded

YEAR = 365 * 86400.0


@dataclass(frozen=True, kw_only=True)
class Dblp(Featureless):
    """One archive under `<graph>/raw/`: `src`, `dst`, `t` (E,), `num_nodes` and `num_snapshots`."""

    graph: Literal["DBLP3", "DBLP5"]  # which graph of the collection

    def topology(self, root: Path, seed: int) -> Graph:
        """Return the graph; an author is there from the first edge."""
        file = f"{self.graph}_adjs_only.npz"
        return prepared(root / self.graph / "raw", {file: ""}, lambda folder: _read(folder / file))


def _read(path: Path) -> Graph:
    with np.load(path) as file:
        ends = np.stack([file["src"], file["dst"]]).astype(np.int64)
        years, nodes, count = file["t"].astype(np.int64), int(file["num_nodes"]), int(file["num_snapshots"])
    return recorded(ends, years, nodes, count, YEAR)
