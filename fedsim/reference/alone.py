"""One cell, or its seeds, run alone and held against the tables.

Seconds, bytes and updates must be the same to the last digit that the table has.  Scores are the same with the kernels
that made the table; with others sums of floats are rounded otherwise, and what is trained may drift apart.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from analysis import terminal
from fedsim.core.errors import UserError
from fedsim.point.folders import finished
from fedsim.reference import build, results, running
from fedsim.reference.build import Chosen
from fedsim.reference.cell import Cell
from fedsim.reference.plan import Plan
from fedsim.reference.results import Results
from fedsim.reference.running import Bench, Place

CLOCK = ("seconds", "bytes", "updates")
SAME = 1e-12  # relative, of numbers that went through a CSV file


@dataclass(frozen=True)
class Compared:
    """A cell run alone: its last score, seconds and bytes, and how they compare with the table.

    `clock` says whether seconds, bytes and updates are the same; `apart` is the largest difference of any score of the
    course (fraction).  Both are None where the table does not have the cell; `apart` is infinite where courses have
    other moments.
    """

    cell: Cell
    seconds: float
    bytes: float
    score: float
    clock: bool | None = None
    apart: float | None = None

    @property
    def same(self) -> bool:
        """Whether the table has the same, scores to the last bit."""
        return bool(self.clock) and self.apart == 0


def meant(plan: Plan, name: str) -> list[Cell]:
    """Return the cells of the plan that a name means, of one contender.  Raises UserError if there are none."""
    found = [cell for cell in plan.cells() if cell.within(name)]
    if not found:
        raise UserError(f"--cell {name}: the plan has no such cell; --list shows its settings")
    if len({str(cell).rpartition("/")[0] for cell in found}) > 1:
        raise UserError(f"--cell {name} means {len(found)} cells of several methods; --only runs those")
    return found


def run(plan: Plan, place: Place, cells: Sequence[Cell], chosen: Chosen, bench: Bench) -> list[Compared]:
    """Run the cells by themselves, anew, and compare them with the tables.  Raises UserError if one fails."""
    folder, known = place.out / "alone" / "-".join(cells[0].setting), results.read(place.tables)
    pairs = {cell: build.point(plan, place.plan, cell, chosen) for cell in cells}
    running.sweep([*pairs.values()], folder, place.data, bench)
    made = []
    for cell, point in pairs.items():
        ended = finished(folder / point.id)
        if ended is None:
            raise UserError(f"{cell} has failed: {folder / point.id}.log says why")
        row, course = results.row(cell, point.id, folder / point.id, ended)
        made.append(against(cell, known, Results(results.frame([row]), course)))
    return made


def against(cell: Cell, known: Results, own: Results) -> Compared:
    """Return how a cell compares with the tables."""
    mine = own.cells.iloc[0]
    found = Compared(cell, float(mine["seconds"]), float(mine["bytes"]), float(mine["score"]))
    rows = known.cells[known.cells["cell"] == str(cell)]
    if rows.empty or rows["status"].iloc[0] == "failed":
        return found
    theirs = rows.iloc[0]
    clock = all(_same(float(mine[name]), float(theirs[name])) for name in CLOCK)
    here, there = own.courses, known.courses[known.courses["cell"] == str(cell)]
    apart = math.inf
    if np.array_equal(here["seconds"].to_numpy(float), there["seconds"].to_numpy(float)):
        apart = float(np.abs(here["score"].to_numpy(float) - there["score"].to_numpy(float)).max(initial=0.0))
    return replace(found, clock=clock, apart=apart)


def _same(one: float, other: float) -> bool:
    """Return whether numbers are the same, or neither is known (a run without an update has no number of them)."""
    return math.isclose(one, other, rel_tol=SAME, abs_tol=0) or (math.isnan(one) and math.isnan(other))


def lines(found: Sequence[Compared], width: int) -> Iterator[str]:
    """Yield a table, a row a cell."""
    heads = ["cell", "score", "simulated s", "bytes", "clock and bytes", "scores"]
    rows = [
        [
            str(one.cell),
            f"{one.score:.4f}" if one.score == one.score else "–",
            f"{one.seconds:.6g}",
            f"{one.bytes:.0f}",
            _clock(one),
            _scores(one),
        ]
        for one in found
    ]
    yield from terminal.table(heads, rows, width)


def _clock(one: Compared) -> str:
    return "not in the table" if one.clock is None else "as in the table" if one.clock else "DIFFER"


def _scores(one: Compared) -> str:
    if one.apart is None:
        return ""
    return "as in the table" if one.apart == 0 else f"up to {100 * one.apart:.2g} points apart"
