"""A resolved scenario as a flat list of settings: dotted keys and plain values."""

from collections.abc import Iterator
from typing import Any

Scalar = bool | int | float | str


def flat(value: Any, key: str = "") -> Iterator[tuple[str, Scalar]]:
    """Yield the values of nested mappings and lists by dotted keys, without empty ones."""
    if isinstance(value, dict | list):
        for inner, one in value.items() if isinstance(value, dict) else enumerate(value):
            yield from flat(one, f"{key}.{inner}" if key else str(inner))
    elif value is not None:
        yield key, value if isinstance(value, bool | int | float | str) else str(value)
