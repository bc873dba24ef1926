"""A graph of your own, from a file: NumPy (.npz), PyTorch (.pt, .pth), GraphML (.graphml) or CSV (.csv).

An edge in one direction counts in both, self loops and repeats are dropped, and features are left as they
are.  docs/own_graph.md has an example of each.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from fedsim.core import table
from fedsim.data.dataset import Dataset
from fedsim.data.files import own_arrays, own_graphml, own_tables
from fedsim.data.files.raw import MissingFeatures, Raw, Targets
from fedsim.data.graph import Graph

SUFFIXES = (".npz", ".pt", ".pth", ".graphml", ".csv")
ARRAYS = (".npz", ".pt", ".pth")
READ = 2  # files cached between points of one process, most of which share them


@dataclass(frozen=True)
class File(Dataset):
    """The suffix of `file` decides how it is read."""

    file: table.FilePath  # the graph; CSV: its table of edges
    nodes: table.FilePath | None = None  # CSV only: the table of nodes
    id: str = "id"  # CSV only: the column of the nodes' ids
    label: str = "label"  # CSV and GraphML: the column or attribute of labels; of arrays it is y
    labelled: bool = True  # false: the graph has no labels (link prediction)
    targets: Targets = "classes"  # what y of arrays is: classes, or real targets (N, T)
    features: tuple[str, ...] | None = None  # CSV and GraphML: columns or attributes; if not given, all the others
    missing_features: MissingFeatures = "refuse"  # if there are none: an error, one-hot degrees, or a 1 for each node
    ignore: tuple[str, ...] | None = None  # columns, attributes or arrays to leave out

    def __post_init__(self) -> None:
        """Raise ValueError for an unknown suffix, and for options of another kind of file."""
        kind = Path(self.file).suffix.lower()
        if kind not in SUFFIXES:
            raise ValueError(f"file: {self.file} has none of the known suffixes: {', '.join(SUFFIXES)}")
        if kind == ".csv" and self.nodes is None:
            raise ValueError(f"nodes: {self.file} is a table of edges; name that of the nodes too, as nodes.csv")
        if kind != ".csv" and self.nodes is not None:
            raise ValueError(f"nodes: {self.file} holds the nodes too; leave it out")
        if kind in ARRAYS and self.features is not None:
            raise ValueError(f"features: those of {self.file} are the array x; leave it out")
        if kind not in ARRAYS and self.targets == "real":
            raise ValueError(f"targets: real ones are read from arrays, and {self.file} is none; save it as .npz")

    def load(self, root: Path, seed: int) -> Graph:
        """Return the graph of the file; neither argument matters.  Raises UserError if it cannot be read."""
        stats = (path.stat() for path in (self.file, self.nodes) if path is not None)
        stamps = tuple((stat.st_mtime_ns, stat.st_size) for stat in stats)
        return _read(self, stamps).graph(self.file, self.missing_features)

    def names(self, root: Path) -> Sequence[str] | None:
        """Return the ids of tables and of GraphML; nodes of arrays have none."""
        if self.nodes is not None:
            return own_tables.ids(self.nodes, self.id)
        return own_graphml.ids(self.file) if Path(self.file).suffix.lower() == ".graphml" else None


@lru_cache(maxsize=READ)
def _read(given: File, stamps: tuple[tuple[int, int], ...]) -> Raw:
    """Return the content of the files; `stamps` change when the files do."""
    kind, label, ignore = given.file.suffix.lower(), given.label if given.labelled else None, given.ignore or ()
    if given.nodes is not None:
        return own_tables.from_tables(given.file, given.nodes, given.id, label, given.features, ignore)
    if kind == ".graphml":
        return own_graphml.from_graphml(given.file, label, given.features, ignore)
    arrays = own_arrays.arrays_of(given.file, ignore)
    return own_arrays.raw(given.file, arrays, ignore, given.labelled, given.targets)
