"""A part's options as its file declares them: type and unit, default, meaning, and the range of `--tune`.

Types and meanings are read from the source, where the comment beside a field is its meaning; defaults and
spans are read from the class, which is imported.  `spelled_out` writes a part's defaults out, as a point's id
needs.
"""

import ast
import dataclasses
import inspect
import re
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import reduce
from itertools import takewhile
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

from pydantic import ValidationError

from fedsim.core import units
from fedsim.core.asking import once
from fedsim.core.errors import ScenarioError
from fedsim.scenario.part import Part
from fedsim.scenario.parts import defaults, find, source

# The annotations that parts use, in words for authors of scenarios.
TYPES = {
    "bool": "true or false", "int": "whole number", "float": "number", "str": "text",
    "Count": "whole number, 1 or more", "Fraction": "share, such as 0.3 or 30 %",
    "PositiveFraction": "share, such as 0.3 or 30 %; more than 0",
    "FractionBelowOne": "share, such as 0.3 or 30 %; less than 1",
    "Seconds": "time, such as 50 ms", "Rate": "rate, such as 10 Mbit/s", "Flops": "speed, such as 2 GFLOP/s",
    "Duration": "time above 0, such as 50 ms", "Positive": "number above 0", "PositiveFloat": "number above 0",
    "NonNegative": "number, 0 or more", "NonNegativeFloat": "number, 0 or more", "FiniteFloat": "number",
    "NonNegativeInt": "whole number, 0 or more",
    "Bytes": "size, such as 10 kB", "Frequency": "frequency, such as 2/min",
    "Every": "interval, such as 20 updates or 10 min", "Updates": "interval, such as 20 updates",
    "Clock": "interval, such as 20 updates, 10 min or poisson(10 min)",
    "SecondsDraw": "time, such as 50 ms or lognormal(50 ms, 0.5)",
    "RateDraw": "rate, such as 10 Mbit/s or lognormal(5 Mbit/s, 1.0)",
    "FlopsDraw": "speed, such as 2 GFLOP/s or lognormal(2 GFLOP/s, 0.8)",
    "Part": "name of a part, or a mapping with its name and options",
    "Amount": "count or share, such as 5 or 80 %",
    "FilePath": "file", "Place": "file or folder", "Path": "file", "Any": "any value",
}  # fmt: skip
BOUNDS = {"gt": "more than", "ge": "at least", "lt": "less than", "le": "at most"}
REQUIRED = "required"


@dataclass(frozen=True)
class Option:
    """One option in words; "" if an entry does not apply."""

    name: str
    type: str
    default: str
    meaning: str
    span: str


def options(cls: type[Any]) -> list[Option]:
    """Return the options of a part's class, in the order of its fields."""
    spans: Mapping[str, Any] = getattr(cls, "tunes", {})
    usual, declared, listed = defaults.of(cls), _declared(cls), []
    for field in source.option_fields(cls):
        constructed = field.name in getattr(cls, "keywords", ())  # of a torch module
        annotation, meaning, names = _undeclared(field) if constructed else declared[field.name]
        default = defaults.default(field)
        text = REQUIRED if default is dataclasses.MISSING else shown(usual.get(field.name, default))
        words = _words(annotation, names)
        listed.append(Option(field.name, words, text, meaning, str(spans.get(field.name, ""))))
    return listed


def _words(node: ast.expr, names: Mapping[str, Any]) -> str:
    """Return an annotation in words, `Count` as "whole number, 1 or more"; `names` are its module's."""
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
            bounds = [keyword for note in inner if isinstance(note, ast.Call) for keyword in note.keywords]
            limits = [f"{BOUNDS[each.arg]} {ast.unparse(each.value)}" for each in bounds if each.arg in BOUNDS]
            return "; ".join([words[0], " and ".join(limits)]) if limits else words[0]
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


def shown(value: Any) -> str:
    """Return a value as a scenario writes it."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return f"{value:g}"
    return f"[{', '.join(map(shown, value))}]" if isinstance(value, list | tuple) else str(value)


def _declared(cls: type[Any]) -> dict[str, tuple[ast.expr, str, dict[str, Any]]]:
    """Return each field's annotation, comment and its module's names, from the class or the nearest above it."""
    declared: dict[str, tuple[ast.expr, str, dict[str, Any]]] = {}
    for owner in reversed(cls.__mro__):
        path = inspect.getsourcefile(owner) if dataclasses.is_dataclass(owner) else None
        text = Path(path).read_text(encoding="utf-8") if path else ""
        classes = [node for node in ast.parse(text).body if isinstance(node, ast.ClassDef)]
        for node in next((node.body for node in classes if node.name == owner.__name__), []):
            if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                # a field whose default alone is overridden keeps its inherited meaning
                inherited = declared[node.target.id][1] if node.target.id in declared else ""
                comment = _comment(text.splitlines(), node) or inherited
                declared[node.target.id] = node.annotation, comment, vars(sys.modules[owner.__module__])
    return declared


def _undeclared(field: "dataclasses.Field[Any]") -> tuple[ast.expr, str, dict[str, Any]]:
    """Return the same of an option that is the keyword of a constructor."""
    return ast.parse(inspect.formatannotation(field.type), mode="eval").body, "", {}


def _comment(lines: list[str], node: ast.AnnAssign) -> str:
    """Return the comment behind a field, or else the lines of comment right above it."""
    last = lines[(node.end_lineno or node.lineno) - 1]
    if behind := re.search(r"#\s*(.*)", last.encode()[node.end_col_offset or 0 :].decode()):
        return re.sub(r"\bNone\b", "null", behind[1].strip())
    above = takewhile(lambda line: line.strip().startswith("#"), reversed(lines[: node.lineno - 1]))
    return " ".join(reversed([line.strip().lstrip("# ") for line in above]))


def of(kind: str, name: str) -> tuple[type[Any], list[Option]]:
    """Return the class of a part and its options.  Raises ScenarioError if there is no such part."""
    cls = find.find(kind, Part(name=name), find.KINDS[kind].key)
    return cls, options(cls)


def spelled_out(kind: str, part: Part) -> Part:
    """Return the part with the defaults of the options that it leaves out, in the order of its class.

    A part inside a part is one of the same kind, and spelled out as well.  The part's file is imported; where
    that cannot be done, which `check` or `build` reports, the part is returned as it is.
    """
    cls = _class_of(kind, part.name)
    if cls is None:
        return part
    given = defaults.of(cls) | part.options
    names = [name for field in source.option_fields(cls) if (name := field.name) in given]
    inner = {name: spelled_out(kind, each).model_dump() for name, each in _inner_parts(cls, given).items()}
    return Part(name=part.name, options={name: given[name] for name in dict.fromkeys([*names, *given])} | inner)


def bare(kind: str, part: Part) -> Part:
    """Return the part without the options that say what its class would do by itself."""
    cls = _class_of(kind, part.name)
    usual = {name: units.canonical(value) for name, value in defaults.of(cls).items()} if cls else {}
    changed = {
        name: value
        for name, value in part.options.items()
        if name not in usual or not defaults.same(units.canonical(value), usual[name])
    }
    return Part(name=part.name, options=changed)


def inner_parts(kind: str, part: Part) -> dict[str, Part]:
    """Return the parts, of the same kind, that a part's options hold, by option; its file is imported."""
    cls = _class_of(kind, part.name)
    return _inner_parts(cls, part.options) if cls else {}


def _inner_parts(cls: type[Any], given: Mapping[str, Any]) -> dict[str, Part]:
    inner = {}
    for option in defaults.holding_parts(cls):  # type: ignore[arg-type]
        with suppress(ValidationError):  # missing, or no part: reported when it is built
            inner[option] = Part.model_validate(given.get(option))
    return inner


@once
def _class_of(kind: str, name: str) -> type[Any] | None:
    try:
        return find.find(kind, Part(name=name), find.KINDS[kind].key)
    except ScenarioError:
        return None
