"""From a cell to its point: its deployment's scenario, with keys of the plan and the chosen hyper-parameters.

Also which cells are left to run: those that the tables lack or hold of another scenario, because a key of the plan, a
deployment's file or a chosen hyper-parameter has changed.  A change of fedsim's own code does not outdate a cell; the
column `stamp` tells what it was made from.
"""

import copy
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from fedsim.core.errors import UserError
from fedsim.reference.cell import HALVED, Cell
from fedsim.reference.plan import Plan, ScenarioKeys
from fedsim.reference.results import Results
from fedsim.scenario.parts import find
from fedsim.scenario.schema import Point
from fedsim.scenario.text import yaml_file
from fedsim.scenario.text.yaml_file import Document

Chosen = Mapping[tuple[str, str, str, str], ScenarioKeys]  # of data, task, method, protocol
HALF = 0.5


def point(plan: Plan, folder: Path, cell: Cell, chosen: Chosen) -> Point:
    """Return the point of a cell, whose deployment's file lies in `folder`.

    Raises UserError, naming file and key, for a cell whose keys are not those of a scenario.
    """
    return point_of(scenario(plan, folder, cell, chosen), {"cell": str(cell)})


def point_of(document: Document, axes: dict[str, Any]) -> Point:
    """Return the point of a scenario, with what tells it from others.  Raises UserError as `point` does."""
    written = yaml_file.validated(document)
    complete = written.spelled_out()
    return Point(complete.digest(), complete, axes, written=written.digest())


def scenario(plan: Plan, folder: Path, cell: Cell, chosen: Chosen, share: float = 1.0) -> Document:
    """Return the scenario of a cell, with `share` of its setting's budgets.  Raises UserError as `point` does."""
    if cell.method not in plan.methods or cell.deployment not in plan.deployments:
        raise UserError(f"{cell}: the plan has no method {cell.method!r} in a deployment {cell.deployment!r}")
    document = copy.deepcopy(_read(folder / f"{cell.deployment}.yaml"))
    for key, value in _keys(plan, cell, chosen, share):
        yaml_file.lay(document, key, copy.deepcopy(value), f"{cell}: {key}")
    return document


@lru_cache
def _read(path: Path) -> Document:
    return yaml_file.read(path)


def _keys(plan: Plan, cell: Cell, chosen: Chosen, share: float) -> Iterator[tuple[str, Any]]:
    """Yield the keys of a cell's scenario in the order in which they are set."""
    setting, task, method = plan.setting(cell.setting), plan.tasks[cell.task], plan.methods[cell.method]
    deployment = plan.deployments[cell.deployment]
    if cell.protocol not in deployment.protocols:
        raise UserError(f"{cell}: {cell.deployment} has no protocol {cell.protocol!r}")
    yield "name", "-".join(map(str, cell.row.values()))
    yield "seed", cell.seed
    yield from deployment.set.items()
    yield from plan.data[cell.data].items()
    yield from task.set.items()
    if task.arrive:
        yield "data.stream.every", f"{task.arrive * share * setting.time!r} s"
    yield "protocol", deployment.protocols[cell.protocol].model_dump()
    yield "algorithm", method.algorithm.model_dump()
    yield from method.set.items()
    names = [(cell.data, cell.task, cell.method, protocol) for protocol in (cell.protocol, *method.protocols)]
    for key, value in next((chosen[name] for name in names if name in chosen), {}).items():
        if key == "options":
            yield "algorithm", {"name": method.algorithm.name, **method.algorithm.options, **value}
        else:
            yield key, value
    yield "measure.splits", task.splits
    moved, passed = f"{round(setting.bytes * share)} B", f"{setting.time * share!r} s"
    yield "measure.until", {"bytes": moved, "time": passed, "when": "all"}
    if cell.links == HALVED:
        yield "network.rate_factor", HALF


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
    Raises UserError as point does.
    """
    ids = dict(zip(known.cells["cell"], known.cells["run"], strict=True))
    seeds: dict[str, list[Cell]] = {}
    for cell in plan.cells():
        if str(cell) in ids and meant(cell, names):
            seeds.setdefault(str(cell).rpartition("/")[0], []).append(cell)
    changed = [cells for cells in seeds.values() if point(plan, folder, cells[0], chosen).id != ids[str(cells[0])]]
    return {str(cell) for cells in changed for cell in cells}


def absent(plan: Plan, folder: Path, names: Iterable[str], root: Path) -> dict[str, UserError]:
    """Return which data of the plan cannot be loaded from the folder of data sets, and what is wrong with each."""
    wrong: dict[str, UserError] = {}
    first = {cell.data: cell for cell in reversed([*plan.cells()])}
    for name in dict.fromkeys(names):
        given = yaml_file.validated(scenario(plan, folder, first[name], {}))
        assert given.data is not None
        try:
            find.build("dataset", given.data.dataset).load(root, given.seed)
        except UserError as error:
            wrong[name] = error
    return wrong
