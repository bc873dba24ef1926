"""Rows of your own without edges, from a file: arrays (.npz, .pt, .pth), or a table (.csv); docs/own_data.md.

A row may have any shape, such as (1, 28, 28) for an image.  Rows are numbered from 0 and used as they are:
nothing is scaled or shuffled.
"""

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from fedsim.core import table
from fedsim.data.dataset import Dataset
from fedsim.data.files import own_arrays, own_rows
from fedsim.data.files.raw import Raw, Targets
from fedsim.data.graph import Graph

SUFFIXES = (".npz", ".pt", ".pth", ".csv")
READ = 2  # files cached between points of one process, most of which share them


@dataclass(frozen=True)
class Examples(Dataset):
    """The suffix of `file` decides how it is read."""

    file: table.FilePath  # arrays x, y, and train, val, test; or a table, a row an example
    target: str | tuple[str, ...] = "y"  # CSV: the column of targets, or several; of arrays it is y
    # what targets are; null: numbers with a fraction are real, whole numbers and texts are classes
    targets: Targets | None = None
    categories: tuple[str, ...] | None = None  # CSV: columns of numbers that stand for categories
    ignore: tuple[str, ...] | None = None  # columns or arrays to leave out

    def __post_init__(self) -> None:
        """Raise ValueError for an unknown suffix, and for options of another kind of file."""
        kind = Path(self.file).suffix.lower()
        if kind not in SUFFIXES:
            raise ValueError(f"file: {self.file} has none of the known suffixes: {', '.join(SUFFIXES)}")
        if kind != ".csv" and (self.target != "y" or self.categories):
            name = "target" if self.target != "y" else "categories"
            raise ValueError(f"{name}: {self.file} holds arrays, not columns; leave it out")
        if not self.target:
            raise ValueError("target: name one column at least")

    def load(self, root: Path, seed: int) -> Graph:
        """Return the rows of the file; neither argument matters.  Raises UserError if it cannot be read."""
        stat = self.file.stat()
        return _read(self, (stat.st_mtime_ns, stat.st_size)).rows()


@lru_cache(maxsize=READ)
def _read(given: Examples, stamp: tuple[int, int]) -> Raw:
    """Return the content of the file; the stamp changes when the file does."""
    ignore = given.ignore or ()
    if given.file.suffix.lower() == ".csv":
        target = (given.target,) if isinstance(given.target, str) else given.target
        return own_rows.of_table(given.file, target, given.categories or (), ignore, given.targets)
    arrays = own_arrays.arrays_of(given.file, ignore, own_rows.WANTED)
    return own_rows.of_arrays(given.file, arrays, given.targets)
