"""`--explain`: what a scenario will run, in words, and what the first rounds of some of its points will take.

Of the conditions (points that differ in more than a seed) at most MOST are looked at, or `every` one.

What it does not model is what `preview` leaves out.
"""

import dataclasses
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import chain, repeat
from pathlib import Path
from statistics import fmean
from typing import Any

from rich.console import Console
from rich.table import Table

from analysis.axes import is_replicate
from fedsim import find, fleet, listing
from fedsim.display import NONE, duration, name, size
from fedsim.errors import UserError
from fedsim.preview import UPDATES, Preview, preview
from fedsim.scenario import Part, Point, Scenario

MOST = 6  # conditions looked at
LEFT_OUT = f"""
Foretold without training: the first {UPDATES} updates, moved over the run's own links with the run's own draws. Each
ask is taken to be the client's first, and of a round of several exchanges the first counts. Where messages are always
alike, as FedAvg's, times and bytes are the run's to the last digit; elsewhere those of the first update are, unless
the server's work hangs on what uploads hold."""


def explain(console: Console, scenario: Scenario, points: Sequence[Point], data_root: Path, every: bool) -> None:
    """Print what will run and what it will take.  Raises UserError where a run would refuse the scenario."""
    for line in words(scenario, points):
        console.print(line, soft_wrap=True)
    found = conditions(points)
    shown = found if every else spread(found, MOST)
    few = f"{len(shown)} of {len(found)}, each value as often as can be (all: -v)" if len(shown) < len(found) else "all"
    console.print(f"{LEFT_OUT}\nConditions shown: {few}\n", soft_wrap=True)
    console.print(table([(point, _seen(point, data_root)) for point in shown]))


def words(scenario: Scenario, points: Sequence[Point]) -> Iterator[str]:
    """Yield what will run, line by line."""
    if scenario.description:
        yield scenario.description
    axes = {axis: len({str(point.axes[axis]) for point in points}) for axis in points[0].axes}
    of = ", ".join(f"{axis} ({count})" for axis, count in axes.items())
    yield f"points      {len(points)}" + (f" of {of}" if of else "")
    yield f"clients     {', '.join(dict.fromkeys(str(fleet.size(point.scenario)) for point in points))}"
    for kind in ("protocol", "algorithm", "sampler", "topology", "effect", "codec"):
        for title, told in zip(chain([kind], repeat("")), _parts(kind, points), strict=False):
            yield f"{title:<11} {told}"


def conditions(points: Sequence[Point]) -> list[Point]:
    """Return the first point of each combination of the axes but the seeds."""
    found: dict[tuple[tuple[str, str], ...], Point] = {}
    for point in points:
        found.setdefault(tuple(_values(point)), point)
    return [*found.values()]


def spread(conditions: Sequence[Point], most: int) -> list[Point]:
    """Return at most so many, in the grid's order, that show each value of each axis about equally often."""
    shown: Counter[tuple[str, str]] = Counter()
    left, chosen = [*conditions], list[Point]()
    while left and len(chosen) < most:
        news = [sum(1 / (1 + shown[value]) for value in _values(point)) for point in left]
        chosen.append(left.pop(news.index(max(news))))
        shown.update(_values(chosen[-1]))
    return [point for point in conditions if point in chosen]


def table(seen: Sequence[tuple[Point, Preview | str]]) -> Table:
    """Return a row a point: the mean of the updates looked at, and of their seconds the first and the mean."""
    made = Table(box=None, header_style="bold", pad_edge=False)
    for column in (
        "point",
        "condition",
        "clients asked",
        "first update",
        "an update",
        "bytes down",
        "bytes up",
        "peers",
    ):
        made.add_column(column, justify="left" if column in ("point", "condition") else "right")
    for point, told in seen:
        axes = name({axis: value for axis, value in point.axes.items() if not is_replicate(axis)})
        if isinstance(told, str):
            made.add_row(point.id, axes, told)
        elif not told.seconds:
            made.add_row(
                point.id, axes, NONE, f"no update: {told.why}", NONE, *(size(told.nbytes(way)) for way in WAYS)
            )
        else:
            asked = f"{fmean(told.asked):.4g}"
            times = duration(told.seconds[0]), duration(fmean(told.seconds))
            made.add_row(point.id, axes, asked, *times, *(size(told.nbytes(way)) for way in WAYS))
    return made


WAYS = ("down", "up", "peer")


def _seen(point: Point, data_root: Path) -> Preview | str:
    try:
        return preview(point.scenario, data_root)
    except UserError as error:
        return str(error)


def _values(point: Point) -> list[tuple[str, str]]:
    return [(axis, str(value)) for axis, value in point.axes.items() if not is_replicate(axis)]


def _parts(kind: str, points: Sequence[Point]) -> Iterator[str]:
    """Yield a line for each part of a kind, and below it one for each choice of its options."""
    parts: dict[str, dict[str, None]] = {}
    for point in points:
        for part in (part for other, _, part in point.scenario.parts() if other == kind):
            parts.setdefault(part.name, {})[_options(kind, part)] = None
    for name_, options in parts.items():
        yield f"{name_}: {listing.line(kind, name_)}"
        yield from (f"  {told}" for told in options if told)


def _options(kind: str, part: Part) -> str:
    built: Any = find.build(kind, part)
    values = {field.name: getattr(built, field.name) for field in dataclasses.fields(built) if field.init}
    return ", ".join(f"{name_}={value}" for name_, value in values.items() if value is not None)
