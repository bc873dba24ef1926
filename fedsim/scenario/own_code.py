"""Where in the user's own code an error was raised: the innermost of its lines."""

import traceback
from pathlib import Path

from fedsim.core import shipped
from fedsim.scenario import lookup, source


def place(error: BaseException) -> str:
    """Return "FILE, line N" of the innermost call in a file that is neither fedsim's nor a library's, or "".

    Algorithms of fedsim's count as the user's: who works on one wants to know the line too.
    """
    first = error.__cause__  # SimPy raises a copy of what a process has raised
    if first is not None and (found := place(first)):
        return found
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        path = Path(frame.filename)
        if path.suffix == ".py" and path.is_file() and lookup.is_own(path) and not path.is_relative_to(shipped.HOME):
            return f"{source.shown(path)}, line {frame.lineno}"
    return ""


def line(error: BaseException) -> str:
    """Return an error in a line: its class and its message."""
    return f"{type(error).__name__}: {error}".splitlines()[0]
