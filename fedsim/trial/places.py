"""Where in the author's code something happens: files that are the author's, lines of functions and of errors."""

import linecache
import sys
import traceback
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import Any

from fedsim.learn.algorithm import Algorithm
from fedsim.scenario import source

OWN = Path(__file__).resolve().parents[1]


class Author:
    """The author of an algorithm's class: what lies in its folder, and the files of the classes it descends from."""

    def __init__(self, cls: type[Algorithm]) -> None:
        """Know no file yet."""
        self._cls = cls
        self._known: dict[str, bool] = {}

    @cached_property
    def _files(self) -> tuple[Path, frozenset[Path]]:
        files = [getattr(sys.modules.get(one.__module__), "__file__", None) for one in self._cls.__mro__]
        found = [Path(file).resolve() for file in files if file]
        return found[0].parent, frozenset(found)

    def file(self) -> str:
        """Return the file of the class, as messages show it."""
        return source.shown(Path(sys.modules[self._cls.__module__].__file__ or ""))

    def wrote(self, file: str) -> bool:
        """Return whether a source file is the author's."""
        if file not in self._known:
            self._known[file] = self._wrote(Path(file).resolve())
        return self._known[file]

    def _wrote(self, path: Path) -> bool:
        folder, files = self._files
        if path.is_relative_to(OWN) or "site-packages" in path.parts or path.suffix != ".py":
            return False
        return path in files or path.is_relative_to(folder)

    def line_of_error(self, error: BaseException) -> str:
        """Return the innermost of the author's lines that an error has passed, "" where it has passed none."""
        frames = [frame for frame in traceback.extract_tb(error.__traceback__) if self.wrote(frame.filename)]
        if not frames and error.__cause__ is not None:
            return self.line_of_error(error.__cause__)
        return line(frames[-1].filename, frames[-1].lineno or 0) if frames else ""


def line(file: str, number: int) -> str:
    """Return "file:line" and what stands there."""
    text = linecache.getline(file, number).strip()
    return f"{source.shown(Path(file))}:{number}" + (f": {text}" if text else "")


def method(owner: Any, name: str) -> str:
    """Return "file:line" of a method's definition, "" where it has none."""
    found = getattr(owner, name, None)
    return definition(found) if callable(found) else ""


def definition(function: Callable[..., Any]) -> str:
    """Return "file:line" of a function's definition; of a partial one, that of the function inside."""
    while not hasattr(function, "__code__") and callable(inner := getattr(function, "func", None)):
        function = inner
    return source.line_of(function)
