"""Show a running sweep: progress bars on a terminal, elsewhere a line every half minute.

Each line fits the width: labels are cut if necessary, numbers never.  A point that fails or stalls gets its own line
immediately.  The time left is estimated from the progress since the sweep began, including that of unfinished points.
"""

import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, Self

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Column, Table
from rich.text import Text

from analysis.axes import short
from analysis.terminal import writable
from fedsim.core.amounts import duration, number, watch
from fedsim.core.progress import Progress
from fedsim.point.attempt import SummaryRow
from fedsim.scenario.schema import Point
from fedsim.sweep.runner import Watcher

EVERY = 30.0  # seconds between two lines without a terminal
LEAST, WIDE = 16, 120  # characters: of a label and its bar; from which labels name their axes
SURE = 0.01  # share of a point that must be done before the time left is estimated
BarLine = tuple[str, float, Sequence[str]]  # a label, the share that is done, and numbers
STALLED = "nothing more can happen: no awaited client comes online, or no byte gets through"


class Display(Watcher):
    """Show a sweep on a console; a context manager that restores the terminal."""

    def __init__(self, console: Console, every: float = EVERY, now: Callable[[], float] = time.monotonic) -> None:
        """Show nothing yet; the console must not interpret markup, because names of points may look like it."""
        self.console = console
        self.points = self.done = self.failed = self.followed = 0
        self._before, self._began = 0, now()  # points finished before, and when this sweep began
        self._running: dict[str, tuple[Point, Progress]] = {}
        self._now, self._every = now, every
        self._lock = threading.Lock()
        self._ended, self._clock = threading.Event(), threading.Thread(target=self._tick, daemon=True)
        self._live: Live | None = None
        if console.is_interactive:
            self._live = Live(console=console, get_renderable=self.screen, refresh_per_second=4, transient=True)

    def __enter__(self) -> Self:
        """Start the display."""
        if self._live:
            self._live.start()
        else:
            self._clock.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Restore the terminal."""
        if self._live:
            self._live.stop()
            return
        self._ended.set()
        self._clock.join()
        if self.points:
            self.note(self.line())

    def begin(self, points: int, finished: int) -> None:
        """Show the number of points, and how many were finished before."""
        with self._lock:
            self.points, self.done, self._before, self._began = points, finished, finished, self._now()
        if finished:
            self.note(f"{finished} of {points} runs are finished already")
        elif not self._live:
            self.note(f"{points} runs to do" if points != 1 else "1 run to do")

    def progressed(self, point: Point, progress: Progress) -> None:
        """Show the progress of a running point, and what it does if its clock has not moved for long."""
        with self._lock:
            self._running[point.id] = point, progress
        if progress.doing:
            self.note(f"{point.id} {name(point.axes)}: {progress.doing}")

    def ended(self, point: Point, row: SummaryRow, message: str) -> None:
        """Count a point that has ended; show one that failed or stalled in a line, with the reason."""
        with self._lock:
            self.done += 1
            self.failed += bool(message)
            self.followed += bool(row.get("followed"))
            self._running.pop(point.id, None)
        what = f"{self.done}/{self.points} {point.id} {name(point.axes)}"
        if message:
            self.note(f"{what}: failed: {message}")
        elif row["status"] == "stalled":
            self.note(f"{what}: stalled after {duration(row.get('sim_seconds'))} simulated: {STALLED}")

    def note(self, text: str) -> None:
        """Show a message."""
        self.console.print(text, soft_wrap=True)

    def line(self) -> str:
        """Return the sweep's progress in one line."""
        running = [f"{len(self._running)} running"] if self._running else []
        return ", ".join([f"{self.done}/{self.points} runs done", *self._counts(), *running, *self._times()])

    def screen(self) -> Group:
        """Return the lines of the display: one for the sweep, and one for each running point."""
        with self._lock:
            running = [*self._running.values()]
            whole = f"{self.done}/{self.points} runs", self._share(), [*self._counts(), *self._times()]
        return Group(self._lines([whole]), self._lines([self._row(*one) for one in running]))

    def _row(self, point: Point, progress: Progress) -> BarLine:
        label = name(point.axes) if self.console.width >= WIDE else ", ".join(map(str, point.axes.values()))
        score = f"score {number(progress.score)}"
        return label, progress.share, [f"{duration(progress.simulated)} simulated", f"update {progress.updates}", score]

    def _lines(self, rows: Sequence[BarLine]) -> Table:
        """Return lines of label, bar and numbers in columns; labels are cut if necessary, numbers never."""
        width, encoding = self.console.width, self.console.encoding
        sizes = [max(map(len, column)) for column in zip(*(row[2] for row in rows), strict=True)]
        beside = sum(sizes) + 2 * len(sizes) + LEAST <= width  # else numbers go below their label
        columns = [Column(max_width=24 if width >= WIDE else 8)]
        columns += [Column(justify="right", no_wrap=True) for _ in sizes]
        table = Table.grid(Column(), *(columns if beside else ()), padding=(0, 2, 0, 0))
        for text, share, numbers in rows:
            label = Text(writable(text, encoding), no_wrap=True, overflow="ellipsis")
            shown = [writable(one, encoding) for one in numbers]
            if beside:
                table.add_row(label, ProgressBar(1.0, share), *shown)
            else:
                table.add_row(Group(label, "  ".join(shown)))
        return table

    def _tick(self) -> None:
        while not self._ended.wait(self._every):
            if self.points:
                with self._lock:
                    line = self.line()
                self.note(line)

    def _share(self) -> float:
        shares = sum(progress.share for _, progress in self._running.values())
        return min(1.0, (self.done + shares) / self.points) if self.points else 0.0

    def _counts(self) -> list[str]:
        """Return how many runs reused the record of another (following.py), and how many failed."""
        counts = (self.followed, "reused a record"), (self.failed, "failed")
        return [f"{count} {what}" for count, what in counts if count]

    def _times(self) -> list[str]:
        """Return the time since the beginning, and an estimate of the time left once there is some progress."""
        elapsed = self._now() - self._began
        now, before = self._share(), self._before / self.points if self.points else 0.0
        if now >= 1.0 or (now - before) * self.points < SURE:
            return [f"elapsed {watch(elapsed)}"]
        return [f"elapsed {watch(elapsed)}", f"about {watch(elapsed * (1 - now) / (now - before))} left"]


def name(axes: dict[str, Any]) -> str:
    """Return the values of a point's axes, each with the last word of its key (the last three for a list's)."""
    return ", ".join(f"{short(axis)} {value}" for axis, value in axes.items()) or "the only run"
