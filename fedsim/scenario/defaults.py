"""The defaults of a part's options, read from its source as `source` does.

A default is written as a scenario would: a number of seconds as `5 s`, a tuple as a list.  It is known where its
expression is a literal, arithmetic on literals, `field(default=...)`, an empty `default_factory`, a quantity of
`units`, or a name that a module sets once to one of these, in the same file or in one that it imports from.  Values
that are computed in another way, or that a scenario cannot express (`inf`), are left out; changes to them still count,
as the stamp covers the class's source (`point/stamp.py`).
"""

import ast
import math
import operator
from collections.abc import Callable, Mapping
from typing import Any

from pydantic import TypeAdapter

from fedsim.core import units
from fedsim.scenario import source

EMPTY: dict[str, Callable[[], Any]] = {"list": list, "tuple": list, "dict": dict}
ARITHMETIC: dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
}
LARGEST = 2**64  # of a power: a default such as 10**10**10 is not computed
DEEPEST = 8  # names that refer to names


class Unknown(Exception):  # noqa: N818 - not an error: only the class knows the default
    """The value is not known from the source alone."""


def of(module: str, cls: str) -> dict[str, Any]:
    """Return the defaults that a class's source states, as written in a scenario."""
    found = {}
    for name, line in source.fields(module, cls).items():
        if line.value is None:
            continue
        try:
            found[name] = _written(line.module, line.annotation, _value(line.module, line.value))
        except Unknown:
            continue
    return found


def holds_part(module: str, cls: str) -> list[str]:
    """Return the names of the options that hold a part."""
    part = ("fedsim.scenario.part", "Part")
    return [name for name, line in source.fields(module, cls).items() if part in _kinds(line.module, line.annotation)]


def plain(value: Any) -> Any:
    """Return a value with lists in place of tuples, as in YAML."""
    if isinstance(value, list | tuple):
        return [plain(inner) for inner in value]
    if isinstance(value, dict):
        return {key: plain(inner) for key, inner in value.items()}
    return value


def same(one: Any, other: Any) -> bool:
    """Return whether two plain values are the same, types included: 1 is not true, and 1.0 is not 1."""
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    return type(one) is type(other) and bool(one == other)


def _written(module: str, annotation: ast.expr, value: Any) -> Any:
    if value is None:
        return None
    for owner, name in _kinds(module, annotation):
        if owner == "fedsim.core.units" and hasattr(units, name):
            adapter: TypeAdapter[Any] = TypeAdapter(getattr(units, name))
            try:
                # A number in the source is in the SI unit, which a scenario must name.
                bare = isinstance(value, int | float) and not isinstance(value, bool)
                text = adapter.dump_python(value, mode="json", warnings=False) if bare else value
                return _sayable(adapter.dump_python(adapter.validate_python(text), mode="json"))
            except ValueError:  # a value that only the class may use, such as 0 for a count
                raise Unknown from None
    return _sayable(plain(value))


def _sayable(value: Any) -> Any:
    """Return the value if a scenario can express it.  Raises Unknown otherwise."""
    inner = value if isinstance(value, list) else value.values() if isinstance(value, dict) else ()
    for one in inner:
        _sayable(one)
    if isinstance(value, dict) and not all(isinstance(key, str) for key in value):
        raise Unknown
    if isinstance(value, float) and not math.isfinite(value):
        raise Unknown
    if value is not None and not isinstance(value, bool | int | float | str | list | dict):
        raise Unknown
    return value


def _kinds(module: str, annotation: ast.expr) -> list[tuple[str, str]]:
    """Return the types of an annotation such as `Seconds | None`, each as its module and its name there."""
    if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
        try:
            annotation = ast.parse(annotation.value, mode="eval").body
        except SyntaxError:
            return []
    if isinstance(annotation, ast.BinOp) and isinstance(annotation.op, ast.BitOr):
        return _kinds(module, annotation.left) + _kinds(module, annotation.right)
    if isinstance(annotation, ast.Name | ast.Attribute):
        found = source.origin(module, annotation)
        return [found] if found else []
    return []


def _value(module: str, node: ast.expr, deep: int = 0) -> Any:
    """Return the value of an expression at the top of a module.  Raises Unknown if it cannot be computed here."""
    if deep > DEEPEST:
        raise Unknown

    def inner(one: ast.expr) -> Any:
        return _value(module, one, deep + 1)

    match node:
        case ast.Constant(value=value) if not isinstance(value, bytes | complex) and value is not ...:
            return value
        case ast.Tuple(elts=elements) | ast.List(elts=elements):
            return [inner(one) for one in elements]
        case ast.Dict(keys=keys, values=values) if all(keys):
            return {inner(key): inner(value) for key, value in zip(keys, values, strict=True) if key is not None}
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_number(inner(operand))
        case ast.BinOp(left=left, op=op, right=right):
            return _computed(op, _number(inner(left)), _number(inner(right)))
        case ast.Call():
            return _called(module, node, deep)
        case ast.Name() | ast.Attribute():
            return _named(module, node, deep)
    raise Unknown


def _number(value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise Unknown
    return value


def _computed(op: ast.operator, left: Any, right: Any) -> Any:
    try:
        if isinstance(op, ast.Pow) and abs(float(left) ** float(right)) <= LARGEST:
            return left**right
        if type(op) in ARITHMETIC:
            return ARITHMETIC[type(op)](left, right)
    except (ArithmeticError, ValueError):
        pass
    raise Unknown


def _called(module: str, node: ast.Call, deep: int) -> Any:
    called = source.origin(module, node.func)
    given: Mapping[str | None, ast.expr] = {one.arg: one.value for one in node.keywords}
    if called == ("dataclasses", "field") and "default" in given:
        return _value(module, given["default"], deep + 1)
    if called == ("dataclasses", "field") and "default_factory" in given:
        return _empty(ast.unparse(given["default_factory"]))
    if called == ("fedsim.core.units", "Updates") and len(node.args) == 1 and not given:
        count = _value(module, node.args[0], deep + 1)
        return units.Updates(count) if isinstance(count, int) else _number(None)
    owner, _, dimension = called[0].rpartition(".") if called else ("", "", "")
    if called and owner == "fedsim.core.units" and called[1] in ("draw", "parse") and len(node.args) == 1 and not given:
        read = getattr(getattr(units, dimension, None), called[1], None)
        if read is not None:
            return _read(read, _value(module, node.args[0], deep + 1))
    raise Unknown


def _empty(factory: str) -> Any:
    if factory not in EMPTY:
        raise Unknown
    return EMPTY[factory]()


def _read(read: Callable[[Any], Any], value: Any) -> Any:
    try:
        return read(value)
    except ValueError:
        raise Unknown from None


def _named(module: str, node: ast.Name | ast.Attribute, deep: int) -> Any:
    found = source.origin(module, node)
    value = source.constant(*found) if found else None
    if found is None or value is None:
        raise Unknown
    return _value(found[0], value, deep + 1)
