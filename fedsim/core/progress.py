"""The progress that a running point reports."""

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a point has come: `simulated` seconds, `share` of the whole from 0 to 1, headline `score`, `updates`.

    `doing` is what it does where its clock has not moved for long.
    """

    simulated: float
    share: float
    score: float | None
    updates: int
    doing: str = ""


BEGUN = Progress(0.0, 0.0, None, 0)  # of a point that waits or has just started
ReportProgress = Callable[[Progress], None]
