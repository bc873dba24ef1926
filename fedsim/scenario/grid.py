"""Dotted keys and axes: resolving and setting keys, and naming an axis's values.

It works on plain mappings, as a file holds them, and on the pydantic class that reads them, which defines the
keys.  `combinations` says which values are combined.

`places` finds the valid places of a misplaced key, for messages: it searches the sections, and the options of
fedsim's own parts that the scenario names.
"""

import copy
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import NoneType
from typing import Any, get_args

from pydantic import BaseModel, ValidationError

from fedsim.core import units
from fedsim.core.errors import Problem, ScenarioError
from fedsim.scenario.part import Part
from fedsim.scenario.parts import find, lookup, source
from fedsim.scenario.text import messages as wording

MISSING = object()


class GridError(ValueError):
    """Problems of the grid, raised through pydantic."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        """Keep the problems."""
        super().__init__(tuple(problems))
        self.problems = tuple(problems)


def put(raw: dict[str, Any], key: str, value: Any, model: type[BaseModel]) -> None:
    """Set a dotted key of a plain mapping in place; a part's or section's short form grows into a mapping.

    Raises ValueError if the key leads through a value without keys.
    """
    *way, last = key.split(".")
    here: Any = raw
    kind: Any = model
    for number, step in enumerate(way):
        default = _default(kind, step)
        kind = _inner(kind, step)
        inside = here[_index(here, step, key)] if isinstance(here, list) else here.get(step, default)
        if isinstance(inside, str):
            inside = {next(iter(kind.model_fields)) if _is_section(kind) else "name": inside}
        if inside is None:
            inside = {}
        if not isinstance(inside, dict | list):
            raise ValueError(f"{'.'.join(way[: number + 1])!r} is {inside!r} and has no keys")
        here[_index(here, step, key) if isinstance(here, list) else step] = inside
        here = inside
    here[_index(here, last, key) if isinstance(here, list) else last] = value


def at(raw: Any, key: str) -> Any:
    """Return the value of a dotted key of a plain mapping, or MISSING."""
    for step in key.split("."):
        if isinstance(raw, list):
            raw = raw[int(step)] if step.isdecimal() and int(step) < len(raw) else MISSING
        else:
            raw = raw.get(step, MISSING) if isinstance(raw, dict) else MISSING
    return raw


def names(model: Any, path: Sequence[Any]) -> list[str]:
    """Return the allowed keys at a path of the model, empty if any key is allowed or none is."""
    for step in path:
        model = _inner(model, str(step))
        sections = [*_sections(model)]
        model = sections[0] if len(sections) == 1 else model
    return [*model.model_fields] if _is_section(model) else []


def filled(raw: Any, model: type[BaseModel]) -> Any:
    """Return the mapping completed: keys that only the grid gives are set to the axis's first value."""
    axes = raw.get("grid") if isinstance(raw, dict) else None
    if not isinstance(axes, dict):
        return raw
    raw = copy.deepcopy(raw)
    for key, values in sorted(axes.items(), key=lambda axis: str(axis[0]).count(".")):
        if isinstance(values, list) and values and str(key) not in ("grid", "name") and _absent(raw, str(key), model):
            put(raw, str(key), copy.deepcopy(values[0]), model)
    return raw


def problems(
    scenario: BaseModel, axes: Mapping[str, Sequence[Any]], refused: frozenset[str], where: str = "grid"
) -> list[Problem]:
    """Return the problems of the axes themselves: unknown keys, no values, repeated values."""
    faults = []
    for key, values in axes.items():
        if key in refused or key.split(".")[0] in refused:
            faults.append(Problem(f"{where}.{key}", f"{key!r} changes no result and cannot be an axis; set it outside"))
        elif wrong := lost(scenario, key):
            faults.append(Problem(f"{where}.{key}", wrong))
        elif not values:
            faults.append(Problem(f"{where}.{key}", "the axis has no values; give it some or leave it out"))
        texts = [repr(units.canonical(value)) for value in values]
        for number, value in enumerate(texts):
            if value in texts[:number]:
                faults.append(
                    Problem(f"{where}.{key}.{number}", f"the axis has {_compact(values[number])} twice; keep one")
                )
    return faults


def plain_problems(error: ValueError, model: type[BaseModel], data: Any = None) -> list[Problem]:
    """Return the problems behind a validation error of a scenario that was written as `data`."""
    if not isinstance(error, ValidationError):
        return [Problem("grid", str(error))]
    errors = error.errors(include_url=False)
    inner = [e["ctx"]["error"] for e in errors if isinstance(e.get("ctx", {}).get("error"), GridError)]
    if inner:
        return [problem for grid_error in inner for problem in grid_error.problems]
    sentences = wording.problems(
        errors, known=lambda path: names(model, path), elsewhere=lambda word: places(word, model, data)
    )
    return [Problem(_written_at(problem.key, data, model), problem.message) for problem in sentences]


def _written_at(key: str, data: Any, model: type[BaseModel]) -> str:
    """Return the key in the file: that of the axis's first value where `filled` has set it."""
    axes = data.get("grid") if isinstance(data, dict) else None
    for axis in axes if isinstance(axes, dict) else ():
        if (key == axis or key.startswith(f"{axis}.")) and _absent(data, str(axis), model):
            return f"grid.{axis}.0{key.removeprefix(axis)}"
    return key


def labels(values: Sequence[Any]) -> list[Any]:
    """Return the values of an axis as tables show them: parts by their names, and by the options that differ.

    A file is shown without its folder, unless two files have the same name.
    """
    short = _labels(_bare([*values]))
    return short if len({str(label) for label in short}) == len(values) else _labels(values)


def _bare(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _bare(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_bare(inner) for inner in value]
    return Path(value).name if isinstance(value, str) and Path(value).is_absolute() and os.path.exists(value) else value


def _labels(values: Sequence[Any]) -> list[Any]:
    parts = [value for value in values if isinstance(value, dict) and "name" in value]
    options = {key for part in parts for key in part} - {"name"}
    shared = {key for key in options if all(key in part and part[key] == parts[0][key] for part in parts)}
    for hidden in (options, shared, set[str]()):
        short = [_compact(_without(value, hidden)) for value in values]
        if len(set(map(str, short))) == len(values):
            break
    return short


def _without(value: Any, keys: set[str]) -> Any:
    return {key: inner for key, inner in value.items() if key not in keys} if isinstance(value, dict) else value


def refuse_twins(points: Sequence[tuple[str, Mapping[str, Any]]]) -> None:
    """Raise ScenarioError if two points have the same id, so that their results would overwrite each other."""
    seen: dict[str, Mapping[str, Any]] = {}
    for name, axes in points:
        if name in seen:
            pair = " and ".join(", ".join(f"{k}: {v}" for k, v in each.items()) for each in (seen[name], axes))
            raise ScenarioError.at("grid", f"two runs are the same ({pair}); keep one")
        seen[name] = axes


def _compact(value: Any) -> Any:
    if isinstance(value, dict) and "name" in value:
        options = ", ".join(f"{key}={_compact(inner)}" for key, inner in value.items() if key != "name")
        return f"{value['name']}({options})" if options else value["name"]
    if isinstance(value, dict):
        return ", ".join(f"{key}={_compact(inner)}" for key, inner in value.items())
    if isinstance(value, list):
        return " + ".join(str(_compact(inner)) for inner in value) or "none"
    return "none" if value is None else value


def lost(scenario: BaseModel, key: str) -> str:
    """Return why a dotted key does not exist in the scenario; options of parts are checked elsewhere."""
    here: Any = scenario
    steps = key.split(".")
    for number, step in enumerate(steps):
        before = ".".join(steps[:number])
        if isinstance(here, list):
            if not step.isdecimal() or int(step) >= len(here):
                return f"{before} has {len(here)} entries, counted from 0; {step!r} is none of them"
            here = here[int(step)]
        elif _is_section(type(here)):
            if step not in type(here).model_fields:
                elsewhere = places(steps[-1], type(scenario), scenario.model_dump(mode="json"))
                return f"there is no key {key!r}{wording.no_such_key(step, names(type(here), ()), elsewhere)}"
            here = getattr(here, step)
        elif isinstance(here, BaseModel | dict):
            return "" if step else f"{key!r} ends in a dot"
        else:
            return f"there is no key {key!r}: {before!r} has no keys of its own"
    return ""


def _absent(raw: Any, key: str, model: Any) -> bool:
    # True if the model knows the key and every mapping on the way exists, but not the key itself.
    *way, last = key.split(".")
    for step in way:
        raw, model = raw.get(step) if isinstance(raw, dict) else None, _inner(model, step)
    return _is_section(model) and last in model.model_fields and isinstance(raw, dict) and last not in raw


def _inner(model: Any, step: str) -> Any:
    field = model.model_fields.get(step) if _is_section(model) else None
    kinds = [kind for kind in get_args(field.annotation) if kind is not NoneType] if field else []
    return kinds[0] if len(kinds) == 1 else field.annotation if field else None  # an optional section


def _sections(kind: Any) -> Iterator[Any]:
    """Yield the sections among the kinds of a union."""
    if _is_section(kind):
        yield kind
    for inner in get_args(kind):
        yield from _sections(inner)


def _default(model: Any, step: str) -> Any:
    field = model.model_fields.get(step) if _is_section(model) else None
    default = field.default if field else None
    if isinstance(default, list):
        return [*default]
    return default.model_dump(mode="json") if isinstance(default, BaseModel) else None


def _is_section(model: Any) -> bool:
    # A part's keys are those of its file; only a section's keys are all known here.
    return isinstance(model, type) and issubclass(model, BaseModel) and model.model_config.get("extra") == "forbid"


def _index(items: list[Any], step: str, key: str) -> int:
    if not step.isdecimal() or int(step) >= len(items):
        raise ValueError(f"{key!r}: {step!r} is not one of the {len(items)} entries, counted from 0")
    return int(step)


def places(word: str, model: type[BaseModel], data: Any) -> list[str]:
    """Return the dotted keys that end in this word, ignoring case; `data` is the scenario as written."""
    keys = (*_of_sections(model, ""), *_of_parts(data))
    return [key for key in keys if key.lower().endswith(f".{word.lower()}")]


def _of_sections(model: type[BaseModel], above: str) -> Iterator[str]:
    for name, field in model.model_fields.items():
        yield above + name
        for kind in (field.annotation, *get_args(field.annotation)):
            if _is_section(kind):
                yield from _of_sections(kind, f"{above}{name}.")


def _of_parts(data: Any) -> Iterator[str]:
    for kind, known in find.KINDS.items():
        value = at(data, known.key)
        parts = {known.key: value}
        if isinstance(value, list):
            parts = {f"{known.key}.{number}": part for number, part in enumerate(value)}
        elif kind == "codec" and isinstance(value, dict):
            parts = {f"{known.key}.{way}": part for way, part in value.items()}
        for key, part in parts.items():
            name = part.get("name") if isinstance(part, dict) else part
            yield from (f"{key}.{option}" for option in (_options(kind, name) if isinstance(name, str) else ()))


def _options(kind: str, name: str) -> list[str]:
    module = find.module_of(kind, name)
    path = lookup.file_of(module) if module else None
    if path is None or not lookup.is_fedsims(path):
        return []  # a hint runs nobody else's code
    try:
        return [option.name for option in source.option_fields(find.find(kind, Part(name=name), kind))]
    except ScenarioError:
        return []  # reported by the check of the part
