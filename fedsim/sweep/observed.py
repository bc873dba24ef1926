"""A sweep that notifies loggers: each finished point is logged, from its folder and its axes alone.

Loggers are host settings: they change no table, and if one fails the sweep continues.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from analysis.logger import Finished, LogError, Logger
from analysis.stored import NotARunError
from fedsim.core.progress import Progress
from fedsim.point import stale
from fedsim.point.attempt import Row
from fedsim.point.folders import finished
from fedsim.scenario.schema import Point
from fedsim.sweep.runner import Watcher


@dataclass(frozen=True)
class Observed:
    """A watcher that forwards everything to another one, and logs finished points."""

    watcher: Watcher
    loggers: Sequence[Logger]
    run: str
    out: Path
    points: Sequence[Point]
    failures: list[str] = field(default_factory=list)  # of points that could not be logged

    def begin(self, points: int, finished_before: int) -> None:
        """Log the points that were finished before but not logged."""
        self.watcher.begin(points, finished_before)
        if not (finished_before and self.loggers):
            return
        done = {point.id for point in self.points if finished(self.out / point.id) is not None}
        again = stale.review(self.out, self.points, done, []).again
        for point in self.points:
            if point.id in done - again:
                self._log(point)

    def progressed(self, point: Point, progress: Progress) -> None:
        """Pass it on."""
        self.watcher.progressed(point, progress)

    def ended(self, point: Point, row: Row, message: str) -> None:
        """Forward the call, and log the point unless it failed."""
        self.watcher.ended(point, row, message)
        if not message:
            self._log(point)

    def note(self, text: str) -> None:
        """Pass it on."""
        self.watcher.note(text)

    def _log(self, point: Point) -> None:
        axes = {axis: str(value) for axis, value in point.axes.items()}
        finished = Finished(self.run, point.id, self.out / point.id, axes)
        for logger in self.loggers:
            try:
                if not logger.logged(finished):
                    logger.log(finished)
            except (LogError, NotARunError, OSError) as error:
                self.failures.append(point.id)
                self.note(f"{point.id} could not be logged by {type(logger).__name__}: {error}")
