"""A graph of your own, from a file: NumPy (.npz), PyTorch (.pt, .pth), GraphML (.graphml) or CSV (.csv).

An edge in one direction counts in both, self loops and repeats are dropped, and features are left as they are.
docs/own_graph.md has an example of each.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from fedsim.core import table
from fedsim.data import own_arrays, own_graphml, own_tables
from fedsim.data.dataset import Dataset
from fedsim.data.graph import Graph
from fedsim.data.raw import Absent, Raw

SUFFIXES = (".npz", ".pt", ".pth", ".graphml", ".csv")
ARRAYS = (".npz", ".pt", ".pth")
READ = 2  # files cached between points of one process, most of which share them


@dataclass(frozen=True)
class File(Dataset):
    """The suffix of `file` decides how it is read."""

    file: table.File  # the graph; CSV: its table of edges
    vertices: table.File | None = None  # CSV only: the table of vertices
    id: str = "id"  # CSV only: the column of the vertices' ids
    label: str = "label"  # CSV and GraphML: the column or attribute of labels; of arrays it is y
    labelled: bool = True  # false: the graph has no labels (link prediction)
    features: list[str] | None = None  # CSV and GraphML: columns or attributes; if not given, all the others
    missing_features: Absent = "refuse"  # if there are none: an error, one-hot degrees, or a 1 for each vertex
    ignore: list[str] | None = None  # columns, attributes or arrays to leave out

    def __post_init__(self) -> None:
        """Raise ValueError for an unknown suffix, and for options of another kind of file."""
        kind = Path(self.file).suffix.lower()
        if kind not in SUFFIXES:
            raise ValueError(f"file: {self.file} has none of the known suffixes: {', '.join(SUFFIXES)}")
        if kind == ".csv" and self.vertices is None:
            raise ValueError(
                f"vertices: {self.file} is a table of edges; name that of the vertices too, as vertices.csv"
            )
        if kind != ".csv" and self.vertices is not None:
            raise ValueError(f"vertices: {self.file} holds the vertices too; leave it out")
        if kind in ARRAYS and self.features is not None:
            raise ValueError(f"features: those of {self.file} are the array x; leave it out")

    def load(self, root: Path, seed: int) -> Graph:
        """Return the graph of the file; neither argument matters.  Raises UserError if it cannot be read."""
        paths = tuple(path for path in (self.file, self.vertices) if path is not None)
        stamps = tuple((path.stat().st_mtime_ns, path.stat().st_size) for path in paths)
        label = self.label if self.labelled else None
        features = None if self.features is None else tuple(self.features)
        raw = _read(paths, stamps, self.id, label, features, tuple(self.ignore or ()))
        return raw.graph(self.file, self.missing_features)

    def names(self, root: Path) -> Sequence[str] | None:
        """Return the ids of tables and of GraphML; vertices of arrays have none."""
        if self.vertices is not None:
            return own_tables.ids(self.vertices, self.id)
        return own_graphml.ids(self.file) if Path(self.file).suffix.lower() == ".graphml" else None


@lru_cache(maxsize=READ)
def _read(
    paths: tuple[Path, ...],
    stamps: tuple[tuple[int, int], ...],
    id: str,
    label: str | None,
    features: tuple[str, ...] | None,
    ignore: tuple[str, ...],
) -> Raw:
    """Return the content of the files; `stamps` change when the files do."""
    kind = paths[0].suffix.lower()
    if kind == ".csv":
        return own_tables.from_tables(paths[0], paths[1], id, label, features, ignore)
    if kind == ".graphml":
        return own_graphml.from_graphml(paths[0], label, features, ignore)
    read = own_arrays.from_numpy if kind == ".npz" else own_arrays.from_torch
    return read(paths[0], ignore, label is not None)
