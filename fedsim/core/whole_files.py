"""Write files of results atomically, and report when nothing more can be written.

A file is written under another name in the same folder and renamed when it is complete, so that readers find the old or
the new one, even after a crash of the program.  Not covered: a power failure before the system has written its buffers.
"""

import csv
import errno
import io
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from fedsim.core.errors import UserError

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS)
BARRED = (errno.EACCES, errno.EPERM)
MISPLACED = (errno.EISDIR, errno.ENOTDIR, errno.EEXIST, errno.ENOTEMPTY, errno.ELOOP, errno.ENAMETOOLONG)


class Unwritable(UserError):  # noqa: N818 - the name says what is wrong
    """No more results can be written, of this point or others."""


def write_table(path: Path, columns: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> None:
    """Write a CSV file atomically; None and NaN become empty cells."""
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows([_cell(row.get(column)) for column in columns] for row in rows)
    replace(path, text.getvalue())


def replace(path: Path, content: str | bytes) -> None:
    """Write a file atomically, a text as UTF-8; a link in its place is replaced, not followed."""
    hidden = path.with_name(f".{path.name}.partial")
    try:
        hidden.unlink(missing_ok=True)  # left by a process that died
        with hidden.open("xb") as file:  # follows no link, of either kind
            file.write(content.encode() if isinstance(content, str) else content)
        hidden.replace(path)
    finally:
        hidden.unlink(missing_ok=True)  # if the disk is full


def unwritable(out: Path, error: Exception) -> Unwritable | None:
    """Return the error to report if `error` means that the results' folder can no longer be written, else None."""
    if not isinstance(error, OSError):
        return None
    number = error.errno
    barred = number in BARRED and str(error.filename).startswith(str(out))
    if number is None or not (number in FULL or barred):
        return None
    remedy = "correct its permissions" if barred else "make room"
    message = f"{out} cannot be written ({os.strerror(number)}); finished runs are kept: {remedy}"
    return Unwritable(f"{message}, and the same command continues")


@contextmanager
def reported(out: Path) -> Iterator[None]:
    """Raise Unwritable in place of an OSError which says that something in the results' folder is out of reach, such as
    a folder in the place of a file.
    """
    try:
        yield
    except OSError as error:
        place = Path(error.filename2 or error.filename or out)
        within = error.errno in BARRED and out not in (place, place.parent)
        if not (within or error.errno in MISPLACED):
            raise unwritable(out, error) or error from None
        remedy = "move that away or correct its permissions, and the same command continues"
        raise Unwritable(f"{out} cannot be used ({place}: {os.strerror(error.errno or 0)}): {remedy}") from None


def _cell(value: Any) -> str:
    if value is None or (isinstance(value, float) and value != value):
        return ""
    return repr(value) if isinstance(value, float) else str(value)
