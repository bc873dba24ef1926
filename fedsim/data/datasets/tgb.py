"""A table of events in the format of the Temporal Graph Benchmark (Huang et al., NeurIPS 2023), of your own.

A CSV with a header and, among its columns, `source`, `destination` and `timestamp` (s), in any order of rows.
Ends may be numbers or names; the same one in both columns is the same node.  An event is read in both
directions.  Of other columns (weights, features) those in `message` are read, numbers that are the features
of events.

`labels` is the table of a node-property task: `timestamp`, `source`, `destination` and `weight`, a node's
affinity to a destination at some second.  A node's class is the destination of its largest total weight, the
first in order of numbers or names if several have it; others have none.  Not modelled: labels that change
over time, and the ranking of all destinations (NDCG), which is the benchmark's own task.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from fedsim.core.errors import UserError
from fedsim.core.table import FilePath
from fedsim.data.files.published import prepared
from fedsim.data.graph import Graph
from fedsim.data.time.temporal import UNLABELLED, Featureless, events

COLUMNS = ["source", "destination", "timestamp"]
LABELS = ["timestamp", "source", "destination", "weight"]


@dataclass(frozen=True, kw_only=True)
class Tgb(Featureless):
    """The graph of the events in `file`."""

    file: FilePath  # the table of events
    labels: FilePath | None = None  # a node-property table, from which nodes have classes; null: they have none
    message: tuple[str, ...] = ()  # columns of the events with their features

    def topology(self, root: Path, seed: int) -> Graph:
        """Return the graph; nodes are in the order of their numbers or names."""
        path, labels = self.file.resolve(), self.labels and self.labels.resolve()
        if labels and labels.parent != path.parent:
            raise UserError(f"data.dataset.labels: put {labels} into the folder of the events, {path.parent}")

        def read(folder: Path) -> Graph:
            return _read(folder / path.name, labels and folder / labels.name, self.message)

        return prepared(path.parent, {file.name: "" for file in (path, labels) if file}, read, self.message)


def _read(path: Path, labels: Path | None, features: Sequence[str]) -> Graph:
    """Return the graph.  Raises ValueError if a column or a value is missing, or a feature is no number."""
    table = _table(path, COLUMNS)
    ends = table[COLUMNS[:2]].to_numpy()
    known, number = _numbered(ends.astype(str) if ends.dtype == object else ends)
    times = table["timestamp"].to_numpy(dtype=np.float64)
    message = _table(path, [*features]).to_numpy(dtype=np.float32) if features else None
    y = None if labels is None else _classes(_table(labels, LABELS), known)
    return events(number.T, times, len(known), y, message)


def _table(path: Path, columns: list[str]) -> pd.DataFrame:
    header = [str(name).strip() for name in pd.read_csv(path, nrows=0).columns]
    if missing := [name for name in columns if name not in header]:
        raise ValueError(f"the header lacks {', '.join(missing)}; it has {', '.join(header)}")
    places = [header.index(name) for name in columns]
    table = pd.read_csv(path, usecols=places, header=0, names=header)[columns]
    if table.isna().to_numpy().any():
        line = int(np.flatnonzero(table.isna().any(axis=1))[0]) + 2
        raise ValueError(f"line {line} lacks a value of {', '.join(columns)}")
    return table


def _numbered(ends: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the nodes in order, and the place in it (E, 2) of each end."""
    if ends.dtype.kind in "iu" and len(ends) and ends.min() >= 0 and ends.max() < 2 * ends.size:
        there = np.zeros(int(ends.max()) + 1, dtype=bool)  # without sorting, which takes most of the time
        there[ends.reshape(-1)] = True
        return np.flatnonzero(there), (np.cumsum(there) - 1)[ends]
    known, number = np.unique(ends, return_inverse=True)
    return known, number.reshape(-1, 2)


def _classes(table: pd.DataFrame, known: np.ndarray) -> np.ndarray:
    """Return each node's class (N,): where its weights are largest in sum, -1 without any."""
    named = known.dtype.kind in "OUS"
    if not named and table["source"].to_numpy().dtype == object:
        raise ValueError("the labels' sources are names, and the events' are numbers")
    columns = {name: table[name].astype(str) if named else table[name] for name in ("source", "destination")}
    total = table["weight"].groupby([columns["source"], columns["destination"]]).sum()
    best = total.reset_index().sort_values(["source", "weight", "destination"], ascending=[True, False, True])
    best = best.drop_duplicates("source")
    classes = np.unique(best["destination"].to_numpy())
    place = pd.Index(known.tolist() if named else known).get_indexer(best["source"].tolist())
    found = np.full(len(known), UNLABELLED, dtype=np.int64)
    found[place[place >= 0]] = np.searchsorted(classes, best["destination"].to_numpy())[place >= 0]
    return found
