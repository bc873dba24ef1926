"""Read the options of a file's class from its source, without importing it, and so without torch.

Base classes are followed through imports as far as their sources can be found.  Types are quoted, not evaluated:
values are validated when the class is built.  Not covered: classes made at run time.
"""

import ast
import inspect
from collections.abc import Callable
from dataclasses import Field, dataclass, field, is_dataclass
from dataclasses import fields as dataclass_fields
from functools import lru_cache
from pathlib import Path
from typing import Any

from fedsim.scenario.lookup import file_of

NO_OPTION = ("init=False", "'option': False")  # the metadata key of a field that is not an option


@dataclass
class Outline:
    """A class as its source declares it: its options (True: required), and whether it implements the contract."""

    options: dict[str, bool] = field(default_factory=dict)
    is_kind: bool = False
    certain: bool = True  # False where a base class could not be found


@dataclass(frozen=True)
class Line:
    """An option as its class declares it: the module that does, and the type and the default (None: required) there."""

    module: str
    annotation: ast.expr
    value: ast.expr | None


def shown(path: Path) -> str:
    """Return the path as messages show it: relative to the project or working folder if inside."""
    for root in (Path(__file__).resolve().parents[2], Path.cwd()):
        if path.resolve().is_relative_to(root):
            return path.resolve().relative_to(root).as_posix()
    return str(path)


def line_of(function: Callable[..., Any]) -> str:
    """Return "file:line" of a function's definition, "" if it has no source, such as one written in C."""
    code = getattr(inspect.unwrap(function), "__code__", None)
    return f"{shown(Path(code.co_filename))}:{code.co_firstlineno}" if code else ""


def outlines(module: str, contract: tuple[str, str]) -> dict[str, Outline]:
    """Return the outline of every class that the module defines and that may descend from the contract.

    Raises SyntaxError or OSError where the source cannot be read.
    """
    path = file_of(module)
    tree = _parse(path) if path else None
    names = [node.name for node in tree.body if isinstance(node, ast.ClassDef)] if tree else []
    found = {name: _outline(module, name, contract, frozenset()) for name in names if not name.startswith("_")}
    return {name: outline for name, outline in found.items() if outline.is_kind or not outline.certain}


def fields(module: str, name: str) -> dict[str, Line]:
    """Return the options of a class, those of its base classes first, as far as their sources can be found.

    Raises SyntaxError or OSError where a source cannot be read.
    """
    found: dict[str, Line] = {}
    for owner, node in reversed(_lineage(module, name, frozenset())):
        if any(_is_dataclass(decorator) for decorator in node.decorator_list):
            own = _fields(node)
            for line in node.body:
                if isinstance(line, ast.AnnAssign) and isinstance(line.target, ast.Name) and line.target.id in own:
                    found[line.target.id] = Line(owner, line.annotation, line.value)
    return found


def option_fields(cls: type[Any]) -> "list[Field[Any]]":
    """Return the fields of an imported class that are options: passed when it is built, and not filled by a run."""
    known = dataclass_fields(cls) if is_dataclass(cls) else ()
    return [one for one in known if one.init and one.metadata.get("option", True)]


def origin(module: str, node: ast.expr) -> tuple[str, str] | None:
    """Resolve a name in this module, dotted or not, to the module that defines it and its name there."""
    path = file_of(module)
    if path is None or path.suffix != ".py" or not isinstance(node, ast.Name | ast.Attribute):
        return None
    return _target(node, module, _imports(_parse(path), module))


def constant(module: str, name: str) -> ast.expr | None:
    """Return the expression assigned to a name at the top of a module, None if there is not exactly one."""
    path = file_of(module)
    if path is None or path.suffix != ".py":
        return None
    tree = _parse(path)
    names = [node for node in ast.walk(tree) if isinstance(node, ast.Name) and node.id == name]
    found = [node for node in names if not isinstance(node.ctx, ast.Load)]
    for node in tree.body if len(found) == 1 else ():
        if (isinstance(node, ast.Assign) and node.targets == found) or (
            isinstance(node, ast.AnnAssign) and node.target is found[0]
        ):
            return node.value
    return None


def literals(module: str, contract: tuple[str, str], attribute: str) -> list[str]:
    """Return the texts of a class attribute that one class of the contract sets to a literal list or tuple of texts.

    Empty if no class of the module sets it: an inherited value is known once the module is imported.
    """
    path, classes = file_of(module), outlines(module, contract)
    body = _parse(path).body if path else []
    lines = [line for node in body if isinstance(node, ast.ClassDef) and node.name in classes for line in node.body]
    for line in lines:
        targets = [line.target] if isinstance(line, ast.AnnAssign) else getattr(line, "targets", [])
        if isinstance(line, ast.AnnAssign | ast.Assign) and [*map(ast.unparse, targets)] == [attribute]:
            elements = line.value.elts if isinstance(line.value, ast.Tuple | ast.List) else []
            return [str(element.value) for element in elements if isinstance(element, ast.Constant)]
    return []


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


def _outline(module: str, name: str, contract: tuple[str, str], seen: frozenset[tuple[str, str]]) -> Outline:
    path = file_of(module)
    if path is None or path.suffix != ".py" or (module, name) in seen:
        return Outline(certain=False)
    tree = _parse(path)
    names = _imports(tree, module)
    node = next((n for n in tree.body if isinstance(n, ast.ClassDef) and n.name == name), None)
    if node is None:  # imported from elsewhere
        return _outline(*names[name], contract, seen | {(module, name)}) if name in names else Outline(certain=False)
    result = Outline(is_kind=(module, name) == contract)
    for base in reversed(node.bases):
        if (target := _target(base, module, names)) in HARMLESS:
            continue
        above = _outline(*target, contract, seen | {(module, name)}) if target else Outline(certain=False)
        result.options |= above.options
        result.is_kind |= above.is_kind
        result.certain &= above.certain or above.is_kind
    if any(_is_dataclass(decorator) for decorator in node.decorator_list):
        result.options |= _fields(node)
    return result


def _lineage(module: str, name: str, seen: frozenset[tuple[str, str]]) -> list[tuple[str, ast.ClassDef]]:
    """Return a class and those it descends from, nearest first; those whose source cannot be found are left out."""
    path = file_of(module)
    if path is None or path.suffix != ".py" or (module, name) in seen:
        return []
    tree = _parse(path)
    names, seen = _imports(tree, module), seen | {(module, name)}
    node = next((n for n in tree.body if isinstance(n, ast.ClassDef) and n.name == name), None)
    if node is None:  # imported from elsewhere
        return _lineage(*names[name], seen) if name in names else []
    targets = [_target(base, module, names) for base in node.bases]
    above = [_lineage(*target, seen) for target in targets if target is not None and target not in HARMLESS]
    return [(module, node), *(one for lineage in above for one in lineage)]


HARMLESS = {("abc", "ABC"), ("typing", "Generic"), ("typing", "Protocol"), ("builtins", "object")}


def _imports(tree: ast.Module, module: str) -> dict[str, tuple[str, str]]:
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
    """Return the parts of the package that leading dots mean: one dot is the module's package, or a package itself."""
    steps, path = module.split("."), file_of(module)
    package = path is not None and path.name == "__init__.py"
    return steps[: len(steps) - dots + package]


def _target(base: ast.expr, module: str, names: dict[str, tuple[str, str]]) -> tuple[str, str] | None:
    if isinstance(base, ast.Subscript):
        base = base.value
    text = ast.unparse(base)
    first, _, rest = text.partition(".")
    if not rest:
        return names.get(text, (module, text) if text != "object" else ("builtins", "object"))
    owner, last = text.rsplit(".", 1)
    if first in names:
        source, inner = names[first]
        owner = ".".join([source, *([inner] if inner else []), *owner.split(".")[1:]])
    return owner, last


def _is_dataclass(decorator: ast.expr) -> bool:
    call = decorator.func if isinstance(decorator, ast.Call) else decorator
    return ast.unparse(call).split(".")[-1] == "dataclass"


def _fields(node: ast.ClassDef) -> dict[str, bool]:
    found = {}
    for line in node.body:
        if not isinstance(line, ast.AnnAssign) or not isinstance(line.target, ast.Name):
            continue
        hidden = isinstance(line.value, ast.Call) and any(mark in ast.unparse(line.value) for mark in NO_OPTION)
        if "ClassVar" not in ast.unparse(line.annotation) and not hidden:
            found[line.target.id] = line.value is None
    return found
