"""Ctrl-C ends a command with a line instead of a traceback, also while its modules are imported.

Importing this does it, so a command imports it before all others.  Python then ends as a program does that was
interrupted: shells see 130.  Not covered: the moment before, while Python itself starts.
"""

import sys
from types import TracebackType


def install() -> None:
    """Have an interrupt that nothing else handles shown as a line."""
    before = sys.excepthook

    def shown(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        if any(isinstance(one, KeyboardInterrupt) for one in _chain(error)):
            print("interrupted", file=sys.stderr)
        else:
            before(kind, error, trace)

    sys.excepthook = shown


def _chain(error: BaseException | None) -> list[BaseException]:
    """Return an error and what it was raised from: some modules turn an interrupt into an ImportError."""
    return [error, *_chain(error.__cause__ or error.__context__)] if error else []


install()
