"""Questions of the file system whose answers hold for a while: within `asking_once` each is asked a single time.

A point's parts are looked up some hundred times while it is checked, stamped and built, and each look-up asks for
several files.  Outside of `asking_once` every question is asked anew.  Not covered: files that change meanwhile, which
are noticed with the next point.
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import wraps
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")
ANSWERS: ContextVar[dict[Any, Any] | None] = ContextVar("answers", default=None)


@contextmanager
def asking_once() -> Iterator[None]:
    """Keep the answers of functions marked `once`; within another such block, until that ends."""
    if ANSWERS.get() is not None:
        yield
        return
    token = ANSWERS.set({})
    try:
        yield
    finally:
        ANSWERS.reset(token)


def once(function: Callable[P, R]) -> Callable[P, R]:
    """Mark a function whose answer follows from its arguments, Python's path and files.  Errors are not kept."""

    @wraps(function)
    def ask(*given: P.args, **named: P.kwargs) -> R:
        known = ANSWERS.get()
        if known is None:
            return function(*given, **named)
        key = (function, given, tuple(named.items()), tuple(sys.path))
        if key not in known:
            known[key] = function(*given, **named)
        answer: R = known[key]
        return answer

    return ask
