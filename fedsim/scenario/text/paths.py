"""Files that a scenario names: their absolute paths, and digests of their contents.

Text that has a suffix or a slash, and that names an existing file or folder relative to the scenario's folder
(or else to the working folder), is a path.  It is made absolute when the scenario is read, so that a point
can run from anywhere; a point's id uses the contents, so that a changed table gives a new point and a moved
one does not.
"""

import hashlib
import os
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

NOT_FILES = ("name", "description")


def made_absolute(value: Any, folder: Path) -> Any:
    """Return plain data with file names, relative to `folder` or the working folder, made absolute."""

    def absolute(value: Any) -> Any:
        if not isinstance(value, str) or not _looks_like_one(value):
            return value
        seen = [path for path in (folder / value, Path(value)) if os.path.exists(path)]
        return str(seen[0].resolve()) if seen else value

    return _each(value, absolute)


def by_contents(value: Any) -> Any:
    """Return plain data with a digest of its contents in place of each absolute path of a file or folder."""
    return _each(value, _digested)


def _each(value: Any, change: Callable[[Any], Any]) -> Any:
    """Return plain data with each value that may name a file changed."""
    if isinstance(value, dict):
        return {key: inner if key in NOT_FILES else _each(inner, change) for key, inner in value.items()}
    return [_each(inner, change) for inner in value] if isinstance(value, list | tuple) else change(value)


def _digested(value: Any) -> Any:
    # `isabs` is the cheaper check.
    if isinstance(value, str | Path) and os.path.isabs(value) and Path(value).is_absolute() and os.path.exists(value):
        try:
            return f"contents {fingerprint(Path(value))}"
        except OSError:  # reported when it is read
            return value
    return value


def fingerprint(path: Path) -> str:
    """Return a digest of a file's bytes, or of the names and bytes of the files directly in a folder.

    Raises OSError if one cannot be read.
    """
    digest = hashlib.blake2b(digest_size=12)
    for file in [path] if path.is_file() else sorted(file for file in path.iterdir() if file.is_file()):
        stat = file.stat()
        name = "" if file == path else file.name
        digest.update(f"{name}:{_of_file(file, stat.st_mtime_ns, stat.st_size)}\n".encode())
    return digest.hexdigest()


def _looks_like_one(text: str) -> bool:
    return len(text) < 4096 and "\n" not in text and ("/" in text or os.sep in text or bool(Path(text).suffix))


@lru_cache(maxsize=4096)
def _of_file(path: Path, changed: int, size: int) -> str:
    return hashlib.blake2b(path.read_bytes(), digest_size=12).hexdigest()
