"""What a sweep looks like while it runs: on a terminal bars that move, elsewhere a line every half minute.

Each line fits the width: labels are cut where they must be, numbers never.  Points that fail or stall get a line of
their own at once.  The time left is estimated from what has been done since the sweep began, parts of points included.
"""

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Self

from rich.console import Console
from rich.live import Live
from rich.text import Text

from analysis.axes import short
from analysis.terminal import cut, wrapped, writable
from fedsim.amounts import NONE, duration, number, watch
from fedsim.progress import Progress
from fedsim.scenario import Point

EVERY = 30.0  # seconds between two lines where there is no terminal
BARS = (24, 8, 0)  # characters of a bar: the widest that leaves room for the labels
LABEL = 16  # characters of a label that must stay
SURE = 0.01  # of a point that must be done before the time left is estimated
STALLED = "nothing more could happen: nobody who is waited for comes online, or no byte gets through"
Row = dict[str, Any]


@dataclass(frozen=True)
class Bar:
    """A line of the display: what it is of, the share that is done, and its numbers."""

    label: str
    share: float
    numbers: Sequence[str]
    brief: str = ""  # the label where there is little room


class Display:
    """Shows a sweep on a console; a context, so that the terminal is left as it was."""

    def __init__(self, console: Console, every: float = EVERY, now: Callable[[], float] = time.monotonic) -> None:
        """Show nothing yet; the console must not read markup, for names of points may look like it."""
        self.console = console
        self.points = self.done = self.failed = 0
        self._before, self._began = 0, now()  # points that were done before, and when this sweep began
        self._running: dict[str, tuple[Point, Progress]] = {}
        self._now, self._every = now, every
        self._lock = threading.Lock()
        self._ended, self._clock = threading.Event(), threading.Thread(target=self._tick, daemon=True)
        self._live: Live | None = None
        if console.is_interactive:
            self._live = Live(console=console, get_renderable=self._screen, refresh_per_second=4, transient=True)

    def __enter__(self) -> Self:
        """Begin to show."""
        if self._live:
            self._live.start()
        else:
            self._clock.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Leave the terminal as it was."""
        if self._live:
            self._live.stop()
            return
        self._ended.set()
        self._clock.join()
        if self.points:
            self.note(self.line())

    def begin(self, points: int, finished: int) -> None:
        """Show how many points there are, and how many were finished before."""
        with self._lock:
            self.points, self.done, self._before, self._began = points, finished, finished, self._now()
        if finished:
            self.note(f"{finished} of {points} points are finished already")
        elif not self._live:
            self.note(f"{points} points to run" if points != 1 else "1 point to run")

    def progressed(self, point: Point, progress: Progress) -> None:
        """Show how far a running point has come."""
        with self._lock:
            self._running[point.id] = point, progress

    def ended(self, point: Point, row: Row, message: str) -> None:
        """Count a point that has ended; one that failed or stalled is shown in a line, with its reason."""
        with self._lock:
            self.done += 1
            self.failed += bool(message)
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
        """Return how far the sweep has come, in a line."""
        failed = f", {self.failed} failed" if self.failed else ""
        running = f", {len(self._running)} running" if self._running else ""
        return ", ".join([f"{self.done}/{self.points} points done{failed}{running}", *self._times()])

    def screen(self, width: int) -> list[str]:
        """Return the lines of the display: one for the sweep, one for each point that is running."""
        with self._lock:
            running = [*self._running.values()]
            failed = [f"{self.failed} failed"] if self.failed else []
            whole = Bar(f"{self.done}/{self.points} points", self._share(), [*failed, *self._times()])
        bars = [_bar(point, progress) for point, progress in running]
        return [*_drawn([whole], width), *_drawn(bars, width)]

    def _screen(self) -> Text:
        lines = self.screen(self.console.width)
        return Text(writable("\n".join(lines), self.console.encoding), no_wrap=True, overflow="crop")

    def _tick(self) -> None:
        while not self._ended.wait(self._every):
            if self.points:
                with self._lock:
                    line = self.line()
                self.note(line)

    def _share(self) -> float:
        shares = sum(progress.share for _, progress in self._running.values())
        return min(1.0, (self.done + shares) / self.points) if self.points else 0.0

    def _times(self) -> list[str]:
        """Return the time since the beginning, and an estimate of the time left where something has been done."""
        elapsed = self._now() - self._began
        now, before = self._share(), self._before / self.points if self.points else 0.0
        if now >= 1.0 or (now - before) * self.points < SURE:
            return [f"elapsed {watch(elapsed)}"]
        return [f"elapsed {watch(elapsed)}", f"about {watch(elapsed * (1 - now) / (now - before))} left"]


def name(axes: dict[str, Any]) -> str:
    """Return the values of a point's axes in a few words, each with the last word of its key (of a list's: three)."""
    return ", ".join(f"{short(axis)} {value}" for axis, value in axes.items()) or "the only point"


def _bar(point: Point, progress: Progress) -> Bar:
    score = NONE if progress.score is None else number(progress.score)
    numbers = [f"{duration(progress.simulated)} simulated", f"update {progress.updates}", f"score {score}"]
    return Bar(name(point.axes), progress.share, numbers, ", ".join(map(str, point.axes.values())))


def _drawn(bars: Sequence[Bar], width: int) -> list[str]:
    """Return the bars as lines under one another: label, bar and numbers, each number as wide as its column."""
    if not bars:
        return []
    sizes = [max(map(len, column)) for column in zip(*(bar.numbers for bar in bars), strict=True)]
    numbers = ["  ".join(f"{text:>{size}}" for text, size in zip(bar.numbers, sizes, strict=True)) for bar in bars]
    beside = width - max(map(len, numbers)) - 2  # for labels and bars
    labels, wide = _labelled(bars, beside)
    if wide is None:  # not even a label fits beside the numbers
        both = zip(labels, bars, strict=True)
        return [
            line for label, bar in both
            for line in [cut(label, width), *wrapped("  ".join(bar.numbers), width, "  ")]
        ]  # fmt: skip
    room = min(max(map(len, labels)), beside - wide - 2 * bool(wide))
    return [
        "  ".join([f"{cut(label, room):<{room}}", *([_filled(bar.share, wide)] if wide else []), text])
        for label, bar, text in zip(labels, bars, numbers, strict=True)
    ]


def _labelled(bars: Sequence[Bar], room: int) -> tuple[list[str], int | None]:
    """Return labels, and how wide bars may be in the room for both: whole labels, or else their values, or as fits."""
    for labels in ([bar.label for bar in bars], [bar.brief or bar.label for bar in bars]):
        longest = max(map(len, labels))
        for wide in BARS[:2]:
            if room - wide - 2 >= longest:
                return labels, wide
    return labels, next((wide for wide in BARS[1:] if room - wide - 2 * bool(wide) >= min(longest, LABEL)), None)


def _filled(share: float, width: int) -> str:
    done = round(min(1.0, max(0.0, share)) * width)
    return "━" * done + "─" * (width - done)
