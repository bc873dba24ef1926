"""The options of a part as its source states them: spelled out with their defaults, or bare of these.

Nothing is imported: a default that the source does not state is known to the class alone (`find.build`).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from fedsim.core import units
from fedsim.scenario import defaults, source
from fedsim.scenario.find import KINDS, module_of, pick


def spelled_out(kind: str, name: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return a part's options with the defaults of those that are left out, in the order of its class.

    A part inside a part is one of the same kind, and spelled out as well.  Nothing is imported, so that a default that
    the source does not tell is left out (see `defaults`), and all of them where the part cannot be found or read.
    """
    declared = _declared(kind, name)
    known = [key for key in declared.names if key in options or key in declared.values]
    found = {key: options[key] if key in options else declared.values[key] for key in known}
    found |= {key: value for key, value in options.items() if key not in found}
    return {key: _part_spelled_out(kind, value) if key in declared.parts else value for key, value in found.items()}


@lru_cache(maxsize=1024)
def holding_parts(kind: str, name: str) -> tuple[str, ...]:
    """Return the options of a part that hold parts themselves, of the same kind; looked up once in a process."""
    return _declared(kind, name).parts


def bare(kind: str, name: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return a part's options without those that say what the class would do by itself."""
    stated = _declared(kind, name).values.items()
    left_out = {key for key, value in stated if key in options and _alike(options[key], value)}
    return {key: value for key, value in options.items() if key not in left_out}


@dataclass(frozen=True)
class _Declared:
    """The options of a part as its source declares them: names, defaults, and which of them hold parts."""

    names: tuple[str, ...] = ()
    values: Mapping[str, Any] = field(default_factory=dict)
    parts: tuple[str, ...] = ()


def _declared(kind: str, name: str) -> _Declared:
    module = module_of(kind, name)
    try:
        cls = pick([*source.outlines(module, KINDS[kind].contract)], name) if module else None
        if module is None or cls is None:
            return _Declared()
        names = tuple(source.fields(module, cls))
        return _Declared(names, defaults.of(module, cls), tuple(defaults.holds_part(module, cls)))
    except (OSError, SyntaxError, UnicodeDecodeError):  # `check` says so
        return _Declared()


def _part_spelled_out(kind: str, value: Any) -> Any:
    inner = {"name": value} if isinstance(value, str) else value
    if not isinstance(inner, dict) or not isinstance(inner.get("name"), str):
        return value
    options = spelled_out(kind, inner["name"], {key: one for key, one in inner.items() if key != "name"})
    return {"name": inner["name"], **options} if options else inner["name"]


def _alike(one: Any, other: Any) -> bool:
    return defaults.same(units.canonical(one), units.canonical(other))
