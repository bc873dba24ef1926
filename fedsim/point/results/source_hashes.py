"""What a module needs to run: the modules that it imports, directly or not, and a hash of the source of each.

Imports are read from the sources, anywhere except under TYPE_CHECKING; nothing is imported.  Modules of the project and
of the user are followed; those of Python and of libraries (`lookup.is_own`) are listed by their top package only.
What the package `fedsim` imports from elsewhere is a library wherever it lies.  Not covered: imports under computed
names; and other libraries that were copied by hand into a folder of another name, without a record of their
installation, which are followed as the user's own.

Two sources have the same hash if they differ only in comments, docstrings and layout.
"""

import ast
import hashlib
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib.util import resolve_name
from pathlib import Path
from typing import Any

from fedsim.core.asking import once
from fedsim.scenario.parts import lookup

PLAIN = ("ctx", "kind", "type_comment")  # fields of Python's syntax trees that change nothing, or repeat others


@dataclass(frozen=True)
class Source:
    """A source file as read: its hash, and the dotted names that it imports, with those that may be in a module."""

    hash: str
    imported: tuple[tuple[str, str], ...]  # module, and a name in it or ""


SourcesByFile = dict[tuple[str, int, int], Source]  # by path, time of the last change in nanoseconds, and size


@dataclass(frozen=True)
class Needed:
    """Modules by their names, with their files, and the top packages of the libraries that they import."""

    modules: dict[str, Path]
    libraries: set[str]


def read(path: Path) -> Source | None:
    """Return a source as it is now, read again only if it has changed; None if it cannot be read."""
    try:
        now = path.stat()
        key = str(path), now.st_mtime_ns, now.st_size
        sources = _sources()
        return sources[key] if key in sources else sources.setdefault(key, _read(path))
    except OSError:
        return None


@once
def hash_of(path: Path) -> str:
    """Return the hash of a source as it is now, "" if it cannot be read."""
    source = read(path)
    return source.hash if source else ""


def known() -> SourcesByFile:
    """Return every source that this process has read, to pass on to a process that it starts."""
    return dict(_sources())


def know(sources: SourcesByFile) -> None:
    """Use what another process has read; files that have changed since are read again."""
    _sources().update(sources)


def needed(roots: Iterable[str], left_out: Iterable[str] = ()) -> Needed:
    """Return every module that those in `roots` need, themselves included, and the libraries that they name.

    The first root is fedsim's own; the files of parts, which may import modules of the user's, follow.
    Modules that only those of `left_out` need are left out too.
    """
    asked = tuple(dict.fromkeys(roots)), tuple(sorted({*left_out}))
    first, hashes = _first(*asked)
    return first if hashes == _hashes(first) else _needed(*asked)  # points of a sweep share their modules


@lru_cache(maxsize=256)
def _first(roots: tuple[str, ...], left_out: tuple[str, ...]) -> tuple[Needed, list[str]]:
    needed = _needed(roots, left_out)
    return needed, _hashes(needed)


def _hashes(needed: Needed) -> list[str]:
    return [hash_of(path) for path in needed.modules.values()]


def _needed(roots: tuple[str, ...], left_out: tuple[str, ...]) -> Needed:
    wanted, modules = [*reversed(roots)], dict[str, Path]()  # the first is followed first
    libraries, known, seen = set[str](), {*sys.stdlib_module_names}, {*left_out}
    file_of = cache(lookup.file_of)  # most modules are imported by several
    while wanted:
        module = wanted.pop()
        if module in seen:
            continue
        seen.add(module)
        top = module.partition(".")[0]
        path = None if top in known else file_of(module)
        if path is None or not (top in lookup.OURS or lookup.is_own(path)):
            libraries |= {top} - {*lookup.OURS}
            continue
        modules[module] = path
        wanted += [module.rpartition(".")[0]] if "." in module else []
        text = read(path) if path.suffix == ".py" else None
        fixed = module not in roots[1:] and path.is_relative_to(lookup.HOME)  # imports nothing of the user's
        package = module if path.name == "__init__.py" else module.rpartition(".")[0]
        for target, name in text.imported if text else ():
            with suppress(ImportError):  # a name above the top package, reported when it is imported
                resolved = resolve_name(target, package)
                if fixed and (library := resolved.partition(".")[0]) not in lookup.OURS:
                    libraries.add(library)
                    known.add(library)
                else:
                    wanted += [resolved, *_submodule(resolved, name, file_of)]
    return Needed(modules, libraries - {*sys.stdlib_module_names})


def _submodule(module: str, name: str, file_of: Callable[[str], Path | None]) -> list[str]:
    """Return the module that `from MODULE import NAME` names, if it is one."""
    top = module.partition(".")[0]
    if not name or top in sys.stdlib_module_names:
        return []
    path = file_of(module)
    package = path is None or path.name == "__init__.py"  # None: a folder without one
    if not package or (path is not None and top not in lookup.OURS and not lookup.is_own(path)):
        return []
    inner = f"{module}.{name}"
    return [inner] if file_of(inner) is not None else []


@lru_cache(maxsize=1)
def _sources() -> SourcesByFile:
    # What this process has read, to share with others.
    return {}


def _read(path: Path) -> Source:
    data = path.read_bytes()
    try:
        tree = ast.parse(data)
    except (SyntaxError, ValueError):  # reported when it is imported
        return Source(_hash(data), ())
    words: list[str] = []
    _tell(tree, words)
    text = " ".join(words).encode("utf-8", "surrogatepass")
    return Source(_hash(text), tuple(dict.fromkeys(_imported(tree))))


def _hash(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=10).hexdigest()


def _imported(node: ast.AST) -> Iterator[tuple[str, str]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import):
            yield from ((alias.name, "") for alias in child.names)
        elif isinstance(child, ast.ImportFrom):
            yield from (("." * child.level + (child.module or ""), alias.name) for alias in child.names)
        elif isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
            for other in child.orelse:
                yield from _imported(other)
        elif isinstance(child, ast.stmt | ast.excepthandler | ast.match_case):
            yield from _imported(child)


DOCUMENTED = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def _tell(value: object, words: list[str]) -> None:
    """Add what a syntax tree says, without docstrings, empty fields and places, so that versions of Python agree."""
    if isinstance(value, ast.AST):
        words.append(type(value).__name__)
        for name in value._fields:
            inner: Any = getattr(value, name, None)
            if name in PLAIN or (inner is None and not isinstance(value, ast.Constant)):
                continue
            if name == "body" and isinstance(value, DOCUMENTED) and ast.get_docstring(value, clean=False) is not None:
                inner = inner[1:]
            if inner == []:
                continue
            words.append(name)
            _tell(inner, words)
        words.append(")")
    elif isinstance(value, list):
        words.append("[")
        for inner in value:
            _tell(inner, words)
        words.append("]")
    else:
        words.append(repr(value))
