"""Frozen dataclasses of which a run makes very many.

The dataclasses of the standard library set the fields of a frozen class one by one through `object.__setattr__`, which
takes two thirds of the time of making one.  A class with slots has no `__dict__`, and cannot be made so.
"""

from collections.abc import Callable
from dataclasses import MISSING, fields
from typing import Any, TypeVar

Made = TypeVar("Made")


def at_once(cls: type[Made]) -> type[Made]:
    """Have a frozen dataclass set all fields at once; its signature stays the same.

    Raises TypeError for a class with `__post_init__`, slots, or fields that are made by a factory, by keyword only or
    not by `__init__`.
    """
    known = fields(cls)  # type: ignore[arg-type]
    odd = any(each.default_factory is not MISSING or each.kw_only or not each.init for each in known)
    if odd or hasattr(cls, "__post_init__") or "__slots__" in vars(cls):
        raise TypeError(f"{cls.__name__} has fields that cannot be set at once")
    defaults: dict[str, Any] = {each.name: each.default for each in known if each.default is not MISSING}
    given = ", ".join(f"{name}=_d[{name!r}]" if name in defaults else name for name in (each.name for each in known))
    named = ", ".join(f"{each.name}={each.name}" for each in known)
    scope: dict[str, Callable[..., None]] = {}
    exec(f"def __init__(self, {given}): self.__dict__.update({named})", {"_d": defaults}, scope)
    init = scope["__init__"]
    init.__annotations__, init.__qualname__ = cls.__init__.__annotations__, f"{cls.__qualname__}.__init__"
    cls.__init__ = init  # type: ignore[method-assign]
    return cls
