"""A display that also logs: each finished run, from its folder and its axes alone.

Loggers are host settings: they change no table, and if one fails the study continues.
"""

from collections.abc import Sequence

from rich.console import Console

from analysis.logger import Finished, LogError, Logger
from analysis.read.stored import NotARunError
from fedsim.point.attempt import SummaryRow
from fedsim.point.results.folders import place_of
from fedsim.scenario.schema import Point
from fedsim.sweep.display import Display
from fedsim.sweep.runner import Sweep


class LoggingDisplay(Display):
    """Show a study, and log its finished runs."""

    def __init__(self, console: Console, loggers: Sequence[Logger], study: str, sweep: Sweep) -> None:
        """Show and log nothing yet."""
        super().__init__(console)
        self._loggers, self._study, self._sweep = loggers, study, sweep
        self.not_logged: list[str] = []

    def begin(self, points: int, finished_before: int) -> None:
        """Show the numbers, and log the runs that were finished before but not logged."""
        super().begin(points, finished_before)
        if finished_before and self._loggers:
            unfinished = {point.id for point in self._sweep.unfinished()}
            for point in self._sweep.points:
                if point.id not in unfinished:
                    self._log(point)

    def ended(self, point: Point, row: SummaryRow, message: str) -> None:
        """Show the end of a run, and log the run unless it failed."""
        super().ended(point, row, message)
        if not message:
            self._log(point)

    def _log(self, point: Point) -> None:
        axes = {axis: str(value) for axis, value in point.axes.items()}
        finished = Finished(self._study, point.id, place_of(self._sweep.out, point), axes)
        for logger in self._loggers:
            try:
                if not logger.logged(finished):
                    logger.log(finished)
            except (LogError, NotARunError, OSError) as error:
                self.not_logged.append(point.id)
                self.note(f"{finished.folder.name} could not be logged by {type(logger).__name__}: {error}")
