"""A Python file as a module that scenarios can name, wherever it lies."""

import importlib
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType

from fedsim.core.errors import UserError
from fedsim.scenario.parts import find, lookup

PACKAGE = "tried"  # of a file that no folder on Python's path reaches under a dotted name


def is_file(name: str) -> bool:
    """Return whether a word means a file and not a name."""
    return name.endswith(".py") or "/" in name or "\\" in name


def module(name: str) -> str:
    """Return the name under which scenarios find the file, or the folder with an `__init__.py`.

    Raises UserError where there is no such file.
    """
    path = Path(name).resolve()
    path = path / "__init__.py" if path.is_dir() else path
    if not path.is_file():
        raise UserError(f"--try {name}: there is no such file")
    own = path.parent if path.name == "__init__.py" else path.with_suffix("")
    if path.suffix != ".py" or not own.name.isidentifier() or own.name.startswith("_"):
        raise UserError(f"--try {name}: give a file of Python whose name is an identifier, such as mine.py")
    if _leads_to(find.module_of("algorithm", own.name) or "", path):
        return own.name
    for folder in [Path(entry or ".").resolve() for entry in sys.path]:
        steps = own.relative_to(folder).parts if own.is_relative_to(folder) else ()
        dotted = ".".join(steps)
        if len(steps) > 1 and all(step.isidentifier() for step in steps) and _leads_to(dotted, path):
            return dotted
    _forget()
    sys.meta_path.append(_Beside(own.parent))
    if str(own.parent) not in sys.path:
        sys.path.append(str(own.parent))  # so that it finds what lies beside it, as a script does
    return f"{PACKAGE}.{own.name}"


def _forget() -> None:
    """Make room for another folder's files under the name of the package."""
    sys.meta_path[:] = [finder for finder in sys.meta_path if not isinstance(finder, _Beside)]
    for name in [name for name in sys.modules if name.partition(".")[0] == PACKAGE]:
        del sys.modules[name]
    importlib.invalidate_caches()


def _leads_to(dotted: str, path: Path) -> bool:
    found = lookup.file_of(dotted)
    return found is not None and found.resolve() == path


class _Beside:
    """Finds the package `tried`, whose modules are the files of one folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        if name != PACKAGE:
            return None
        spec = ModuleSpec(PACKAGE, None, is_package=True)
        spec.submodule_search_locations = [str(self._folder)]
        return spec
