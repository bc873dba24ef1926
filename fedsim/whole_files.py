"""Files of results, written whole or not at all, and what to tell where nothing more can be written.

A file is written under another name beside its place and renamed when it is complete, so that whoever reads it, and
whatever ends the program, finds the old one or the new one.  Not modelled: a machine that loses its power before the
system has written what it was given.
"""

import csv
import errno
import io
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from fedsim.errors import UserError

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS)
BARRED = (errno.EACCES, errno.EPERM)


class Unwritable(UserError):  # noqa: N818 - it tells what is wrong
    """Results cannot be written any more, of this point nor of others."""


def write_table(path: Path, columns: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> None:
    """Write a CSV file whole, under another name first; None and NaN are left empty."""
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows([_cell(row.get(column)) for column in columns] for row in rows)
    replace(path, text.getvalue())


def replace(path: Path, text: str) -> None:
    """Write a text file whole, under another name first."""
    hidden = path.with_name(f".{path.name}.partial")
    try:
        hidden.write_text(text, encoding="utf-8", newline="")
        os.replace(hidden, path)
    finally:
        hidden.unlink(missing_ok=True)  # where the disk is full


def unwritable(out: Path, error: Exception) -> Unwritable | None:
    """Return what to tell where an error says that nothing more can be written into the folder of results."""
    if not isinstance(error, OSError):
        return None
    number = error.errno
    barred = number in BARRED and str(error.filename).startswith(str(out))
    if number is None or not (number in FULL or barred):
        return None
    remedy = "mend the rights to it" if barred else "make room"
    message = f"{out} cannot be written ({os.strerror(number)}); finished points are kept: {remedy}"
    return Unwritable(f"{message}, and the same command continues")


def _cell(value: Any) -> str:
    if value is None or (isinstance(value, float) and value != value):
        return ""
    return repr(value) if isinstance(value, float) else str(value)
