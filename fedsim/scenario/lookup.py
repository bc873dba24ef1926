"""Find the file of a module without importing it, and tell whether it is a library's.

Python's finders are asked once for each name, as long as the folders that they search have not changed: a sweep looks
the same few hundred modules up for every point, and each question costs several system calls.

Not covered: a finder of a third party that searches folders other than those of Python's path and of the package.
"""

import os
import sys
import sysconfig
import time
from contextlib import suppress
from functools import lru_cache
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from typing import Any

from fedsim.core import shipped

YOUNG = 2_000_000_000  # nanoseconds; two changes of a folder in quick succession may bear the same time


def spec(module: str) -> ModuleSpec | None:
    """Return the module's spec without importing anything, or None if there is no such module."""
    path: tuple[str, ...] | None = None
    found: ModuleSpec | None = None
    parts = module.split(".")
    for end in range(1, len(parts) + 1):
        found = _found(".".join(parts[:end]), path)
        if found is None:
            return None
        path = tuple(found.submodule_search_locations or [])
    return found


def file_of(module: str) -> Path | None:
    """Return the module's source file, or None."""
    found = spec(module)
    return Path(found.origin) if found and found.has_location and found.origin else None


def folders_of(package: str) -> list[Path]:
    """Return the folders of a package, empty if it is not one."""
    found = spec(package)
    return [Path(folder) for folder in (found.submodule_search_locations or [])] if found else []


def is_own(path: Path) -> bool:
    """Return whether a file belongs to the project or the user, not to Python or a library.

    A library lies below a `site-packages` or `dist-packages`, of this environment or any other that Python's path
    names, or in a folder of the path with a record that it was installed there (`pip install --target`).
    """
    return not (_is_installed(path) or any(_is_recorded(path, os.path.abspath(entry)) for entry in sys.path))


@lru_cache(maxsize=4096)
def _is_installed(path: Path) -> bool:
    standard = [sysconfig.get_path(name) for name in ("stdlib", "platstdlib")]
    return any(
        not shipped.LIBRARIES.isdisjoint(one.parts) or any(one.is_relative_to(folder) for folder in standard)
        for one in (path, Path(os.path.realpath(path)))
    )


def _is_recorded(path: Path, entry: str) -> bool:
    return path.is_relative_to(entry) and path.relative_to(entry).parts[0] in _recorded(entry)


@lru_cache(maxsize=256)
def _recorded(entry: str) -> frozenset[str]:
    """Return the modules and packages, by their file or folder, that were installed into a folder of Python's path."""
    found = set[str]()
    for record in Path(entry).glob("*.dist-info/RECORD"):
        with suppress(OSError):
            lines = record.read_text(encoding="utf-8", errors="replace").splitlines()
            found |= {line.lstrip('"').partition(",")[0].partition("/")[0] for line in lines}
    return frozenset(found)


def _found(name: str, path: tuple[str, ...] | None) -> ModuleSpec | None:
    folders = path if path is not None else tuple(map(os.path.abspath, sys.path))
    folders += tuple(shipped.searched(name))
    changed = tuple(map(_changed, folders))
    if max(changed, default=0) > time.time_ns() - YOUNG:
        return _ask_finders(name, path)
    found = _first(name, path, folders, changed, tuple(sys.meta_path))
    # A folder without an __init__.py may get one, and a package may lose its own: neither changes the folder above.
    lasts = found is None or (
        found.loader is not None and (not found.has_location or os.path.isfile(found.origin or ""))
    )
    return found if lasts else _ask_finders(name, path)


def _changed(folder: str) -> int:
    try:
        return os.stat(folder).st_mtime_ns
    except OSError:
        return 0


@lru_cache(maxsize=8192)
def _first(
    name: str,
    path: tuple[str, ...] | None,
    folders: tuple[str, ...],
    changed: tuple[int, ...],
    finders: tuple[object, ...],
) -> ModuleSpec | None:
    return _ask_finders(name, path)


def _ask_finders(name: str, path: tuple[str, ...] | None) -> ModuleSpec | None:
    for finder in sys.meta_path:
        within = finder is PathFinder and path is not None  # which raises KeyError if the package is not imported
        found = shipped.search(name, path or ()) if within else _ask(finder, name, path)
        if found is not None:
            return found
    return None


def _ask(finder: Any, name: str, path: tuple[str, ...] | None) -> ModuleSpec | None:
    try:
        return finder.find_spec(name, path)  # type: ignore[no-any-return]
    except Exception:  # a finder of a third party that cannot tell
        return None
