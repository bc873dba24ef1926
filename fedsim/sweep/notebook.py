"""Show a sweep in a notebook: one line that is updated, and lines for failures.

IPython is used only if it is loaded already, as in a kernel; neither it nor ipywidgets is a dependency.
"""

import sys
import time
from html import escape
from typing import Any, Self

from fedsim.core.progress import Progress
from fedsim.point.attempt import SummaryRow
from fedsim.scenario.schema import Point
from fedsim.sweep.runner import Watcher

EVERY = 0.5  # seconds between two changes of the line
MOST = 10  # failures that are listed one by one


def inside() -> bool:
    """Return whether this process is a notebook's kernel, which shows HTML."""
    shell = sys.modules.get("IPython")
    session = shell.get_ipython() if shell is not None and hasattr(shell, "get_ipython") else None
    return getattr(session, "kernel", None) is not None


class Line(Watcher):
    """Show a sweep as one line of a cell's output; a context manager, like the terminal's display."""

    def __init__(self) -> None:
        """Show nothing yet."""
        self.points = self.done = self.failures = 0
        self._notes: list[str] = []
        self._running: dict[str, Progress] = {}
        self._handle: Any = None
        self._last = -EVERY

    def __enter__(self) -> Self:
        """Start the display."""
        from IPython.display import HTML, display

        self._html = HTML
        self._handle = display(HTML("<p></p>"), display_id=True)
        return self

    def __exit__(self, *_: object) -> None:
        """Leave the last line in place."""
        self._running.clear()
        self._show(at_once=True)

    def begin(self, points: int, finished: int) -> None:
        """Show the number of points, and how many were finished before."""
        self.points, self.done = points, finished
        if finished:
            self._notes.append(f"{finished} of {points} runs are finished already")
        self._show(at_once=True)

    def progressed(self, point: Point, progress: Progress) -> None:
        """Show the progress of a running point."""
        self._running[point.id] = progress
        self._show()

    def ended(self, point: Point, row: SummaryRow, message: str) -> None:
        """Show that a point has ended."""
        self.done += 1
        self._running.pop(point.id, None)
        if message:
            self.failures += 1
            if self.failures <= MOST:
                self._notes.append(f"{point.id} failed: {message}")
        self._show(at_once=self.done == self.points)

    def note(self, text: str) -> None:
        """Show a line."""
        self._notes.append(text)
        self._show(at_once=True)

    def _show(self, at_once: bool = False) -> None:
        now = time.monotonic()
        if self._handle is None or not (at_once or now - self._last >= EVERY):
            return
        self._last = now
        share = sum(each.share for each in self._running.values())
        text = f"{self.done} of {self.points} runs"
        text += f", {len(self._running)} running ({share / len(self._running):.0%})" if self._running else ""
        text += f", {self.failures} failed" if self.failures else ""
        bar = f'<progress max="{max(1, self.points)}" value="{self.done + share:.3f}"></progress> {escape(text)}'
        self._handle.update(self._html("<br>".join([bar, *map(escape, self._notes)])))
