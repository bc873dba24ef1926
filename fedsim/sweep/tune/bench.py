"""Run trials: ordinary points of one folder, run by the same sweep and engine as a scenario's points.

Finished points are not run again, so that an interrupted search continues where it was.  Points that fail are run once
in a search, and once more when it is continued.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from fedsim.core.progress import Progress
from fedsim.point.attempt import RunPoint, SummaryRow
from fedsim.scenario.schema import Point
from fedsim.sweep.display import Display
from fedsim.sweep.engines.choose import Engine
from fedsim.sweep.runner import Sweep, Watcher


@dataclass
class TrialRunner(Watcher):
    """The folder of trials, the text of their scenario, and the display of their progress.

    It is the watcher of the search's sweeps, and forwards what concerns the search as a whole.
    """

    out: Path
    given: str
    data: Path
    run_point: RunPoint
    engine: Engine
    display: Display
    fresh: bool = False
    following: bool = True
    plugins: bool = True
    rows: dict[str, SummaryRow] = field(default_factory=dict)
    _reasons: list[str] = field(default_factory=list)  # why trials are repeated, as shown
    _points: dict[str, Point] = field(default_factory=dict)  # those that did not fail

    def run(self, points: Sequence[Point]) -> dict[str, SummaryRow]:
        """Run new points, and return the rows of all points so far by id.

        Raises UserError as a sweep does: if the folder cannot be used, or the first points show a mistake.
        """
        new = {point.id: point for point in points if point.id not in self.rows}
        self.display.done += len(points) - len(new)
        if new:
            # All points tried, so that summary.csv lists them all; finished ones are only read.
            whole = [*{**self._points, **new}.values()]
            sweep = Sweep(whole, self.given, self.out, self.data, self.following, self.plugins)
            ended = sweep.run(self.run_point, self.engine, self, self.fresh)
            self.fresh = False
            self.rows |= {point.id: row for point, row in zip(whole, ended, strict=True)}
            self._points |= {id: point for id, point in new.items() if self.rows[id]["status"] != "failed"}
        return self.rows

    def begin(self, points: int, finished: int) -> None:
        """Count what an earlier search has left; the total was shown before."""
        self.display.done += finished - len(self._points)

    def progressed(self, point: Point, progress: Progress) -> None:
        """Forward the progress of a point."""
        self.display.progressed(point, progress)

    def ended(self, point: Point, row: SummaryRow, message: str) -> None:
        """Forward the end of a point."""
        self.display.ended(point, row, message)

    def note(self, text: str) -> None:
        """Forward why runs are repeated, once a reason; other notes concern later trials of an earlier search."""
        _, again, reason = text.partition(" repeated: ")
        if again and reason not in self._reasons:
            self._reasons.append(reason)
            self.display.note(f"trials are repeated: {reason}")
