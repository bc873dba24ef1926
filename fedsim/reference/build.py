"""From a cell to its point: its deployment's scenario, with keys of the plan and the chosen hyper-parameters."""

import copy
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from fedsim.core.errors import UserError
from fedsim.reference.cell import HALVED, Cell
from fedsim.reference.plan import Keys, Plan
from fedsim.scenario import yaml_file
from fedsim.scenario.part import Part
from fedsim.scenario.schema import Point
from fedsim.scenario.yaml_file import Document

Chosen = Mapping[tuple[str, str, str], Keys]  # (data, task, method): dotted keys and their values
HALF = 0.5


def point(plan: Plan, folder: Path, cell: Cell, chosen: Chosen) -> Point:
    """Return the point of a cell, whose deployment's file lies in `folder`.

    Raises UserError, naming file and key, for a cell whose keys are not those of a scenario.
    """
    document = scenario(plan, folder, cell, chosen)
    given = yaml_file.validated(document)
    whole = given.spelled_out()
    return Point(whole.digest(), whole, {"cell": str(cell)}, written=given.digest())


def scenario(plan: Plan, folder: Path, cell: Cell, chosen: Chosen, share: float = 1.0) -> Document:
    """Return the scenario of a cell, with `share` of its setting's budgets.  Raises UserError as `point` does."""
    if cell.method not in plan.methods or cell.deployment not in plan.deployments:
        raise UserError(f"{cell}: the plan has no method {cell.method!r} in a deployment {cell.deployment!r}")
    found = copy.deepcopy(_read(folder / f"{cell.deployment}.yaml"))
    for key, value in _keys(plan, cell, chosen, share):
        yaml_file.lay(found, key, copy.deepcopy(value), f"{cell}: {key}")
    return found


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
    for key, value in chosen.get((cell.data, cell.task, cell.method), {}).items():
        yield ("algorithm" if key == "options" else key), _with_options(method.algorithm, key, value)
    yield "measure.splits", task.splits
    yield "measure.until", {"bytes": f"{round(setting.bytes * share)} B", "time": f"{setting.time * share!r} s"}
    if cell.links == HALVED:
        yield "network.rate_factor", HALF


def _with_options(algorithm: Part, key: str, value: Any) -> Any:
    return {"name": algorithm.name, **algorithm.options, **value} if key == "options" else value
