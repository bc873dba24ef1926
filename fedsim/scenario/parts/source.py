"""Sources of parts: which files define one, what they say of themselves, and where an error in them lies.

`defines` reads a file without running it, because a file of the user's may have nothing to do with fedsim.
Base classes are followed through imports as far as their sources can be found.  Not covered: classes made at
run time.
"""

import ast
import inspect
import traceback
from collections.abc import Callable
from dataclasses import Field, is_dataclass
from dataclasses import fields as dataclass_fields
from functools import lru_cache
from pathlib import Path
from typing import Any

from fedsim.core.asking import once
from fedsim.scenario.parts import lookup
from fedsim.scenario.parts.lookup import file_of


@once
def shown(path: Path) -> str:
    """Return the path as messages show it: relative to the project or working folder if inside."""
    for root in (Path(__file__).resolve().parents[3], Path.cwd()):
        if path.resolve().is_relative_to(root):
            return path.resolve().relative_to(root).as_posix()
    return str(path)


def line_of(function: Callable[..., Any]) -> str:
    """Return "file:line" of a function's definition, "" if it has no source, such as one written in C.

    Of a partial function it is that of the function inside.
    """
    while not hasattr(function, "__code__") and callable(inner := getattr(function, "func", None)):
        function = inner
    code = getattr(inspect.unwrap(function), "__code__", None)
    return f"{shown(Path(code.co_filename))}:{code.co_firstlineno}" if code else ""


def place_of(error: BaseException) -> str:
    """Return "FILE, line N" of the innermost call in a file that is neither fedsim's nor a library's, or "".

    Algorithms of fedsim's count as the user's: who works on one wants to know the line too.
    """
    first = error.__cause__  # SimPy raises a copy of what a process has raised
    if first is not None and (found := place_of(first)):
        return found
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        path = Path(frame.filename)
        if path.suffix == ".py" and path.is_file() and lookup.is_own(path) and not path.is_relative_to(lookup.HOME):
            return f"{shown(path)}, line {frame.lineno}"
    return ""


def in_a_line(error: BaseException) -> str:
    """Return an error's class and the first line of its message; the last where the first is blank."""
    lines = str(error).splitlines() or [""]
    return f"{type(error).__name__}: {lines[0] or lines[-1]}"


def defines(module: str, contract: tuple[str, str]) -> bool:
    """Return whether a public class of the module descends from the contract, a module and a class.

    Raises SyntaxError or OSError where the source cannot be read.
    """
    path = file_of(module)
    names = [node.name for node in _parse(path).body if isinstance(node, ast.ClassDef)] if path else []
    return any(_descends(module, name, contract, frozenset()) for name in names if not name.startswith("_"))


def option_fields(cls: type[Any]) -> "list[Field[Any]]":
    """Return the fields of a class that are options: passed when it is built, not filled by a run."""
    known = dataclass_fields(cls) if is_dataclass(cls) else ()
    return [one for one in known if one.init and one.metadata.get("option", True)]


def docstring(module: str) -> str:
    """Return the docstring of a module, "" if it has none or there is no such module."""
    path = file_of(module)
    return (ast.get_docstring(_parse(path)) or "") if path else ""


def _parse(path: Path) -> ast.Module:
    now = path.stat()
    return _parsed(path, now.st_mtime_ns, now.st_size)


@lru_cache(maxsize=256)
def _parsed(path: Path, changed: int, size: int) -> ast.Module:
    # A sweep reads the same few files for every point; a file that has changed is read again.
    return ast.parse(path.read_text(encoding="utf-8"), filename=str(path))


def _descends(module: str, name: str, contract: tuple[str, str], seen: frozenset[tuple[str, str]]) -> bool:
    path = file_of(module)
    if (module, name) == contract or path is None or path.suffix != ".py" or (module, name) in seen:
        return (module, name) == contract
    tree, seen = _parse(path), seen | {(module, name)}
    imported = _imports(tree, module)
    node = next((n for n in tree.body if isinstance(n, ast.ClassDef) and n.name == name), None)
    if node is None:  # imported from elsewhere
        return name in imported and _descends(*imported[name], contract, seen)
    return any(_descends(*_target(base, module, imported), contract, seen) for base in node.bases)


def _imports(tree: ast.Module, module: str) -> dict[str, tuple[str, str]]:
    """Return the module and the name in it ("": the module itself) of each name that a file imports."""
    names: dict[str, tuple[str, str]] = {}
    for node in tree.body:
        if isinstance(node, ast.ImportFrom):
            above = _above(module, node.level) if node.level else []
            source = ".".join([*above, *([node.module] if node.module else [])])
            names |= {alias.asname or alias.name: (source, alias.name) for alias in node.names}
        elif isinstance(node, ast.Import):
            names |= {alias.asname: (alias.name, "") for alias in node.names if alias.asname}
    return names


def _above(module: str, dots: int) -> list[str]:
    """Return the parts of the package that leading dots mean: one dot is the module's package."""
    steps, path = module.split("."), file_of(module)
    package = path is not None and path.name == "__init__.py"
    return steps[: len(steps) - dots + package]


def _target(base: ast.expr, module: str, imported: dict[str, tuple[str, str]]) -> tuple[str, str]:
    """Return the module and the name of a base class."""
    text = ast.unparse(base.value if isinstance(base, ast.Subscript) else base)
    owner, dot, name = text.rpartition(".")
    if not dot:
        return imported.get(text, (module, text))
    first, _, rest = owner.partition(".")
    return ".".join(filter(None, (*imported.get(first, (first,)), rest))), name
