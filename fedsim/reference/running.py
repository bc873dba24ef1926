"""Run cells, a setting at a time, and add their results to the tables; or run one alone and compare it with them.

The points of one setting share a folder, so that those that differ in their links alone reuse what one of them has
learned.  Results are added after each setting, and when the run is interrupted.

A cell that is run alone must have the seconds, bytes and updates of the table, to the last digit.  Scores are the same
with the kernels that made the table; with others sums of floats are rounded otherwise, and training may diverge.
"""

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path

import numpy as np

from analysis import terminal
from fedsim.core.errors import UserError
from fedsim.point.attempt import RunPoint
from fedsim.point.checks import check
from fedsim.point.results.folders import ERROR, finished, place_of, places
from fedsim.reference import build, results
from fedsim.reference.build import Chosen
from fedsim.reference.cell import Cell
from fedsim.reference.plan import Plan
from fedsim.reference.results import Results
from fedsim.scenario.schema import Point
from fedsim.sweep.engines.choose import Engine
from fedsim.sweep.runner import Sweep, Watcher

CLOCK = ("seconds", "bytes", "updates")
ROUNDING = 1e-12  # relative, of numbers that went through a CSV file


@dataclass(frozen=True)
class ReferenceFolders:
    """Where things are: the plan's folder, the tables, the folder of the runs, that of the data."""

    plan: Path
    tables: Path
    out: Path
    data: Path


@dataclass(frozen=True)
class Bench:
    """How points are run."""

    run: RunPoint
    engine: Engine
    watcher: Callable[[], Watcher]  # a display for each sweep
    fresh: bool = False
    plugins: bool = True  # whether the working folder is trusted


def run(
    plan: Plan,
    place: ReferenceFolders,
    cells: Sequence[Cell],
    chosen: Chosen,
    bench: Bench,
    seconds: float | None = None,
) -> Iterator[Results]:
    """Run the cells, and yield the results so far after each batch, which are written.

    What the tables hold of a batch is removed as it begins, and no batch begins after `seconds`.  Raises UserError if a
    cell's scenario is wrong, and KeyboardInterrupt once what has finished is written.
    """
    began, order = time.monotonic(), [str(cell) for cell in plan.cells()]
    for key, cells_of_key in groupby(cells, key=lambda cell: (cell.links, cell.setting, cell.protocol)):
        if seconds is not None and time.monotonic() - began > seconds:
            return
        batch, folder = [*cells_of_key], place.out / "-".join(key[1])
        points = {cell: build.point(plan, place.plan, cell, chosen) for cell in batch}
        results.write(results.read(place.tables).without(map(str, batch)), place.tables, order)
        try:
            sweep([*points.values()], folder, place.data, bench)
        finally:
            collected = with_ended(results.read(place.tables), points, folder)
            results.write(collected, place.tables, order)
        yield collected


def sweep(points: Sequence[Point], folder: Path, data: Path, bench: Bench) -> None:
    """Run the points in a folder, if there are any.  Raises UserError if one of them cannot be run."""
    if not points:
        return
    if wrong := check.points(points, whole=True):
        raise UserError("\n".join(f"{problem}" for problem in wrong))
    with bench.watcher() as watcher:  # type: ignore[attr-defined]
        batch = Sweep([*points], "# cells of the reference table\n", folder, data, plugins=bench.plugins)
        batch.run(bench.run, bench.engine, watcher, bench.fresh)


def with_ended(known: Results, points: Mapping[Cell, Point], folder: Path) -> Results:
    """Return the results with the cells that have ended in a folder."""
    rows, courses = [], []
    where = places(folder, points.values())
    for cell, point in points.items():
        ended = finished(where[point.id])
        if ended is not None:
            row, course = results.row(cell, point.id, where[point.id], ended)
            rows.append(row)
            courses.append(course)
        elif (where[point.id] / ERROR).is_file():
            rows.append(results.failed(cell, point.id))
    return known.with_rows(rows, courses)


@dataclass(frozen=True)
class Rerun:
    """A cell run alone: its last score, seconds and bytes, and how they compare with the table.

    `clock` says whether seconds, bytes and updates are the same; `gap` is the largest difference of any score of the
    course (fraction), infinite where courses have other moments.  Both are None where the table lacks the cell.
    """

    cell: Cell
    seconds: float
    bytes: float
    score: float
    clock: bool | None = None
    gap: float | None = None


def named(plan: Plan, name: str) -> list[Cell]:
    """Return the cells of the plan that a name means, of one contender.  Raises UserError if there are none."""
    cells = [cell for cell in plan.cells() if cell.within(name)]
    if not cells:
        raise UserError(f"--cell {name}: the plan has no such cell; --list shows its settings")
    if len({str(cell).rpartition("/")[0] for cell in cells}) > 1:
        raise UserError(f"--cell {name} means {len(cells)} cells of several methods; --only runs those")
    return cells


def rerun(plan: Plan, place: ReferenceFolders, cells: Sequence[Cell], chosen: Chosen, bench: Bench) -> Iterator[Rerun]:
    """Run the cells by themselves, anew, and compare them with the tables.  Raises UserError if one fails."""
    folder, known = place.out / "alone" / "-".join(cells[0].setting), results.read(place.tables)
    points = {cell: build.point(plan, place.plan, cell, chosen) for cell in cells}
    sweep([*points.values()], folder, place.data, bench)
    for cell, point in points.items():
        where = place_of(folder, point)
        ended = finished(where)
        if ended is None:
            raise UserError(f"{cell} has failed: {where / ERROR} says why")
        row, course = results.row(cell, point.id, where, ended)
        yield compared(cell, known, Results(results.frame([row]), course))


def compared(cell: Cell, known: Results, again: Results) -> Rerun:
    """Return how a cell that was run again compares with the tables."""
    row = again.cells.iloc[0]
    result = Rerun(cell, float(row["seconds"]), float(row["bytes"]), float(row["score"]))
    rows = known.cells[known.cells["cell"] == str(cell)]
    if rows.empty or rows["status"].iloc[0] == "failed":
        return result
    ours, theirs = (each[[*CLOCK]].to_numpy(float) for each in (row, rows.iloc[0]))
    clock = bool(np.allclose(ours, theirs, rtol=ROUNDING, atol=0, equal_nan=True))  # NaN: a run without an update
    course, gap = known.courses[known.courses["cell"] == str(cell)], math.inf
    if np.array_equal(again.courses["seconds"].to_numpy(float), course["seconds"].to_numpy(float)):
        gaps = np.abs(again.courses["score"].to_numpy(float) - course["score"].to_numpy(float))
        gap = float(gaps.max(initial=0.0))
    return replace(result, clock=clock, gap=gap)


def lines(reruns: Sequence[Rerun], width: int) -> Iterator[str]:
    """Yield a table, a row a cell."""
    rows = []
    for rerun in reruns:
        score = f"{rerun.score:.4f}" if rerun.score == rerun.score else "–"
        clock = {None: "not in the table", True: "as in the table", False: "DIFFER"}[rerun.clock]
        scores = "" if rerun.gap is None else f"up to {100 * rerun.gap:.2g} points apart"
        rows.append([str(rerun.cell), score, f"{rerun.seconds:.6g}", f"{rerun.bytes:.0f}", clock,
                     "as in the table" if rerun.gap == 0 else scores])  # fmt: skip
    yield from terminal.table(["cell", "score", "simulated s", "bytes", "clock and bytes", "scores"], rows, width)
