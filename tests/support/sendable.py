"""What a test has to tell, so that a process that runs tests for another (pytest-xdist) can send it.

Texts with halves of surrogate pairs, which tests of odd names have in their messages, are not UTF-8, and would end the
whole run where they are to be sent.
"""

from typing import Any


def sendable(value: Any) -> Any:
    """Return the same report, as plain data, with whatever is not UTF-8 escaped."""
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode("utf-8")
    if isinstance(value, dict):
        return {sendable(key): sendable(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(map(sendable, value))
    return value
