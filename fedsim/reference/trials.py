"""Hyper-parameters by one rule for all methods: equal trials in one setting, chosen on validation data.

Every method has the same number of trials of each data and task: the first as its algorithm is written, the others
drawn at random (Bergstra and Bengio, "Random search for hyper-parameter optimization", JMLR 2012): the learning rate
evenly in the logarithm, and the options that its class declares in `tunes`.  All methods share the draws of the
learning rate, and all data those of the options.  A trial is one run in the plan's first setting with its data and
task that has a protocol for the method, under the first such protocol, with a seed that the table does not use; its
value is the last score on validation data, on which alone it is scored.  It has a share of the setting's budgets, or
all of them if its protocol is one exchange, half of which would train nothing.  What is chosen holds in all
deployments.

Not modelled: a search for each deployment; an interaction of options with the protocol.
"""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from fedsim.core import seeds
from fedsim.core.span import Span
from fedsim.core.whole_files import write_table
from fedsim.point.folders import finished
from fedsim.reference import build, running
from fedsim.reference.cell import GIVEN, Cell
from fedsim.reference.plan import Keys, Plan
from fedsim.reference.running import Bench, Place
from fedsim.scenario import find, yaml_file
from fedsim.scenario.schema import Point

FILE = "trials.csv"
COLUMNS = ["data", "task", "method", "trial", "point", "keys", "value"]
LR = "training.lr"
ONCE = "one_shot"  # the protocol of a single exchange


@dataclass(frozen=True)
class Trial:
    """One trial: of which data, task and method, its number from 1, and the keys tried.

    `value` is None if it has not run or failed, `point` the identity of what was run.
    """

    data: str
    task: str
    method: str
    number: int
    keys: Keys
    value: float | None = None
    point: str = ""

    @property
    def key(self) -> tuple[str, str, str, int]:
        """What tells it from the others of a plan."""
        return self.data, self.task, self.method, self.number


def planned(plan: Plan) -> Iterator[Trial]:
    """Yield all trials of a plan."""
    for data, task in dict.fromkeys((one.data, task) for one in plan.settings for task in one.tasks):
        for name, method in plan.methods.items():
            if _cell(plan, data, task, name) is not None:
                tunes = type(find.build("algorithm", method.algorithm)).tunes
                for number in range(1, plan.trials.count + 1):
                    yield Trial(data, task, name, number, _drawn(plan, name, number, tunes) if number > 1 else {})


def _drawn(plan: Plan, method: str, number: int, tunes: Mapping[str, Span]) -> Keys:
    low, high = map(math.log, plan.trials.lr)
    rate = seeds.generator(plan.trials.seed, f"reference/{number}/lr").uniform(low, high)
    options = {
        name: _of(span, seeds.generator(plan.trials.seed, f"reference/{number}/{method}/{name}"))
        for name, span in tunes.items()
    }
    return {LR: float(f"{math.exp(rate):.3g}"), **({"options": options} if options else {})}


def _of(span: Span, rng: np.random.Generator) -> int | float | str:
    if span.choices:
        return span.choices[int(rng.integers(len(span.choices)))]
    if span.log:
        return span.kept(math.exp(rng.uniform(math.log(span.low), math.log(span.high))))
    if span.step:
        return span.kept(span.low + span.step * int(rng.integers(round((span.high - span.low) / span.step) + 1)))
    return span.kept(rng.uniform(span.low, span.high))


def _cell(plan: Plan, data: str, task: str, method: str) -> Cell | None:
    """Return the cell that a trial runs, None where no setting with the data and task runs the method."""
    for one in plan.settings:
        for protocol in plan.methods[method].protocols:
            if one.data == data and plan.has(one, task, method, protocol):
                return Cell(one.deployment, data, task, method, protocol, GIVEN, plan.trials.seed)
    return None


def point(plan: Plan, folder: Path, trial: Trial) -> Point:
    """Return the point of a trial, scored on validation data alone.  Raises UserError as build.point does."""
    cell = _cell(plan, trial.data, trial.task, trial.method)
    assert cell is not None
    chosen = {(trial.data, trial.task, trial.method): trial.keys}
    once = plan.deployments[cell.deployment].protocols[cell.protocol].name == ONCE
    document = build.scenario(plan, folder, cell, chosen, 1.0 if once else plan.trials.share)
    yaml_file.lay(document, "measure.splits", [*plan.trials.splits], "splits")
    yaml_file.lay(document, "measure.every", "10 updates", "every")
    given = yaml_file.validated(document)
    whole = given.spelled_out()
    axes = {"data": trial.data, "task": trial.task, "method": trial.method, "trial": trial.number}
    return Point(whole.digest(), whole, axes, written=given.digest())


def search(
    plan: Plan, place: Place, bench: Bench, only: Sequence[str] = (), without: Sequence[str] = ()
) -> list[Trial]:
    """Run the trials of a plan that have not been run, and write and return all of them.

    `only` names methods or data, none means all; `without` names data.
    """
    known = {one.key: one for one in read(place.plan / FILE)}
    wanted = {one.key: point(plan, place.plan, one) for one in planned(plan)}
    new = [
        one
        for one in planned(plan)
        if not _ran(known.get(one.key), wanted[one.key])
        and (not only or {one.method, one.data} & {*only})
        and one.data not in without
    ]
    folder = place.out / "trials"
    try:
        running.sweep([wanted[one.key] for one in new], folder, place.data, bench)
    finally:
        for one in new:
            own = wanted[one.key].id
            row = finished(folder / own)
            if row is not None:
                known[one.key] = replace(one, value=row["score"], point=own)
        kept = [known[key] for key in wanted if key in known]
        write(kept, place.plan / FILE)
    return kept


def _ran(one: Trial | None, wanted: Point) -> bool:
    return one is not None and one.value is not None and one.point == wanted.id


def chosen(trials: Sequence[Trial]) -> dict[tuple[str, str, str], Keys]:
    """Return the keys of the best valued trial of each data, task and method, the first of equals."""
    best: dict[tuple[str, str, str], Keys] = {}
    valued = [(one.value, one) for one in trials if one.value is not None]
    for _, one in sorted(valued, key=lambda pair: pair[0], reverse=True):  # stable: equals keep their order
        best.setdefault((one.data, one.task, one.method), one.keys)
    return best


def read(path: Path) -> list[Trial]:
    """Return the trials in a file, none if there is no such file."""
    if not path.is_file():
        return []
    table = pd.read_csv(path, dtype={"point": str}, keep_default_na=False, na_values={"value": [""]})
    rows: list[dict[str, Any]] = table.to_dict("records")  # type: ignore[assignment]
    return [
        Trial(row["data"], row["task"], row["method"], int(row["trial"]), json.loads(row["keys"]),
              None if row["value"] != row["value"] else float(row["value"]), row["point"])
        for row in rows
    ]  # fmt: skip


def write(trials: Sequence[Trial], path: Path) -> None:
    """Write the trials, a row each."""
    rows = [
        {
            "data": one.data,
            "task": one.task,
            "method": one.method,
            "trial": one.number,
            "point": one.point,
            "keys": json.dumps(one.keys),
            "value": one.value,
        }
        for one in trials
    ]
    write_table(path, COLUMNS, rows)
