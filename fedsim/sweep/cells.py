"""Save the source of a class or function from a notebook, script or module, with all that it needs, as one file.

The names that it uses are looked up in the cell or file that defines it, then in the other cells, the latest
first.  Imports, classes and functions are copied, and what these use in turn; constants become assignments of their
values.  Anything else (an array, a variable of an enclosing function) is refused.
Not modelled: names that are only known when it runs (`globals()["f"]`).
"""

import __future__

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

REMEDY = "put the {} into its own module, such as mylab/mine.py, and use that"


def source_of(made: type | FunctionType) -> str:
    """Return the text of a module that defines the class or function.

    Raises UserError, naming the obstacle, on failure.
    """
    functions, module = [*_functions(made)], sys.modules.get(made.__module__)
    saved = _Saved(made, functions[0].__globals__ if functions else vars(module) if module else {})
    saved.add(made.__name__, made)
    postponed = any(f.__code__.co_flags & __future__.annotations.compiler_flag for f in functions)
    docstring = f'"""The {saved.what} {made.__name__}, saved by fedsim.simulate with what it uses."""'
    head = ["from __future__ import annotations"] if postponed else []
    imports = ["\n".join(sorted(saved.imports))] if saved.imports else []
    return "\n\n".join([docstring, *head, *imports, *saved.parts]) + "\n"


@dataclass
class _Saved:
    """The contents of the file: imports, then definitions, each after those that it uses."""

    made: type | FunctionType
    names: Mapping[str, Any]  # those known where the class was defined
    imports: set[str] = field(default_factory=set)
    parts: list[str] = field(default_factory=list)
    seen: set[str] = field(default_factory=set)

    @property
    def what(self) -> str:
        """What is saved, for messages."""
        return "class" if isinstance(self.made, type) else "function"

    @property
    def _remedy(self) -> str:
        return REMEDY.format(self.what)

    def add(self, name: str, value: Any) -> None:
        """Add what the name refers to, and what that uses."""
        if name in self.seen:
            return
        self.seen.add(name)
        if statement := self._import(name, value):
            self.imports.add(statement)
        elif isinstance(value, type | FunctionType):
            self._add_definition(name, value)
        elif _is_constant(value):
            self.parts.append(f"{name} = {value!r}")
        else:
            kind = f"a {type(value).__name__}, which is no constant, class, function or module"
            message = f"cannot save {self.what} {self.made.__name__}: it uses {name!r}, {kind}"
            raise UserError(f"{message}; make it an option, or {self._remedy}")

    def _add_definition(self, name: str, value: Any) -> None:
        text = self._definition(value)
        for used in _used(text):
            if used in self.names:
                self.add(used, self.names[used])
            elif "<locals>" in value.__qualname__ and not hasattr(builtins, used) and used != value.__name__:
                message = f"cannot save {self.what} {self.made.__name__}: it uses the local variable {used!r}"
                raise UserError(f"{message}; {self._remedy}")
        self.parts.append(text if value.__name__ == name else f"{text}\n\n{name} = {value.__name__}")

    def _import(self, name: str, value: Any) -> str | None:
        """Return a statement that imports the value under this name, None if it was defined here."""
        here = ("__main__", self.names.get("__name__"))
        for tree, _ in self._trees(self.made):
            for node in ast.walk(tree):
                if not isinstance(node, ast.Import | ast.ImportFrom):
                    continue
                if isinstance(node, ast.ImportFrom) and (node.level or node.module in here):
                    continue  # only the module in which it stands can follow it
                for alias in node.names:
                    if name == (alias.asname or alias.name.partition(".")[0]):
                        return ast.unparse(type(node)(**{**vars(node), "names": [alias]}))
        if isinstance(value, ModuleType):
            return f"import {value.__name__} as {name}"
        home, known = str(getattr(value, "__module__", None)), getattr(value, "__qualname__", "")
        importable = home not in here and home in sys.modules and vars(sys.modules[home]).get(known, here) is value
        return f"from {home} import {known} as {name}" if importable else None

    def _definition(self, value: Any) -> str:
        """Return the source of a class or function alone.  Raises UserError if it is not available."""
        lines = {function.__code__.co_firstlineno for function in _functions(value)}
        for tree, text in self._trees(value):
            spans = [
                (min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)]), node.end_lineno or 0)
                for node in ast.walk(tree)
                if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
                and node.name == value.__name__
            ]
            if spans:  # of several, that of the functions, else the last
                first, last = max(spans, key=lambda span: (any(span[0] <= line <= span[1] for line in lines), span))
                return textwrap.dedent("\n".join(text.splitlines()[first - 1 : last]))
        message = f"the source of {value.__name__} is not available, so other processes could not run it"
        raise UserError(f"{message}; {self._remedy}")

    def _trees(self, value: Any) -> Iterator[tuple[ast.Module, str]]:
        """Yield what may define or import a value: the cell or file of its functions, then all cells, latest first."""
        files = dict.fromkeys([*(f.__code__.co_filename for f in _functions(value)), self.names.get("__file__")])
        cells = [text for text in self.names.get("In", ()) if isinstance(text, str)]  # IPython's history
        for text in (*("".join(linecache.getlines(file)) for file in files if file), *reversed(cells)):
            if tree := _tree(text):
                yield tree, text


def _functions(value: Any) -> Iterator[FunctionType]:
    """Yield a function, or those defined in a class itself; those that dataclasses generate have no source."""
    for member in vars(value).values() if isinstance(value, type) else [value]:
        inner = member.fget if isinstance(member, property) else getattr(member, "__func__", member)
        inner = inspect.unwrap(inner) if callable(inner) else None
        if not isinstance(inner, FunctionType) or inner.__code__.co_filename == "<string>":
            continue
        if inner.__module__ == value.__module__:
            yield inner


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

    top = symtable.symtable(text, "<saved>", "exec")
    names = {s.get_name() for s in top.get_symbols() if s.is_referenced() and not s.is_assigned()}
    names |= {s.get_name() for table in tables(top) if table is not top for s in table.get_symbols() if s.is_global()}
    for node in ast.walk(ast.parse(text)):
        hint = getattr(node, "annotation", None) or getattr(node, "returns", None)
        if isinstance(hint, ast.Constant) and isinstance(hint.value, str) and (inner := _tree(hint.value)):
            names |= {name.id for name in ast.walk(inner) if isinstance(name, ast.Name)}
    return sorted(names)


def _is_constant(value: Any) -> bool:
    if isinstance(value, tuple | list | set | frozenset):
        return all(_is_constant(inner) for inner in value)
    if isinstance(value, dict):
        return all(_is_constant(inner) for pair in value.items() for inner in pair)
    finite = not isinstance(value, float) or abs(value) < float("inf")
    return type(value) in (type(None), bool, int, float, str, bytes) and finite
