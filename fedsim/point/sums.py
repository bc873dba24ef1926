"""Checksums of the files of a finished point, by which damage is noticed; `sha256sum -c SHA256SUMS` checks them too.

Not covered: the log, views, and the stamp (which is compared with the sources anyway).
"""

import hashlib
from pathlib import Path

from fedsim.point.folders import EXTRA, FILES

FILE = "SHA256SUMS"


def write(folder: Path) -> None:
    """Write the checksums of a point's files beside them.  Raises OSError if that cannot be done."""
    names = [*FILES, *(name for name in EXTRA if (folder / name).is_file())]
    lines = [f"{_sum(folder / name)}  {name}\n" for name in names]
    (folder / FILE).write_text("".join(lines), encoding="utf-8", newline="")


def damaged(folder: Path) -> list[str]:
    """Return the names of a point's files that are missing or not what was written, the checksums among them."""
    try:
        *lines, end = (folder / FILE).read_text(encoding="utf-8").split("\n")
        wanted = {name: digest for digest, name in (line.split("  ") for line in lines)}
        if end or wanted.keys() - {*EXTRA} != {*FILES}:
            return [FILE]
        return [name for name in wanted if not (folder / name).is_file() or _sum(folder / name) != wanted[name]]
    except PermissionError:
        raise  # it may well be whole
    except (OSError, ValueError):
        return [FILE]


def _sum(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
