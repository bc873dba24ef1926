"""What a sweep looks like while it runs, and its results as a table; on a terminal it moves, elsewhere it is lines."""

import math
import statistics
from collections.abc import Callable, Sequence
from typing import Any, Self

from rich.console import Console
from rich.progress import BarColumn, TaskID, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.progress import Progress as Bars
from rich.table import Table

from analysis.axes import is_replicate
from fedsim.progress import Progress
from fedsim.scenario import Point

NONE = "–"
Row = dict[str, Any]


class Display:
    """Shows a sweep on a console; a context, so that the terminal is left as it was."""

    def __init__(self, console: Console) -> None:
        """Show nothing yet; the console must not read markup, for names of points may look like it."""
        self.console = console
        self.points = self.done = 0
        self._bars: dict[str, TaskID] = {}
        self._live = Bars(
            TextColumn("{task.description}", markup=False), BarColumn(bar_width=24),
            TextColumn("{task.fields[state]}", markup=False),
            TimeElapsedColumn(), TimeRemainingColumn(), console=console, transient=True,
            disable=not console.is_terminal,
        )  # fmt: skip
        self._whole = self._live.add_task("points", total=None, state="")

    def __enter__(self) -> Self:
        """Begin to show."""
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Leave the terminal as it was."""
        self._live.stop()

    def begin(self, points: int, finished: int) -> None:
        """Show how many points there are, and how many were finished before."""
        self.points, self.done = points, finished
        if finished:
            self.note(f"{finished} of {points} points are finished already")
        self._live.update(self._whole, total=points, completed=finished, state=f"{finished}/{points}")

    def told(self, point: Point, progress: Progress) -> None:
        """Show how far a running point has come."""
        if point.id not in self._bars:
            self._bars[point.id] = self._live.add_task(f"  {name(point.axes)}", total=1.0, state="")
        score = NONE if progress.score is None else f"{progress.score:.3f}"
        state = f"{duration(progress.simulated)} simulated, update {progress.updates}, score {score}"
        self._live.update(self._bars[point.id], completed=progress.share, state=state)

    def ended(self, point: Point, row: Row, message: str) -> None:
        """Show in a line that a point has ended; one that failed or stalled is shown on terminals too."""
        self.done += 1
        if point.id in self._bars:
            self._live.remove_task(self._bars.pop(point.id))
        self._live.update(self._whole, completed=self.done, state=f"{self.done}/{self.points}")
        if message:
            self.note(f"{self.done}/{self.points} {point.id} {name(point.axes)}: failed: {message}")
        elif row["status"] == "stalled":
            told = "nothing more could happen, for nobody who is waited for comes online, or no byte gets through"
            self.note(
                f"{self.done}/{self.points} {point.id} {name(point.axes)}: stalled after "
                f"{duration(row.get('sim_seconds'))} simulated: {told}"
            )
        elif not self.console.is_terminal:
            score = f"score {number(row.get('score'))}, {duration(row.get('sim_seconds'))} simulated"
            self.note(f"{self.done}/{self.points} {point.id} {name(point.axes)}: {row['status']}, {score}")

    def note(self, text: str) -> None:
        """Show a line."""
        self.console.print(text, soft_wrap=True)


def results(rows: Sequence[Row], axes: Sequence[str]) -> Table:
    """Return the sweep's results, a row for each combination of the axes but the seeds: mean ± standard deviation."""
    shown = [axis for axis in axes if not is_replicate(axis)]
    groups: dict[tuple[str, ...], list[Row]] = {}
    for row in rows:
        groups.setdefault(tuple(str(row[axis]) for axis in shown), []).append(row)
    columns = [(key, title, form) for key, title, form, always in COLUMNS if always or any(_given(rows, key))]
    table = Table(box=None, header_style="bold", pad_edge=False)
    for axis in shown or ["point"]:
        table.add_column(axis, no_wrap=True)
    for _, title, _ in columns:
        table.add_column(title, justify="right", no_wrap=True)
    for values, group in groups.items():
        head = values or (", ".join(row["point"] for row in group[:1]),)
        table.add_row(*head, *(spread(group, key, form) for key, _, form in columns))
    return table


def refusals(rows: Sequence[Row]) -> str | None:
    """Return a sentence on replies that held numbers which are not finite, or None where there were none."""
    counts = [int(count) for row in rows for count in _given([row], "refused") if count]
    if not counts:
        return None
    where = f"in {len(counts)} of {len(rows)} points" if len(rows) > 1 else "in this point"
    told = "the training diverged (lower its learning rate, or set training.clip), or an effect forged them"
    replies = "1 reply" if sum(counts) == 1 else f"{sum(counts)} replies"
    return f"refused: {replies} {where} held numbers that are infinite or none, and counted for nothing: {told}"


def spread(rows: Sequence[Row], key: str, form: Callable[[Any], str]) -> str:
    """Return the mean and, of several values, the standard deviation; a dash for none, and how many where some lack."""
    given = _given(rows, key)
    if not given:
        return NONE
    text = form(statistics.fmean(given))
    if len(given) > 1:
        text += f" ± {form(statistics.stdev(given))}"
    return text if len(given) == len(rows) else f"{text} ({len(given)} of {len(rows)})"


def name(axes: dict[str, Any]) -> str:
    """Return the values of a point's axes in a few words, each with the last word of its key (of a list's: three)."""
    words = {axis: axis.split(".") for axis in axes}
    short = {axis: ".".join(way[-3:] if way[-2:-1] and way[-2].isdigit() else way[-1:]) for axis, way in words.items()}
    return ", ".join(f"{short[axis]} {value}" for axis, value in axes.items()) or "the only point"


def number(value: float | None) -> str:
    """Return a score with three decimals."""
    return NONE if value is None else f"{value:.3f}"


def duration(seconds: float | None) -> str:
    """Return a length of time in its fitting unit."""
    if seconds is None:
        return NONE
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds:.2f} s"


def size(nbytes: float | None) -> str:
    """Return a number of bytes in its fitting decimal unit."""
    if nbytes is None:
        return NONE
    for power, unit in ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if nbytes >= power:
            return f"{nbytes / power:.2f} {unit}"
    return f"{nbytes:.0f} B"


COLUMNS: list[tuple[str, str, Callable[[Any], str], bool]] = [
    ("score", "score", number, True),
    ("am", "AM", number, False),
    ("fm", "FM", number, False),
    ("sim_seconds", "simulated", duration, True),
    ("bytes_up", "up", size, True),
    ("bytes_down", "down", size, True),
    ("bytes_peer", "between peers", size, False),
    ("seconds_to_target", "time to target", duration, False),
    ("bytes_to_target", "bytes to target", size, False),
]


def _given(rows: Sequence[Row], key: str) -> list[float]:
    values = [row.get(key) for row in rows]
    return [float(value) for value in values if value is not None and not math.isnan(value)]
