"""What a scenario consists of: sections with known keys, and parts, each a file's name with options.

Options of a part stay as written: which there are, and of which types, is said by the part's own file
(`find.py`).
"""

from inspect import cleandoc
from math import isfinite
from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict, model_serializer, model_validator


class Section(BaseModel):
    """A mapping with known keys only, fixed once it is read."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class ShortSection(Section):
    """A section that may also be written as the value of one of its keys."""

    short_key: ClassVar[str]
    short_types: ClassVar[tuple[type, ...]]
    short_schema: ClassVar[dict[str, Any]]  # in JSON's terms

    @model_validator(mode="before")
    @classmethod
    def _from_short(cls, value: Any) -> Any:
        if isinstance(value, cls.short_types):
            return {cls.short_key: value}
        if not isinstance(value, dict | cls):
            keys = ", ".join(cls.model_fields)
            raise ValueError(f"{_shown(value)}: write its {cls.short_key}, or a mapping with the keys {keys}")
        return value

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: Any, handler: Any) -> dict[str, Any]:
        """Describe both ways of writing it."""
        return {"anyOf": [cls.short_schema, handler.resolve_ref_schema(handler(schema))]}


class Part(BaseModel):
    """A part: the name of its file, with the options of its class: `power`, or `{name: power, keep: 4}`.

    A dotted name (`mylab.power2`) is a module, whose code runs; `--no-plugins` refuses all but fedsim's own.
    """

    model_config = ConfigDict(frozen=True)

    name: str
    options: dict[str, Any] = {}

    @model_validator(mode="before")
    @classmethod
    def _flat(cls, value: Any) -> Any:
        if isinstance(value, str):
            return {"name": value}
        if isinstance(value, Part):
            return value
        if not isinstance(value, dict):
            raise ValueError(f"{_shown(value)}: must be the name of a file, or {{name: ..., option: ...}}")
        if "name" not in value:
            raise ValueError("lacks the key 'name': write the name of a file, or {name: ..., option: ...}")
        if odd := next((key for key, inner in value.items() if isinstance(inner, float) and not isfinite(inner)), None):
            raise ValueError(f"option {odd!r} is {value[odd]}: a number must be finite; leave it out or give another")
        if set(value) == {"name", "options"} and isinstance(value["options"], dict):
            return value
        return {"name": value["name"], "options": {key: inner for key, inner in value.items() if key != "name"}}

    @model_serializer
    def _short(self) -> Any:
        return {"name": self.name, **self.options} if self.options else self.name

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: Any, handler: Any) -> dict[str, Any]:
        """Describe both ways of writing a part."""
        named = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
        return {"anyOf": [{"type": "string"}, named], "description": cleandoc(cls.__doc__ or "")}


def _shown(value: Any) -> str:
    return "nothing" if value is None else repr(value)
