"""A table of events in the format of the Temporal Graph Benchmark (Huang et al., NeurIPS 2023), from your own file.

A CSV with a header and, among its columns, `source`, `destination` and `timestamp` (s), in any order of rows.  Ends may
be numbers or names; the same one in both columns is the same vertex.  An event is read in both directions.  Other
columns (weights, features, labels) are not read.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from fedsim.core.table import File
from fedsim.data.graph import Graph
from fedsim.data.published import prepared
from fedsim.data.temporal import Featureless, events

COLUMNS = ["source", "destination", "timestamp"]


@dataclass(frozen=True, kw_only=True)
class Tgb(Featureless):
    """The graph of the events in `file`."""

    file: File  # the table of events

    def topology(self, root: Path) -> Graph:
        """Return the graph; vertices are in the order of their numbers or names."""
        path = self.file.resolve()
        inner = Path(path.parent.name) / path.name
        return prepared(path.parent.parent, path.parent.name, {path.name: ""}, lambda above: _read(above / inner))


def _read(path: Path) -> Graph:
    """Return the graph.  Raises ValueError if a column or a value is missing."""
    header = [str(name).strip() for name in pd.read_csv(path, nrows=0).columns]
    if missing := [name for name in COLUMNS if name not in header]:
        raise ValueError(f"the header lacks {', '.join(missing)}; it has {', '.join(header)}")
    places = [header.index(name) for name in COLUMNS]
    table = pd.read_csv(path, usecols=places, header=0, names=header)[COLUMNS]
    if table.isna().to_numpy().any():
        line = int(np.flatnonzero(table.isna().any(axis=1))[0]) + 2
        raise ValueError(f"line {line} lacks a value of {', '.join(COLUMNS)}")
    ends = table[COLUMNS[:2]].to_numpy()
    known, number = np.unique(ends.astype(str) if ends.dtype == object else ends, return_inverse=True)
    return events(number.reshape(-1, 2).T, table["timestamp"].to_numpy(dtype=np.float64), len(known))
