"""Run cells, a setting at a time, and take their results over into the tables.

The points of one setting share a folder, so that those that differ in their links alone follow what one of them has
learned.  Results are taken over after each setting, and when the run is interrupted.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from fedsim.core.errors import UserError
from fedsim.point import check
from fedsim.point.attempt import Run
from fedsim.point.folders import finished
from fedsim.reference import build, results
from fedsim.reference.build import Chosen
from fedsim.reference.cell import Cell
from fedsim.reference.plan import Plan
from fedsim.reference.results import Results
from fedsim.scenario.schema import Point
from fedsim.sweep.runner import Engine, Sweep, Watcher

Pairs = Mapping[Cell, Point]


@dataclass(frozen=True)
class Place:
    """Where things are: the plan's folder, the tables, the folder of the runs, that of the data."""

    plan: Path
    tables: Path
    out: Path
    data: Path


@dataclass(frozen=True)
class Bench:
    """How points are run."""

    run: Run
    engine: Engine
    watcher: Callable[[], Watcher]  # a display for each sweep
    fresh: bool = False
    plugins: bool = True  # whether the working folder is trusted


def run(
    plan: Plan, place: Place, cells: Sequence[Cell], chosen: Chosen, bench: Bench, seconds: float | None = None
) -> Iterator[Results]:
    """Run the cells, and yield the results so far after each batch, which are written.

    What the tables hold of a batch is removed as it begins, and no batch begins after `seconds`.  Raises UserError if a
    cell's scenario is wrong, and KeyboardInterrupt once what has finished is written.
    """
    began, order = time.monotonic(), [str(cell) for cell in plan.cells()]
    for key, own in groupby(cells, key=lambda cell: (cell.links, cell.setting, cell.protocol)):
        if seconds is not None and time.monotonic() - began > seconds:
            return
        batch, folder = [*own], place.out / "-".join(key[1])
        pairs = {cell: build.point(plan, place.plan, cell, chosen) for cell in batch}
        results.write(results.read(place.tables).without(map(str, batch)), place.tables, order)
        try:
            sweep([*pairs.values()], folder, place.data, bench)
        finally:
            found = taken_over(results.read(place.tables), pairs, folder)
            results.write(found, place.tables, order)
        yield found


def sweep(points: Sequence[Point], folder: Path, data: Path, bench: Bench) -> None:
    """Run the points in a folder, if there are any.  Raises UserError if one of them cannot be run."""
    if not points:
        return
    if wrong := check.points(points, whole=True):
        raise UserError("\n".join(f"{problem}" for problem in wrong))
    with bench.watcher() as watcher:  # type: ignore[attr-defined]
        batch = Sweep([*points], "# cells of the reference table\n", folder, data, plugins=bench.plugins)
        batch.run(bench.run, bench.engine, watcher, bench.fresh)


def taken_over(known: Results, pairs: Pairs, folder: Path) -> Results:
    """Return the results with the cells that have ended in a folder."""
    rows, courses = [], []
    for cell, point in pairs.items():
        ended = finished(folder / point.id)
        if ended is not None:
            row, course = results.row(cell, point.id, folder / point.id, ended)
            rows.append(row)
            courses.append(course)
        elif (folder / f"{point.id}.log").is_file():
            rows.append(results.failed(cell, point.id))
    return known.with_rows(rows, courses)
