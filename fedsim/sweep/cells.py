"""Extract the source of a class from a notebook, script or module, with all that it needs, as one file.

The names that the class uses are looked up where it was defined.  Modules, and what can be imported from them, become
imports; constants become assignments; classes and functions defined there are included with their source.  Anything
else (an array, a variable of an enclosing function) is refused.
Not modelled: names that are only known when the class runs (`globals()["f"]`), and what imported modules hold.
"""

import ast
import builtins
import inspect
import linecache
import symtable
import sys
import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import FunctionType, ModuleType
from typing import Any

from fedsim.core.errors import UserError

NOTHING = object()  # a sentinel
REMEDY = "put the class into its own module, such as mylab/mine.py, and use that"


def source_of(cls: type) -> str:
    """Return the text of a module that defines the class.  Raises UserError, naming the obstacle, on failure."""
    place = _namespace(cls)
    gathered = _Gathered(cls.__name__, place, _texts(cls, place))
    gathered.add(cls.__name__, cls)
    head = ["from __future__ import annotations"] if _postponed(cls) else []
    docstring = f'"""The class {cls.__name__}, saved by fedsim.simulate with what it uses."""'
    return (
        "\n\n".join([docstring, *head, "\n".join(sorted(gathered.imports)), *gathered.parts]).replace(
            "\n\n\n\n", "\n\n"
        )
        + "\n"
    )


@dataclass
class _Gathered:
    """The contents of the file: imports, then definitions, each after those that it uses."""

    wanted: str
    place: Mapping[str, Any]
    texts: list[str]
    imports: set[str] = field(default_factory=set)
    parts: list[str] = field(default_factory=list)
    seen: set[str] = field(default_factory=set)

    def add(self, name: str, value: Any) -> None:
        """Add what the name refers to, and what that uses."""
        if name in self.seen:
            return
        self.seen.add(name)
        if found := self._import(name, value):
            self.imports.add(found)
        elif isinstance(value, type | FunctionType):
            text = definition(value, self.place)
            for used in _used(text):
                if used in self.place:
                    self.add(used, self.place[used])
                elif "<locals>" in value.__qualname__ and not hasattr(builtins, used) and used != value.__name__:
                    message = f"it uses {used!r}, which is known only inside a function"
                    raise UserError(f"the class {self.wanted} cannot be carried over: {message}; {REMEDY}")
            self.parts.append(text if value.__name__ == name else f"{text}\n\n{name} = {value.__name__}")
        elif _is_constant(value):
            self.parts.append(f"{name} = {value!r}")
        else:
            message = f"it uses {name!r}, a {type(value).__name__}, which is no constant, class, function or module"
            raise UserError(
                f"the class {self.wanted} cannot be carried over: {message}; make it an option, or {REMEDY}"
            )

    def _import(self, name: str, value: Any) -> str | None:
        if isinstance(value, ModuleType):
            same = value.__name__ == name
            return f"import {name}" if same else f"import {value.__name__} as {name}"
        own = str(self.place.get("__name__", "__main__"))
        for text in self.texts:
            for module, original in _imported(text, name):
                if module != own and _at(module, original) is value:
                    return _line(module, original, name)
        home, known = str(getattr(value, "__module__", "")), str(getattr(value, "__qualname__", ""))
        if home not in ("__main__", own) and _at(home, known) is value:
            return _line(home, known, name)
        elsewhere = not isinstance(value, type | FunctionType) and not _is_constant(value)
        holders = [one for one in sorted(sys.modules) if _at(one, name) is value and one not in ("__main__", own)]
        ours = [one for one in holders if one.startswith("fedsim.")]
        return _line((ours or holders)[0], name, name) if elsewhere and holders else None


def definition(value: Any, place: Mapping[str, Any]) -> str:
    """Return the source of a class or function alone.  Raises UserError if it is not available."""
    kinds = (ast.ClassDef,) if isinstance(value, type) else (ast.FunctionDef, ast.AsyncFunctionDef)
    functions = [*_functions(value)] if isinstance(value, type) else [value]
    for function in functions:
        code = function.__code__
        text = "".join(linecache.getlines(code.co_filename))
        for node, found in _defined(text, value.__name__, kinds):
            if node.lineno - len(node.decorator_list) <= code.co_firstlineno <= (node.end_lineno or 0):
                return found
    try:
        return textwrap.dedent(inspect.getsource(value)).strip()
    except (OSError, TypeError):
        pass
    for cell in reversed([text for text in place.get("In", ()) if isinstance(text, str)]):  # IPython's history
        for _, found in _defined(cell, value.__name__, kinds):
            return found
    raise UserError(f"the source of {value.__name__} is not available, so other processes could not run it; {REMEDY}")


def _namespace(cls: type) -> Mapping[str, Any]:
    for function in _functions(cls):
        return function.__globals__
    return vars(sys.modules[cls.__module__]) if cls.__module__ in sys.modules else {}


def _functions(cls: type) -> Iterator[FunctionType]:
    """Yield the functions defined in the class itself; those that dataclasses generate have no source."""
    for value in vars(cls).values():
        inner = value.fget if isinstance(value, property) else getattr(value, "__func__", value)
        inner = inspect.unwrap(inner) if callable(inner) else None
        if not isinstance(inner, FunctionType) or inner.__module__ != cls.__module__:
            continue
        if inner.__code__.co_filename != "<string>":
            yield inner


def _texts(cls: type, place: Mapping[str, Any]) -> list[str]:
    """Return the texts to search for imports: of the file or cell, and of all cells, the latest first."""
    files = dict.fromkeys(function.__code__.co_filename for function in _functions(cls))
    own = place.get("__file__")
    files |= {own: None} if isinstance(own, str) and own.endswith(".py") else {}
    cells = [text for text in place.get("In", ()) if isinstance(text, str)]
    return [*("".join(linecache.getlines(file)) for file in files), *reversed(cells)]


def _defined(text: str, name: str, kinds: tuple[Any, ...]) -> Iterator[tuple[Any, str]]:
    """Yield each definition of that name in a text, and its source."""
    tree, lines = _tree(text), text.splitlines()
    for node in ast.walk(tree) if tree else ():
        if isinstance(node, kinds) and node.name == name:
            first = min([node.lineno, *(one.lineno for one in node.decorator_list)])
            yield node, textwrap.dedent("\n".join(lines[first - 1 : node.end_lineno]))


def _imported(text: str, name: str) -> Iterator[tuple[str, str]]:
    """Yield the module from which a text imports a name, and the name there."""
    for node in ast.walk(tree) if (tree := _tree(text)) else ():
        if isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield from ((node.module, alias.name) for alias in node.names if (alias.asname or alias.name) == name)


def _tree(text: str) -> ast.Module | None:
    try:
        return ast.parse(text)
    except (SyntaxError, ValueError):  # a cell with IPython's own commands
        return None


def _used(text: str) -> list[str]:
    """Return the names that a definition uses from outside, including those in quoted annotations."""

    def tables(table: symtable.SymbolTable) -> Iterator[symtable.SymbolTable]:
        yield table
        for child in table.get_children():
            yield from tables(child)

    top = symtable.symtable(text, "<carried>", "exec")
    names = {s.get_name() for s in top.get_symbols() if s.is_referenced() and not s.is_assigned()}
    names |= {s.get_name() for table in tables(top) if table is not top for s in table.get_symbols() if s.is_global()}
    for node in ast.walk(ast.parse(text)):
        hint = getattr(node, "annotation", None) or getattr(node, "returns", None)
        if isinstance(hint, ast.Constant) and isinstance(hint.value, str) and (inner := _tree(hint.value)):
            names |= {one.id for one in ast.walk(inner) if isinstance(one, ast.Name)}
    return sorted(names)


def _at(module: str, name: str) -> Any:
    """Return the value of a name in a loaded module, or NOTHING."""
    loaded = sys.modules.get(module)
    return vars(loaded).get(name, NOTHING) if isinstance(loaded, ModuleType) else NOTHING


def _line(module: str, original: str, name: str) -> str:
    if module == "builtins":
        return f"{name} = {original}" if original != name else "import builtins"
    return f"from {module} import {original}" + (f" as {name}" if name != original else "")


def _is_constant(value: Any) -> bool:
    if isinstance(value, tuple | list | set | frozenset):
        return all(_is_constant(inner) for inner in value)
    if isinstance(value, dict):
        return all(_is_constant(inner) for pair in value.items() for inner in pair)
    finite = not isinstance(value, float) or abs(value) < float("inf")
    return type(value) in (type(None), bool, int, float, str, bytes) and finite


def _postponed(cls: type) -> bool:
    flag = sys.modules["__future__"].annotations.compiler_flag if "__future__" in sys.modules else 0
    return any(function.__code__.co_flags & flag for function in _functions(cls))
