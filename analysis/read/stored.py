"""The tables of finished points, read from their folders when they are asked for, one point at a time.

A sweep of a thousand points has millions of rows, which need not be in memory together: code that goes through all
points (see `digest`) holds the rows of one.

There is no cache: a table requested twice is read twice, which takes milliseconds.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from fedsim.core.errors import UserError
from fedsim.core.record import TABLES as ROWS

TABLES = {table: [field.name for field in fields(row)] for table, row in ROWS.items()}  # their columns
POINTS = "points"  # the folder in a folder of results that holds those of its points
Tables = Mapping[str, pd.DataFrame]
AGAIN = "run the scenario again, which computes this run anew"


class NotARunError(UserError):
    """A folder that cannot be analysed; the message names it and says what to do."""


def tables(folder: Path) -> dict[str, pd.DataFrame]:
    """Return every table of the point in this folder.  Raises NotARunError if one cannot be read."""
    check(folder)
    return {table: read(folder, table) for table in TABLES}


def check(folder: Path) -> None:
    """Raise NotARunError, naming the file, for a table of a point that is missing, unreadable or lacks a column."""
    for table, columns in TABLES.items():
        path = folder / f"{table}.parquet"
        if not path.is_file():
            raise NotARunError(f"{path}: summary.csv lists this run as finished, but this table is missing; {AGAIN}")
        with _readable(path):
            stored = pq.read_schema(path).names
        if wrong := [name for name in columns if name not in stored]:
            raise NotARunError(f"{path}: has no column {', '.join(wrong)}; {AGAIN}")


def line(error: Exception) -> str:
    """Return an error's message on a single line."""
    return " ".join(str(error).split())


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    """Raise NotARunError for a file that cannot be read."""
    try:
        yield
    except (OSError, pa.ArrowException) as error:
        raise NotARunError(f"{path}: cannot be read ({line(error)}); {AGAIN}") from error


def read(folder: Path, table: str, columns: Sequence[str] = (), categories: Sequence[str] = ()) -> pd.DataFrame:
    """Return one table of the point in this folder.  Raises NotARunError if it cannot be read.

    `columns` are those that are read, all if none are named; `categories` those of texts that few rows differ in, which
    are compared faster this way.
    """
    path = folder / f"{table}.parquet"
    with _readable(path), pq.ParquetFile(path, read_dictionary=[*categories]) as file:
        rows = file.read([*columns] or None, use_threads=False)
        frame: pd.DataFrame = rows.to_pandas(use_threads=False, split_blocks=True)  # few columns are looked at
    return frame
