"""What the table has cost to compute, and what the rest will: core-hours, by what like cells have taken."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pandas as pd

from fedsim.core.amounts import duration
from fedsim.reference.cell import Cell, Key
from fedsim.reference.plan import Plan
from fedsim.reference.results import Results

LIKE = (["method", "task", "data", "links"], ["method", "task", "links"], ["method", "links"], ["links"])
CORES = 2  # of the machine that the estimate is for


@dataclass(frozen=True)
class Spent:
    """A part of the table: how many cells are done, failed and left, and their seconds on one core."""

    name: str
    done: int
    failed: int
    left: int
    seconds: float
    ahead: float  # estimated; NaN without any like cell


def by_setting(plan: Plan, known: Results) -> list[Spent]:
    """Return what each setting has cost, in the plan's order, and what its rest will."""
    groups: dict[Key, list[Cell]] = {}
    for cell in plan.cells():
        groups.setdefault(cell.setting, []).append(cell)
    return [_spent("/".join(key), cells, known) for key, cells in groups.items()]


def estimate(cell: Cell, done: pd.DataFrame) -> float:
    """Return the seconds of a cell on one core: the mean of the cells most like it, NaN without any.

    Cells of the same method, task, data and links come first, then those of other data, and so on.
    """
    row = cell.row
    for keys in LIKE:
        alike = done.loc[(done[keys] == [row[key] for key in keys]).all(axis=1), "real_seconds"]
        if len(alike):
            return float(alike.mean())
    return float(done["real_seconds"].mean())


def summary(plan: Plan, known: Results) -> str:
    """Return a paragraph: how many cells there are, how long they took, how many failed."""
    parts = by_setting(plan, known)
    done, left, failed = (sum(getattr(one, name) for one in parts) for name in ("done", "left", "failed"))
    seconds = sum(one.seconds for one in parts)
    text = f"{done:,} cells took {seconds / 3600:.1f} core-hours, {seconds / CORES / 3600:.1f} hours on two cores."
    if left:
        ahead = sum(one.ahead for one in parts if one.left)
        text += f" {left:,} cells of the plan are still to be run, about {ahead / CORES / 3600:.1f} hours on two cores."
    return text + (f" {failed} failed." if failed else "")


def lines(parts: Sequence[Spent]) -> Iterator[list[str]]:
    """Yield the rows of a table: setting, done, failed, left, core time spent and ahead."""
    for one in parts:
        ahead = duration(one.ahead) if one.left and one.ahead == one.ahead else "unknown" if one.left else ""
        yield [one.name, str(one.done), str(one.failed), str(one.left), duration(one.seconds), ahead]


def _spent(name: str, cells: Sequence[Cell], known: Results) -> Spent:
    names = {str(cell) for cell in cells}
    own = known.cells[known.cells["cell"].isin(names)]
    done = own[own["status"] != "failed"]
    there = {*done["cell"]}
    rest = [cell for cell in cells if str(cell) not in there]
    whole = known.cells[known.cells["status"] != "failed"]
    ahead = sum(estimate(cell, whole) for cell in rest)
    return Spent(name, len(done), len(own) - len(done), len(rest), float(done["real_seconds"].sum()), ahead)
