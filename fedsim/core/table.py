"""Tables: read CSV files that a scenario names into checked columns.

A table has one header line with the names of its columns, in any order, and one line per row; cells are separated by
commas.  Mistakes are reported with file, line and column.  Not read: other separators, numbers with units, decimal
commas, unknown columns (they are refused, because they could be misspelt, unless the reader says what a column
of any name may hold).
"""

import csv
import math
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from pydantic import BeforeValidator, PlainSerializer, WithJsonSchema

from fedsim.core.arrays import Array, Ints
from fedsim.core.errors import UserError
from fedsim.core.units import did_you_mean, nearest

LARGEST = 1e290  # of a cell: in bits or operations it is still finite
EXACT = 2**53  # below it every whole number has its own float
CHUNK = 2_048  # rows held as texts at once; larger chunks are slower to collect


@dataclass(frozen=True)
class Column:
    """A column: its name, whether the table must have it, and what its cells may hold.

    A number from `low` to `high` (both included), a whole one if `whole`, one of the words in `choices`, or any text
    if `text`.
    """

    name: str
    required: bool = True
    low: float = -math.inf
    high: float = math.inf
    whole: bool = False
    choices: tuple[str, ...] = ()
    text: bool = False

    @property
    def dtype(self) -> type[Any]:
        """The element type of its array."""
        return np.str_ if self.choices or self.text else np.int64 if self.whole else np.float64


def read(path: Path, columns: Sequence[Column]) -> dict[str, Array]:
    """Return the table's columns by name, each an array of one entry a row, in the file's order.

    Entries are float64, int64 where `whole`, texts where there are `choices`.  An optional column that is
    missing is left out; an empty cell of an optional column is NaN, or "" among choices.  Cells of required and of
    whole columns must not be empty.  Blank lines are skipped.  Raises UserError, which names file, line, column and
    remedy, if the file is invalid.
    """
    return read_lines(path, columns)[0]


def read_lines(
    path: Path, columns: Sequence[Column], others: Callable[[str], Column] | None = None
) -> tuple[dict[str, Array], Ints]:
    """Return what `read` does, and the line (from 1) on which each row ends, for messages about rows.

    `others` describes columns that `columns` does not name; without it they are refused.
    """
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            rows = csv.reader(file, strict=True)
            try:
                return _read(path, rows, columns, others)
            except csv.Error as error:
                raise fault(path, rows.line_num, f"not CSV: {error}") from None
    except FileNotFoundError:
        raise UserError(_missing(path)) from None
    except UnicodeDecodeError:
        text_of(path)  # names the line
        raise
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}") from None


def text_of(path: Path, otherwise: str = "not UTF-8 text; save the file as UTF-8") -> str:
    """Return a file's text.  Raises OSError, or UserError that names the line if it is no text in UTF-8."""
    try:
        return path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise fault(path, error.object[: error.start].count(b"\n") + 1, otherwise) from None


def fault(path: Path, line: int, message: str) -> UserError:
    """Return the error that names a line of a file."""
    return UserError(f"{path}, line {line}: {message}")


def _read(
    path: Path, rows: Any, columns: Sequence[Column], others: Callable[[str], Column] | None
) -> tuple[dict[str, Array], Ints]:
    header, known = [name.strip() for name in next(rows, [])], {column.name: column for column in columns}
    _check_header(path, header, known, open_ended=others is not None)
    known |= {name: others(name) for name in header if name not in known} if others else {}
    chunks: dict[str, list[Array]] = {name: [] for name in header}
    lines: list[Ints] = []
    while numbered := [(rows.line_num, row) for row in islice(rows, CHUNK)]:
        numbered = [(line, row) for line, row in numbered if row]
        for line, row in numbered:
            if len(row) != len(header):
                raise fault(
                    path, line, f"{len(row)} cell{'s' * (len(row) != 1)}, but the header names {len(header)} columns"
                )
        if numbered:
            lines.append(np.array([line for line, _ in numbered], dtype=np.int64))
            for name, cells in zip(header, zip(*(row for _, row in numbered), strict=True), strict=True):
                chunks[name].append(_entries(path, lines[-1], known[name], cells))
    if not lines:
        raise UserError(f"{path}: a header without rows; write one row per line below it")
    return {name: np.concatenate(parts) for name, parts in chunks.items()}, np.concatenate(lines)


def _check_header(path: Path, header: list[str], known: dict[str, Column], open_ended: bool) -> None:
    names = ", ".join(known)
    if not any(header):
        raise fault(path, 1, f"no header; the first line names the columns: {names}")
    if (all if open_ended else any)(is_number(name) for name in header):
        raise fault(path, 1, f"a number where the header should be; the first line names the columns: {names}")
    if len(header) == 1 and (other := next((mark for mark in ";\t" if mark in header[0]), None)):
        raise fault(path, 1, f"cells are separated by {other!r}; write commas")
    for name in header:
        if not name and open_ended:
            raise fault(path, 1, "a column without a name; give it one, or remove it")
        if name not in known and not open_ended:
            raise fault(path, 1, f"there is no column {name!r}{did_you_mean(name, known)}")
        if header.count(name) > 1:
            raise fault(path, 1, f"the column {name!r} appears twice; keep one")
    if missing := [name for name, column in known.items() if column.required and name not in header]:
        raise fault(path, 1, f"the column {missing[0]!r} is missing; the table needs it")


def _entries(path: Path, lines: Ints, column: Column, cells: Sequence[str]) -> Array:
    try:
        if column.choices or column.text:
            return np.array([_entry(cell, column) for cell in cells])
        if "_" in "".join(cells):  # valid in Python's numbers, but not in tables
            raise ValueError
        numbers = np.fromiter(map(int if column.whole else float, cells), column.dtype, len(cells))
        if ((numbers >= column.low) & (numbers <= column.high) & (abs(numbers) <= LARGEST)).all():
            return numbers
    except (ValueError, OverflowError):
        pass  # checked again cell by cell, to find the one
    entries = []
    for line, cell in zip(lines.tolist(), cells, strict=True):
        try:
            entries.append(_entry(cell, column))
        except ValueError as error:
            raise fault(path, line, f"column {column.name!r}: {error}") from None
    return np.array(entries, dtype=column.dtype)


def _entry(cell: str, column: Column) -> float | int | str:
    if column.choices or column.text:
        return _word(cell, column) if column.choices else _text(cell, column)
    if not cell.strip():
        if column.required or column.whole:
            raise ValueError(f"an empty cell; write a {'whole ' if column.whole else ''}number")
        return math.nan
    if not is_number(cell):
        raise ValueError(f"{cell.strip()!r} is not a number; write it plain, as in 12.5")
    value = float(cell)
    if abs(value) > LARGEST:
        raise ValueError(f"{value:g} is too large to compute with")
    if not column.low <= value <= column.high:
        least, most = column.low > -math.inf, column.high < math.inf
        highest = f"at most {column.high:g}" if float(f"{column.high:g}") <= column.high else f"below {column.high:g}"
        bounds = [f"at least {column.low:g}"] * least + [highest] * most
        raise ValueError(f"{cell.strip()} is out of range; it must be {' and '.join(bounds)}")
    if not column.whole:
        return value
    if value.is_integer() and abs(value) < EXACT:  # as spreadsheets and data frames write whole numbers: 3.0, 1e6
        return int(value)
    try:
        return int(np.int64(int(cell)))
    except (ValueError, OverflowError):
        raise ValueError(f"{cell.strip()} is not a whole number (of 64 bits)") from None


def _word(cell: str, column: Column) -> str:
    word = cell.strip()
    if word in column.choices or (not word and not column.required):
        return word
    if not word:
        raise ValueError(f"an empty cell; write one of: {', '.join(column.choices)}")
    raise ValueError(f"{word!r} is not one of those known{did_you_mean(word, column.choices)}")


def _text(cell: str, column: Column) -> str:
    if column.required and not cell.strip():
        raise ValueError("an empty cell; write a text")
    return cell.strip()


def is_number(cell: str) -> bool:
    """Return whether a cell holds a finite number."""
    try:
        return math.isfinite(float(cell)) and "_" not in cell
    except ValueError:
        return False


def _missing(path: Path) -> str:
    siblings: Iterator[Path] = path.parent.iterdir() if os.path.isdir(path.parent) else iter(())
    near = nearest(path.name, sorted(other.name for other in siblings))
    return f"{path}: there is no such file" + (f"; did you mean {path.parent / near}?" if near else "")


def found_file(value: Any) -> Path:
    """Return the path of a file.  Raises ValueError, with the nearest name, if there is none."""
    path = _place(value)
    if path.is_dir():
        raise ValueError(f"{path} is a folder; name a file in it")
    return path


def _place(value: Any) -> Path:
    if not isinstance(value, str | Path) or not str(value):
        raise ValueError(f"{value!r} is not a path; write the name of a file")
    path = Path(value)
    if not os.path.exists(path):  # also answers for names that are too long or not permitted
        raise ValueError(_missing(path))
    return path


def _path(check: Callable[[Any], Path], what: str) -> tuple[Any, ...]:
    schema = {"type": "string", "description": f"{what}; a relative path starts at the scenario's folder."}
    return BeforeValidator(check), PlainSerializer(str, when_used="json"), WithJsonSchema(schema)


FilePath = Annotated[Path, *_path(found_file, "A file")]
Place = Annotated[Path, *_path(_place, "A file or a folder")]
