"""Find the file of a module without importing it, and tell whether it is a library's.

A user's own parts lie in folders called like the packages of fedsim's: `algorithms`, `models`, `effects`, ...
in any folder of Python's path but those of libraries, whose words these names are too.  The file
`models/NAME.py` of the user's is loaded by its path, as the module `fedsim.learn.models.own.NAME`.  It
imports what lies beside it with a dot (`from .words import MORE`), while `from algorithms.fedavg import
FedAvg` is fedsim's wherever it is written.

Not covered: a finder of a third party that searches folders other than those of Python's path and of the
package.
"""

import os
import sys
import sysconfig
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import lru_cache
from importlib import import_module
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from pkgutil import get_importer
from types import ModuleType

from fedsim.core.asking import once

OURS = ("fedsim", "algorithms", "analysis")
HOME = Path(__file__).resolve().parents[2]  # the folder of the package `fedsim`; `algorithms` lies beside it
OWN = "own"
LIBRARIES = {"site-packages", "dist-packages"}  # the folders, of any environment, into which libraries are installed


@once
def spec(module: str) -> ModuleSpec | None:
    """Return the module's spec without importing anything, or None if there is no such module."""
    path: tuple[str, ...] | None = None
    found: ModuleSpec | None = None
    parts = module.split(".")
    for end in range(1, len(parts) + 1):
        name = ".".join(parts[:end])
        if name in OURS:
            found = sys.modules[name].__spec__  # whatever else has that name on Python's path
        elif package := _package_of_own(name):
            found = _spec_of_own(package)
        else:
            found = _ask_finders(name, path)
        if found is None:
            return None
        path = tuple(found.submodule_search_locations or [])
    return found


@once
def file_of(module: str) -> Path | None:
    """Return the module's source file, or None."""
    found = spec(module)
    return Path(found.origin) if found and found.has_location and found.origin else None


def folders_of(package: str) -> list[Path]:
    """Return the folders of a package, empty if it is not one."""
    found = spec(package)
    return [Path(folder) for folder in (found.submodule_search_locations or [])] if found else []


@once
def own_folders(package: str) -> list[Path]:
    """Return the user's folders of a package of parts, in the order of Python's path as it is now."""
    ours = os.path.realpath(HOME.parent.joinpath(*package.split(".")))
    entries = [entry for entry in map(os.path.abspath, sys.path) if LIBRARIES.isdisjoint(Path(entry).parts)]
    places = dict.fromkeys(os.path.join(entry, package.rpartition(".")[2]) for entry in entries)
    return [Path(place) for place in places if os.path.isdir(place) and os.path.realpath(place) != ours]


@once
def has_own(package: str, name: str) -> bool:
    """Return whether the user has a part of this name in a folder of their own."""
    files = (f"{name}.py", os.path.join(name, "__init__.py"))  # asked for every point
    return any(os.path.isfile(os.path.join(place, file)) for place in own_folders(package) for file in files)


def load(module: str) -> ModuleType:
    """Import a module as its name leads to it now."""
    package, own, _ = module.partition(f".{OWN}.")
    above = f"{package}.{OWN}"
    if own and _package_of_own(above):
        loaded = sys.modules.get(module)
        if loaded is not None and loaded.__file__ != str(file_of(module)):  # of another folder
            for name in [name for name in sys.modules if name == above or name.startswith(f"{above}.")]:
                del sys.modules[name]
        if above not in sys.modules and (found := _spec_of_own(package)):
            sys.modules[above] = parent = module_from_spec(found)
            if found.loader is not None:
                found.loader.exec_module(parent)
        if above in sys.modules:
            sys.modules[above].__path__ = [*map(str, own_folders(package))]
    return import_module(module)


@contextmanager
def within_reach(*folders: Path) -> Iterator[None]:
    """Let Python find the user's modules in these folders too, after all others."""
    known = {str(Path(entry).absolute()) for entry in sys.path}
    new = [folder for folder in dict.fromkeys(str(folder.absolute()) for folder in folders) if folder not in known]
    sys.path += new
    try:
        yield
    finally:
        for folder in new:
            sys.path.remove(folder)


def is_fedsims(path: Path) -> bool:
    """Return whether a file is fedsim's own code."""
    return any(path.resolve().is_relative_to(folder) for folder in (HOME, HOME.parent / "algorithms"))


def is_own(path: Path) -> bool:
    """Return whether a file belongs to the project or the user, not to Python or a library.

    A library lies below a `site-packages` or `dist-packages`, of this environment or any other that Python's
    path names, or in a folder of the path with a record that it was installed there (`pip install --target`).
    """
    return not (_is_installed(path) or any(_is_recorded(path, os.path.abspath(entry)) for entry in sys.path))


@lru_cache(maxsize=4096)
def _is_installed(path: Path) -> bool:
    standard = [sysconfig.get_path(name) for name in ("stdlib", "platstdlib")]
    return any(
        not LIBRARIES.isdisjoint(one.parts) or any(one.is_relative_to(folder) for folder in standard)
        for one in (path, Path(os.path.realpath(path)))
    )


def _is_recorded(path: Path, entry: str) -> bool:
    return path.is_relative_to(entry) and path.relative_to(entry).parts[0] in _recorded(entry)


@lru_cache(maxsize=256)
def _recorded(entry: str) -> frozenset[str]:
    """Return the modules and packages that were installed into a folder of Python's path."""
    found = set[str]()
    for record in Path(entry).glob("*.dist-info/RECORD"):
        with suppress(OSError):
            lines = record.read_text(encoding="utf-8", errors="replace").splitlines()
            found |= {line.lstrip('"').partition(",")[0].partition("/")[0] for line in lines}
    return frozenset(found)


def _package_of_own(name: str) -> str:
    """Return the package of parts if this is the name of the user's folders of it, else ""."""
    package, _, last = name.rpartition(".")
    return package if last == OWN and package.partition(".")[0] in OURS else ""


def _spec_of_own(package: str) -> ModuleSpec | None:
    folders = [*map(str, own_folders(package))]
    first = next((path for folder in folders if os.path.isfile(path := os.path.join(folder, "__init__.py"))), None)
    if first is None:
        return _bare(f"{package}.{OWN}", folders)
    return spec_from_file_location(f"{package}.{OWN}", first, submodule_search_locations=folders)


def _search(name: str, folders: Iterable[str]) -> ModuleSpec | None:
    """Return where a module lies in its package's folders, as Python would with the package imported."""
    portions: list[str] = []  # folders without an `__init__.py`
    for folder in folders:
        importer = get_importer(folder)
        found = importer.find_spec(name) if importer else None
        if found is not None and found.loader is not None:
            return found
        portions += (found.submodule_search_locations or []) if found else []
    return _bare(name, portions)


def _bare(name: str, folders: list[str]) -> ModuleSpec | None:
    """Return the package of folders without an `__init__.py`, None if there is no folder."""
    spec = ModuleSpec(name, None, is_package=True)
    spec.submodule_search_locations = folders
    return spec if folders else None


def _ask_finders(name: str, path: tuple[str, ...] | None) -> ModuleSpec | None:
    for finder in sys.meta_path:
        within = finder is PathFinder and path is not None  # which raises KeyError if the package is not imported
        with suppress(Exception):  # of a finder of a third party that cannot tell
            found = _search(name, path or ()) if within else finder.find_spec(name, path)
            if found is not None:
                return found
    return None
