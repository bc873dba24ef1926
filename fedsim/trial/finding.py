"""What a check has found: a broken promise, a warning, or a note, with the line to look at and the remedy."""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Finding:
    """One thing to report; `where` is "file:line" of the author's code, "" where no line stands for it."""

    kind: Literal["broken", "warning", "note"]
    what: str
    where: str = ""
    remedy: str = ""


def broken(what: str, where: str = "", remedy: str = "") -> Finding:
    """Return the finding of a promise that does not hold."""
    return Finding("broken", what, where, remedy)


def warning(what: str, where: str = "", remedy: str = "") -> Finding:
    """Return the finding of something that is allowed and probably not meant."""
    return Finding("warning", what, where, remedy)
