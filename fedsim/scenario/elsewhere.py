"""Find the valid places of a misplaced key, for messages.

It searches the sections, and the options of the parts that the scenario names, read from their sources.
"""

from collections.abc import Iterator, Mapping
from typing import Any, get_args

from pydantic import BaseModel

from fedsim.scenario import find, source


def places(word: str, model: type[BaseModel], data: Any) -> list[str]:
    """Return the dotted keys that end in this word, ignoring case; `data` is the scenario as written."""
    wanted = word.lower()
    return [key for key in (*_of_sections(model, ""), *_of_parts(data)) if "." in key and _last(key) == wanted]


def _last(key: str) -> str:
    return key.rpartition(".")[2].lower()


def _of_sections(model: type[BaseModel], above: str) -> Iterator[str]:
    for name, field in model.model_fields.items():
        yield above + name
        for kind in (field.annotation, *get_args(field.annotation)):
            # a part's keys are those of its file
            if isinstance(kind, type) and issubclass(kind, BaseModel) and kind.model_config.get("extra") == "forbid":
                yield from _of_sections(kind, f"{above}{name}.")


def _of_parts(data: Any) -> Iterator[str]:
    for kind, known in find.KINDS.items():
        value = data
        for step in known.key.split("."):
            value = value.get(step) if isinstance(value, Mapping) else None
        several = (
            {f"{known.key}.{number}": part for number, part in enumerate(value)} if isinstance(value, list) else {}
        )
        both = {f"{known.key}.{way}": part for way, part in value.items()} if _is_codec(kind, value) else {}
        for key, part in (several or both or {known.key: value}).items():
            name = part.get("name") if isinstance(part, Mapping) else part
            yield from (f"{key}.{option}" for option in (_options(kind, name) if isinstance(name, str) else ()))


def _is_codec(kind: str, value: Any) -> bool:
    return kind == "codec" and isinstance(value, Mapping)


def _options(kind: str, name: str) -> list[str]:
    module = find.module_of(kind, name)
    try:
        outlines = source.outlines(module, find.KINDS[kind].contract) if module else {}
    except (OSError, SyntaxError, UnicodeDecodeError):
        return []  # reported by the check of the part
    return [option for outline in outlines.values() for option in outline.options]
