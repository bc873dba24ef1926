"""A part's options as its file declares them: type and unit, default, meaning, and the range of `--tune`.

Types and meanings are read from the source, where the comment beside a field is its meaning; defaults and spans are
read from the class, which is imported.
"""

import ast
import dataclasses
import inspect
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

from fedsim.core import units
from fedsim.scenario import find, source

# The annotations that parts use, in words for authors of scenarios.
TYPES = {
    "bool": "true or false", "int": "whole number", "float": "number", "str": "text",
    "Count": "whole number, 1 or more", "Fraction": "share, such as 0.3 or 30 %",
    "Seconds": "time, such as 50 ms", "Rate": "rate, such as 10 Mbit/s", "Flops": "speed, such as 2 GFLOP/s",
    "Bytes": "size, such as 10 kB", "Frequency": "frequency, such as 2/min",
    "Every": "interval, such as 20 updates or 10 min", "Updates": "interval, such as 20 updates",
    "Clock": "interval, such as 20 updates, 10 min or poisson(10 min)",
    "SecondsDraw": "time, such as 50 ms or lognormal(50 ms, 0.5)",
    "RateDraw": "rate, such as 10 Mbit/s or lognormal(5 Mbit/s, 1.0)",
    "FlopsDraw": "speed, such as 2 GFLOP/s or lognormal(2 GFLOP/s, 0.8)",
    "Part": "name of a part, or a mapping with its name and options",
    "Amount": "count or share, such as 5 or 80 %",
    "File": "file", "Place": "file or folder", "Path": "file", "Any": "any value",
}  # fmt: skip
QUANTITIES = {"Seconds": units.SECONDS, "Rate": units.RATE, "Flops": units.FLOPS, "Bytes": units.BYTES}
QUANTITIES |= {"Frequency": units.FREQUENCY, "Every": units.SECONDS, "Clock": units.SECONDS}
REQUIRED = "required"


@dataclass(frozen=True)
class Option:
    """One option in words; "" if an entry does not apply."""

    name: str
    type: str
    default: str
    meaning: str
    span: str


@dataclass(frozen=True)
class Named:
    """A part given by its name, without options."""

    name: str
    options: Mapping[str, Any] = dataclasses.field(default_factory=dict)


def options(cls: type[Any]) -> list[Option]:
    """Return the options of a part's class, in the order of its fields."""
    fields = source.option_fields(cls)
    spans: Mapping[str, Any] = getattr(cls, "tunes", {})
    written = _written(cls)
    return [
        Option(
            field.name, worded(*written[field.name][::2]), _default(field, written[field.name][0]),
            written[field.name][1], str(spans.get(field.name, "")),
        )
        for field in fields
    ]  # fmt: skip


def worded(annotation: str, names: Mapping[str, Any] | None = None) -> str:
    """Return an annotation in words: "Count | None" as "whole number, 1 or more"; `names` are those of its module."""
    return _words(ast.parse(annotation, mode="eval").body, names or {})


def _words(node: ast.expr, names: Mapping[str, Any]) -> str:
    if isinstance(node, ast.BinOp):
        both = [_words(side, names) for side in (node.left, node.right)]
        return " or ".join(word for word in both if word != "none")
    if isinstance(node, ast.Constant):
        return "none" if node.value is None else str(node.value)
    if isinstance(node, ast.Subscript):
        kind = ast.unparse(node.value).split(".")[-1]
        inner = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        words = [_words(each, names) for each in inner if not (isinstance(each, ast.Constant) and each.value is ...)]
        if kind == "Literal":
            return _either(words)
        if kind == "Annotated":
            return words[0]
        if kind in ("dict", "Mapping"):
            return f"mapping of {words[0]} to {words[-1]}"
        return f"list of {words[0]}"
    first, *steps = ast.unparse(node).split(".")
    alias = reduce(lambda inner, step: getattr(inner, step, None), steps, names.get(first))
    if get_origin(alias) is Literal:
        return _either([str(value) for value in get_args(alias)])
    name = [first, *steps][-1]
    return TYPES.get(name, name)


def _either(words: Sequence[str]) -> str:
    return " or ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def _default(field: "dataclasses.Field[Any]", annotation: str) -> str:
    if field.default is not dataclasses.MISSING:
        return shown(field.default, annotation)
    return REQUIRED if field.default_factory is dataclasses.MISSING else shown(field.default_factory(), annotation)


def shown(value: Any, annotation: str = "") -> str:
    """Return a value as a scenario writes it."""
    dimension = QUANTITIES.get(annotation.split(" |")[0])
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if dimension and isinstance(value, int | float):
        return dimension.text(value)
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(shown(each) for each in value)}]"
    return str(value)


def _written(cls: type[Any]) -> dict[str, tuple[str, str, dict[str, Any]]]:
    """Return each field's annotation, comment and its module's names, from the class or the nearest above it."""
    found: dict[str, tuple[str, str, dict[str, Any]]] = {}
    for owner in reversed(cls.__mro__):
        path = inspect.getsourcefile(owner) if dataclasses.is_dataclass(owner) else None
        names = vars(sys.modules[owner.__module__])
        for field, (annotation, comment) in _fields(Path(path), owner.__name__) if path else ():
            # a field whose default alone is overridden keeps its inherited meaning
            found[field] = annotation, comment or found.get(field, ("", ""))[1], names
    return found


def _fields(path: Path, name: str) -> Iterator[tuple[str, tuple[str, str]]]:
    text = path.read_text(encoding="utf-8")
    lines = text.splitlines()
    body = next((n.body for n in ast.parse(text).body if isinstance(n, ast.ClassDef) and n.name == name), [])
    for node in body:
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            yield node.target.id, (ast.unparse(node.annotation), _comment(lines, node))


def _comment(lines: list[str], node: ast.AnnAssign) -> str:
    """Return the comment behind a field, or else the lines of comment right above it."""
    last = lines[(node.end_lineno or node.lineno) - 1]
    if behind := re.search(r"#\s*(.*)", last.encode()[node.end_col_offset or 0 :].decode()):
        return re.sub(r"\bNone\b", "null", behind[1].strip())
    above: list[str] = []
    for line in reversed(lines[: node.lineno - 1]):
        if not line.strip().startswith("#"):
            break
        above.insert(0, line.strip().lstrip("# "))
    return " ".join(above)


def of(kind: str, name: str) -> tuple[type[Any], list[Option]]:
    """Return the class of a part and its options.  Raises ScenarioError if there is no such part."""
    cls = find.find(kind, Named(name), find.KINDS[kind].key)
    return cls, options(cls)
