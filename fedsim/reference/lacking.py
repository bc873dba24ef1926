"""What is left to run: cells that the tables lack, or hold of another scenario; and which data are not at hand.

Where a key of the plan, a deployment's file or a chosen hyper-parameter has changed, the cells that it concerns are
outdated.  A change of fedsim's own code does not outdate them; the column `stamp` tells what they were made from.
"""

from collections.abc import Collection, Iterable, Sequence
from pathlib import Path

from fedsim.core.errors import UserError
from fedsim.reference import build
from fedsim.reference.build import Chosen
from fedsim.reference.cell import Cell
from fedsim.reference.plan import Plan
from fedsim.reference.results import Results
from fedsim.scenario import find, yaml_file


def missing(plan: Plan, known: Results, names: Sequence[str] = (), old: Collection[str] = ()) -> list[Cell]:
    """Return the cells of the plan that the tables lack or that are `old`; with `names`, of those they mean alone."""
    done = {*known.cells.loc[known.cells["status"] != "failed", "cell"]} - {*old}
    return [cell for cell in plan.cells() if str(cell) not in done and meant(cell, names)]


def meant(cell: Cell, names: Sequence[str]) -> bool:
    """Return whether one of the names means a cell, or there are none."""
    return not names or any(cell.within(name) for name in names)


def outdated(plan: Plan, folder: Path, known: Results, chosen: Chosen, names: Sequence[str] = ()) -> set[str]:
    """Return the names of cells in the tables that the plan would now run from another scenario.

    A contender's first seed stands for all: what replaces them is removed from the tables before it is run.
    Raises UserError as build.point does.
    """
    ids = dict(zip(known.cells["cell"], known.cells["point"], strict=True))
    seeds: dict[str, list[Cell]] = {}
    for cell in plan.cells():
        if str(cell) in ids and meant(cell, names):
            seeds.setdefault(str(cell).rpartition("/")[0], []).append(cell)
    changed = [own for own in seeds.values() if build.point(plan, folder, own[0], chosen).id != ids[str(own[0])]]
    return {str(cell) for own in changed for cell in own}


def absent(plan: Plan, folder: Path, names: Iterable[str], root: Path) -> dict[str, UserError]:
    """Return which data of the plan cannot be loaded from the folder of data sets, and what is wrong with each."""
    wrong: dict[str, UserError] = {}
    first = {cell.data: cell for cell in reversed([*plan.cells()])}
    for name in dict.fromkeys(names):
        scenario = yaml_file.validated(build.scenario(plan, folder, first[name], {}))
        assert scenario.data is not None
        try:
            find.build("dataset", scenario.data.dataset).load(root, scenario.seed)
        except UserError as error:
            wrong[name] = error
    return wrong
