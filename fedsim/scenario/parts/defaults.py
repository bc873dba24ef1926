"""The defaults of a part's options as a scenario would write them: seconds as `5 s`, a tuple as a list.

They are read from the dataclass, which is imported.  What a scenario cannot express (`inf`) is left out; a
change of it still counts, as the stamp covers the class's source (`point/results/stamp.py`).
"""

import dataclasses
import json
from functools import lru_cache
from typing import Any, get_args, get_type_hints

from pydantic import PydanticSchemaGenerationError, TypeAdapter

from fedsim.scenario.part import Part
from fedsim.scenario.parts import source


def of(cls: type[Any]) -> dict[str, Any]:
    """Return the defaults of a class's options, as written in a scenario."""
    return _of(cls)  # type: ignore[arg-type]


@lru_cache(maxsize=256)
def _of(cls: type[Any]) -> dict[str, Any]:
    # A sweep asks for the same few classes again and again, and pydantic's serializers are slow to make.
    written_defaults = {}
    for option in source.option_fields(cls):
        value = default(option)
        if value is not dataclasses.MISSING and _expressible(plain(value := written(cls, option.name, value))):
            written_defaults[option.name] = plain(value)
    return written_defaults


def default(option: "dataclasses.Field[Any]") -> Any:
    """Return the default of an option, MISSING if it is required."""
    return option.default if option.default_factory is dataclasses.MISSING else option.default_factory()


def written(cls: type[Any], name: str, value: Any) -> Any:
    """Return the value of an option as written in a scenario: quantities with their units."""
    if isinstance(value, str | bool | None):
        return value
    try:
        adapter = TypeAdapter(get_type_hints(cls, include_extras=True)[name])
        return adapter.dump_python(value, mode="json", warnings=False)
    except (NameError, TypeError, ValueError, PydanticSchemaGenerationError):
        return value  # an error is reported when the part is built


@lru_cache(maxsize=256)
def holding_parts(cls: type[Any]) -> tuple[str, ...]:
    """Return the names of the options that hold a part."""
    hints = {option.name: get_type_hints(cls).get(option.name) for option in source.option_fields(cls)}
    return tuple(name for name, hint in hints.items() if Part in (hint, *get_args(hint)))


def plain(value: Any) -> Any:
    """Return a value with lists in place of tuples, as in YAML."""
    if isinstance(value, list | tuple):
        return [plain(inner) for inner in value]
    return {key: plain(inner) for key, inner in value.items()} if isinstance(value, dict) else value


def same(first: Any, second: Any) -> bool:
    """Return whether two plain values are the same, types included: 1 is not true, and 1.0 is not 1."""
    first_text, second_text = (json.dumps(value, sort_keys=True, default=repr) for value in (first, second))
    return first_text == second_text


def _expressible(value: Any) -> bool:
    try:
        json.dumps(value, allow_nan=False)
    except (TypeError, ValueError):  # of a type that a scenario does not know, or infinite
        return False
    return True
