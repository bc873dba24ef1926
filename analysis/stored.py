"""The tables of finished points, read lazily from their folders, one point at a time.

A sweep of a thousand points has millions of rows, which need not be in memory together: code that goes through all
points (see `digest`) holds the rows of one. Tables and columns that older runs lack are empty (`LATER`).

There is no cache: a table requested twice is read twice, which takes milliseconds.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

TABLES = {
    "transfers": "sent arrived src dst kind version nbytes wire_bytes fate",
    "updates": "time version step asked folded lost late staleness refused epsilon",
    "spans": "client start end what",
    "arrivals": "time client period version",
    "partitions": "time snapshot owners vertices edges cut largest moved scanned unowned majority",
    "scores": "time version client period seen model split metric value weight",
}
LATER = ["staleness", "refused", "epsilon", "wanted", "arrivals", "partitions", "unowned", "majority"]
Tables = Mapping[str, pd.DataFrame]
AGAIN = "run the scenario again, which computes this point anew"


class NotARunError(Exception):
    """A folder that cannot be analysed; the message names it and says what to do."""


@dataclass(frozen=True)
class Stored(Mapping[str, pd.DataFrame]):
    """One table of many points: point -> its rows, with the columns of TABLES at least."""

    table: str
    folders: Mapping[str, Path]  # point -> where its tables are

    def __getitem__(self, point: str) -> pd.DataFrame:
        return _read(self.folders[point], self.table)

    def __iter__(self) -> Iterator[str]:
        return iter(self.folders)

    def __len__(self) -> int:
        return len(self.folders)


def tables(folder: Path) -> dict[str, pd.DataFrame]:
    """Return every table of the point in this folder.  Raises NotARunError if one cannot be read."""
    check(folder)
    return {table: _read(folder, table) for table in TABLES}


def check(folder: Path) -> None:
    """Raise NotARunError, naming the file, for a table of a point that is missing, unreadable or lacks a column."""
    for table, columns in TABLES.items():
        path = folder / f"{table}.parquet"
        if not path.is_file() and table in LATER:
            continue
        if not path.is_file():
            raise NotARunError(f"{path}: summary.csv lists this point as run, but this table is missing; {AGAIN}")
        found = _names(path)
        if wrong := [name for name in columns.split() if name not in found and name not in LATER]:
            raise NotARunError(f"{path}: has no column {', '.join(wrong)}; {AGAIN}")


def line(error: Exception) -> str:
    """Return an error's message on a single line."""
    return " ".join(str(error).split())


def _names(path: Path) -> list[str]:
    try:
        return list(pq.read_schema(path).names)
    except (OSError, pa.ArrowException) as error:
        raise NotARunError(f"{path}: cannot be read ({line(error)}); {AGAIN}") from error


def _read(folder: Path, table: str) -> pd.DataFrame:
    path, columns = folder / f"{table}.parquet", TABLES[table].split()
    if not path.is_file() and table in LATER:
        kinds = {column: "float64" if column == "time" else "int64" for column in columns}
        return pd.DataFrame({column: pd.Series(dtype=kind) for column, kind in kinds.items()})
    try:
        with pq.ParquetFile(path) as file:
            frame: pd.DataFrame = file.read(use_threads=False).to_pandas(use_threads=False)
    except (OSError, pa.ArrowException) as error:
        raise NotARunError(f"{path}: cannot be read ({line(error)}); {AGAIN}") from error
    return frame.assign(**{name: float("nan") for name in columns if name not in frame})
