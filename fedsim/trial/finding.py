"""What a check has found, with the line to look at and the remedy."""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Finding:
    """One thing to report; `where` is "file:line" of the author's code, "" where no line stands for it.

    What is "broken" is a promise; "untried" says why one was not looked at.
    """

    kind: Literal["broken", "warning", "note", "untried"]
    what: str
    where: str = ""
    remedy: str = ""


def broken(what: str, where: str = "", remedy: str = "") -> Finding:
    """Return the finding of a promise that does not hold."""
    return Finding("broken", what, where, remedy)


def warning(what: str, where: str = "", remedy: str = "") -> Finding:
    """Return the finding of something that is allowed and probably not meant."""
    return Finding("warning", what, where, remedy)
