"""A part of a scenario: the name of a file, with options for the class that the file holds.

The options stay as written: which there are, and of which types, is said by the part's own file (`find.py`).
"""

from inspect import cleandoc
from math import isfinite
from typing import Any

from pydantic import BaseModel, ConfigDict, model_serializer, model_validator


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
            shown = "nothing" if value is None else repr(value)
            raise ValueError(f"{shown}: must be the name of a file, or {{name: ..., option: ...}}")
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
