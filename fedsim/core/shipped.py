"""Where the folders of parts are found, so that ours and a user's folders of the same names live together.

A checkout has `algorithms` and `analysis` at its top; a wheel carries them below `fedsim`, where they hide nobody's.
Once fedsim is imported, `algorithms.NAME` and `analysis.NAME` are ours, or else the user's: of a folder of that name in
any place on Python's path, with or without an `__init__.py`.  Where both have a NAME, the user's is
`algorithms.own.NAME`, which a scenario prefers (`find.module_of`).  What the user's `__init__.py`, or a file
`analysis.py`, defines is found in `algorithms` or `analysis` too, and runs only when it is asked for.

The other parts are in packages of `fedsim`, such as `fedsim.learn.models`.  What a user's folder `models` holds is
`fedsim.learn.models.own.NAME`.  Folders of that name among installed libraries are not searched, since theirs are
others' words: there is a library `datasets`.

Not modelled: `import analysis` before fedsim is imported finds whatever Python finds.
"""

import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from importlib.util import spec_from_file_location
from pathlib import Path
from pkgutil import get_importer
from types import ModuleType
from typing import Any

PACKAGES = ("algorithms", "analysis")
HOME = Path(__file__).resolve().parents[1]  # the folder of the package `fedsim`
BELOW = "_shipped"  # the folder of a wheel that has them; setup.py puts them there
OWN = "own"
LIBRARIES = {"site-packages", "dist-packages"}  # the folders, of any environment, into which libraries are installed


class Finder:
    """Finds the modules of both packages, ours before the user's, and the user's of the packages of `fedsim`."""

    def __init__(self, root: Path) -> None:
        """Take the folder in which ours lie."""
        self.root = root

    def find_spec(self, name: str, path: Sequence[str] | None = None, target: Any = None) -> ModuleSpec | None:
        """Return where a module is, None where it is not for this finder to say."""
        if name.startswith("fedsim."):
            return self._below(*name.partition(f".{OWN}"))
        package, *steps = name.split(".")
        if package not in PACKAGES:
            return None
        ours = self.root / package
        match steps:
            case []:
                loader = _Loader(package, str(ours / "__init__.py"))
                return spec_from_file_location(
                    package, loader.path, loader=loader, submodule_search_locations=[str(ours)]
                )
            case [step] if step == OWN:
                return _own(package, self.folders(package), ours)
            case [step, _] if step == OWN:
                return search(name, self.folders(package))
            case [_]:
                return search(name, [str(ours), *self.folders(package)])
        return None

    def _below(self, package: str, own: str, rest: str) -> ModuleSpec | None:
        """Return where the user's folder of a package of `fedsim`, or a module in it, is."""
        if not own or rest[:1] not in ("", ".") or rest.count(".") > 1:
            return None
        folders = self.folders(package)
        if rest:
            return search(f"{package}.{OWN}{rest}", folders)
        first = next((path for one in folders if os.path.isfile(path := os.path.join(one, "__init__.py"))), None)
        if first is None:
            return _bare(f"{package}.{OWN}", folders)
        return spec_from_file_location(f"{package}.{OWN}", first, submodule_search_locations=folders)

    def ours(self, package: str) -> str:
        """Return fedsim's folder of a package."""
        top, *steps = package.split(".")
        return str((HOME if top == HOME.name else self.root / top).joinpath(*steps))

    def folders(self, package: str) -> list[str]:
        """Return the user's folders of a package, in the order of Python's path as it is now."""
        entries = [entry for entry in map(os.path.abspath, sys.path) if package in PACKAGES or _is_users(entry)]
        places = dict.fromkeys(os.path.join(entry, package.rpartition(".")[2]) for entry in entries)
        ours = os.path.realpath(self.ours(package))
        return [place for place in places if os.path.isdir(place) and os.path.realpath(place) != ours]


class _Loader(SourceFileLoader):
    """Loads a package of ours, in which names of the user's package can be looked up."""

    def exec_module(self, module: ModuleType) -> None:
        super().exec_module(module)
        _open(module)


def install(home: Path) -> None:
    """Find both packages from now on; `home` is the folder of fedsim."""
    root = home / BELOW if (home / BELOW).is_dir() else home.parent
    if finder() is not None or not all((root / package / "__init__.py").is_file() for package in PACKAGES):
        return
    sys.meta_path.insert(0, Finder(root))
    for name, module in [*sys.modules.items()]:
        package, *steps = name.split(".")
        if package not in PACKAGES:
            continue
        if Path(getattr(module, "__file__", None) or "").is_relative_to(root / package):
            if not steps:
                _open(module)
        elif not steps or _has(str(root / package), steps[0]):  # the user's, imported before fedsim
            sys.modules[".".join([package, OWN, *steps])] = sys.modules.pop(name)


def search(name: str, folders: Iterable[str]) -> ModuleSpec | None:
    """Return where a module lies in the folders of its package, as Python would once the package were imported."""
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


def finder() -> Finder | None:
    """Return the finder that this process uses, None before it is installed."""
    return next((one for one in sys.meta_path if isinstance(one, Finder)), None)


def folders(package: str) -> list[Path]:
    """Return the user's folders of a package of parts."""
    found = finder()
    return [Path(place) for place in found.folders(package)] if found else []


def searched(name: str) -> list[str]:
    """Return the user's folders that are searched for a module, besides those of Python's path and of its package."""
    found, (package, own, _) = finder(), name.partition(f".{OWN}")
    top = package if own and name.startswith("fedsim.") else name.partition(".")[0]
    return found.folders(top) if found and (own or top in PACKAGES) else []


def preferred(package: str, name: str) -> str:
    """Return the module that a name stands for: where the user and fedsim have one each, the user's."""
    found = finder()
    if found is None or not any(_has(place, name) for place in found.folders(package)):
        return f"{package}.{name}"
    alone = package in PACKAGES and not _has(found.ours(package), name)
    return f"{package}.{name}" if alone else f"{package}.{OWN}.{name}"


def _is_users(entry: str) -> bool:
    return LIBRARIES.isdisjoint(Path(entry).parts)


def _has(folder: str, name: str) -> bool:  # asked for every point
    return os.path.isfile(os.path.join(folder, f"{name}.py")) or os.path.isfile(
        os.path.join(folder, name, "__init__.py")
    )


def _own(package: str, folders: list[str], ours: Path) -> ModuleSpec | None:
    """Return the user's package as a part of ours: a file or a folder of its name."""
    for entry in dict.fromkeys(sys.path):
        found = PathFinder.find_spec(package, [entry])
        if found and found.has_location and found.origin and Path(found.origin).resolve().parent != ours:
            return spec_from_file_location(f"{package}.{OWN}", found.origin, submodule_search_locations=folders)
    return _bare(f"{package}.{OWN}", folders)


def _open(module: ModuleType) -> None:
    module.__getattr__ = partial(_theirs, module.__name__)  # type: ignore[method-assign]


def _theirs(package: str, name: str) -> Any:
    """Return what the user's package defines under a name.  Raises AttributeError where it defines none."""
    found, own = finder(), f"{package}.{OWN}"
    if name == OWN and own in sys.modules:  # imported before fedsim, so not as a part of ours
        return sys.modules[own]
    if found and not name.startswith("__") and name != OWN and not found.find_spec(f"{package}.{name}"):
        try:
            return getattr(import_module(own), name)
        except ModuleNotFoundError as error:
            if error.name != own:
                raise
    raise AttributeError(f"module {package!r} has no attribute {name!r}")
