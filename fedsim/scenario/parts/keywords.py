"""Options of a plain class or function of the user's: the keywords that it takes, their types and defaults."""

import dataclasses
import inspect
from collections.abc import Callable, Collection
from dataclasses import field
from typing import Any, TypeVar, get_type_hints

from pydantic import PydanticSchemaGenerationError, TypeAdapter

from fedsim.core.errors import UserError

T = TypeVar("T")


def of(taker: Callable[..., Any], filled: Collection[str], taken: Collection[str] = ()) -> list[tuple[str, Any, Any]]:
    """Return (name, type, field) of each keyword of a class's constructor or of a function.

    Those of the names `filled` are left out, since they are filled in.  Raises UserError where one has a name
    that is `taken`, or cannot be passed by its name.
    """
    own = inspect.isclass(taker)
    function = taker.__init__ if own else taker
    try:
        hints = get_type_hints(function)
    except (NameError, TypeError):  # annotations of what is imported for type checkers alone
        hints = {}
    options: list[tuple[str, Any, Any]] = []
    for name, parameter in list(inspect.signature(function).parameters.items())[own:]:
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD) or name in filled:
            continue
        if name in taken or parameter.kind is parameter.POSITIONAL_ONLY:
            why = "a name that fedsim uses itself" if name in taken else "which has no name outside"
            raise UserError(f"{taker.__name__} takes {name!r}, {why}: give it another name, or wrap it")
        default = dataclasses.MISSING if parameter.default is parameter.empty else parameter.default
        options.append((name, _checked(hints.get(name, Any)), _field(default)))
    return options


def adopted(
    taker: Callable[..., Any], role: str, base: type[T], filled: Collection[str], taken: Collection[str], meaning: str
) -> type[T]:
    """Return the part, a dataclass below `base` that calls a class or function by the name `role`.

    Its options are the keywords, its docstring the `meaning`.  Raises UserError as `of` does.
    """
    options = of(taker, filled, taken)
    names = tuple(name for name, *_ in options)
    namespace = {role: staticmethod(taker), "keywords": names, "__doc__": meaning}
    made = dataclasses.make_dataclass(taker.__name__, options, bases=(base,), namespace=namespace, frozen=True)
    made.__module__ = taker.__module__
    return made


def _field(default: Any) -> Any:
    if isinstance(default, list | dict | set):
        return field(default_factory=lambda: default, kw_only=True)
    return field(kw_only=True) if default is dataclasses.MISSING else field(default=default, kw_only=True)


def _checked(hint: Any) -> Any:
    """Return a type that values can be checked against: the hint, or Any where there is no such check."""
    try:
        TypeAdapter(hint)
    except PydanticSchemaGenerationError:
        return Any
    return hint
