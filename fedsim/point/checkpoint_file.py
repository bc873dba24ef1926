"""The file of a checkpoint: two msgpack maps, {"stamp": text, "sum": BLAKE2b of the rest} and then the contents.

The stamp comes first, so that it is known without reading the rest, which may be large.  A file that was cut short, or
of which a byte has changed, is *damaged* and never used in part.  Reading it runs no code.
"""

import hashlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

import msgpack

FOLDER, FILE = "state", "checkpoint"
CHUNK = 1 << 20  # bytes read at a time
BROKEN = (OSError, ValueError, TypeError, LookupError, msgpack.UnpackException)


class Damaged(Exception):  # noqa: N818 - the name says what is wrong
    """A checkpoint that cannot be read, or is not what was written."""


def path_in(folder: Path) -> Path:
    """Return the path of the checkpoint in a point's folder."""
    return folder / FOLDER / FILE


def write(folder: Path, stamp: str, contents: Mapping[str, Any]) -> None:
    """Write a checkpoint, replacing the last one.  Raises OSError if it cannot be written."""
    path, body = path_in(folder), msgpack.packb(contents)
    path.parent.mkdir(exist_ok=True)
    hidden = _unfinished(path)
    with hidden.open("wb") as file:
        file.write(msgpack.packb({"stamp": stamp, "sum": hashlib.blake2b(body).digest()}))
        file.write(body)
        file.flush()
        os.fsync(file.fileno())
    os.replace(hidden, path)


def stamp_in(folder: Path) -> str | None:
    """Return the text of the checkpoint's stamp, None if there is no checkpoint.

    Only the beginning of the file is read.  Raises Damaged if that is not the beginning of a checkpoint.
    """
    if not path_in(folder).is_file():
        return None
    try:
        with path_in(folder).open("rb") as file:
            return _head(file)[0]
    except BROKEN:
        raise Damaged("its checkpoint is damaged") from None


def check(folder: Path) -> None:
    """Raise Damaged unless the file is what was written."""
    try:
        with path_in(folder).open("rb") as file:
            _, wanted = _head(file)
            found = hashlib.blake2b()
            while part := file.read(CHUNK):
                found.update(part)
    except BROKEN:
        raise Damaged("its checkpoint is damaged") from None
    if found.digest() != wanted:
        raise Damaged("its checkpoint is damaged")


def read(folder: Path) -> dict[str, Any]:
    """Return the contents of the checkpoint.  Raises Damaged if they are not what was written."""
    check(folder)
    with path_in(folder).open("rb") as file:
        _head(file)
        contents: dict[str, Any] = msgpack.unpackb(file.read())
    return contents


def discard(folder: Path) -> None:
    """Remove the checkpoint in a point's folder, if there is one."""
    path = path_in(folder)
    for one in (path, _unfinished(path)):
        one.unlink(missing_ok=True)
    if path.parent.exists():
        path.parent.rmdir()


def _head(file: BinaryIO) -> tuple[str, bytes]:
    """Return the stamp and the sum, leaving the file at its contents.  Raises one of BROKEN if they are not there."""
    head = msgpack.Unpacker(file)
    held = head.unpack()
    stamp, digest = held["stamp"], held["sum"]
    if not isinstance(stamp, str) or not isinstance(digest, bytes):
        raise TypeError("a stamp is a text, a sum bytes")
    file.seek(head.tell())
    return stamp, digest


def _unfinished(path: Path) -> Path:
    """Return the path of a checkpoint that is being written."""
    return path.with_suffix(".partial")
