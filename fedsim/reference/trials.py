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

import csv
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from fedsim.core import seeds
from fedsim.core.span import Span
from fedsim.core.whole_files import write_table
from fedsim.point.results.folders import finished, places
from fedsim.reference import build, running
from fedsim.reference.cell import GIVEN, Cell
from fedsim.reference.plan import Plan, ScenarioKeys
from fedsim.reference.running import Bench, ReferenceFolders
from fedsim.scenario.parts import find
from fedsim.scenario.schema import Point
from fedsim.scenario.text import yaml_file

FILE = "trials.csv"
COLUMNS = ["data", "task", "method", "trial", "run", "keys", "value"]
LR = "training.lr"
ONCE = "one_shot"  # the protocol of a single exchange


@dataclass(frozen=True)
class PlanTrial:
    """One trial: of which data, task and method, its number from 1, and the keys tried; the fields are COLUMNS.

    `value` is None if it has not run or failed, `run` the identity of what was run.
    """

    data: str
    task: str
    method: str
    trial: int
    keys: ScenarioKeys
    value: float | None = None
    run: str = ""

    @property
    def key(self) -> tuple[str, str, str, int]:
        """Its identity in a plan: data, task, method and number."""
        return self.data, self.task, self.method, self.trial


def planned(plan: Plan) -> Iterator[PlanTrial]:
    """Yield all trials of a plan."""
    for data, task in dict.fromkeys((setting.data, task) for setting in plan.settings for task in setting.tasks):
        for name, method in plan.methods.items():
            if _cell(plan, data, task, name) is not None:
                tunes = type(find.build("algorithm", method.algorithm)).tunes
                for number in range(1, plan.trials.count + 1):
                    yield PlanTrial(data, task, name, number, _drawn(plan, name, number, tunes) if number > 1 else {})


def _drawn(plan: Plan, method: str, number: int, tunes: Mapping[str, Span]) -> ScenarioKeys:
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
    for setting in plan.settings:
        for protocol in plan.methods[method].protocols:
            if setting.data == data and plan.has(setting, task, method, protocol):
                return Cell(setting.deployment, data, task, method, protocol, GIVEN, plan.trials.seed)
    return None


def point(plan: Plan, folder: Path, trial: PlanTrial) -> Point:
    """Return the point of a trial, scored on validation data alone.  Raises UserError as build.point does."""
    cell = _cell(plan, trial.data, trial.task, trial.method)
    assert cell is not None
    chosen = {(trial.data, trial.task, trial.method): trial.keys}
    once = plan.deployments[cell.deployment].protocols[cell.protocol].name == ONCE
    document = build.scenario(plan, folder, cell, chosen, 1.0 if once else plan.trials.share)
    yaml_file.lay(document, "measure.splits", [*plan.trials.splits], "splits")
    yaml_file.lay(document, "measure.every", "10 updates", "every")
    written = yaml_file.validated(document)
    resolved = written.spelled_out()
    axes = {"data": trial.data, "task": trial.task, "method": trial.method, "trial": trial.trial}
    return Point(resolved.digest(), resolved, axes, written=written.digest())


def search(
    plan: Plan, place: ReferenceFolders, bench: Bench, only: Sequence[str] = (), without: Sequence[str] = ()
) -> list[PlanTrial]:
    """Run the trials of a plan that have not been run, and write and return all of them.

    `only` names methods or data, none means all; `without` names data.
    """
    known = {trial.key: trial for trial in read(place.plan / FILE)}
    points = {trial.key: point(plan, place.plan, trial) for trial in planned(plan)}
    new = [
        trial
        for trial in planned(plan)
        if not _has_run(known.get(trial.key), points[trial.key])
        and (not only or {trial.method, trial.data} & {*only})
        and trial.data not in without
    ]
    folder = place.out / "trials"
    try:
        running.sweep([points[trial.key] for trial in new], folder, place.data, bench)
    finally:
        folders = places(folder, points.values())
        for trial in new:
            run = points[trial.key].id
            row = finished(folders[run])
            if row is not None:
                known[trial.key] = replace(trial, value=row["score"], run=run)
        trials = [known[key] for key in points if key in known]
        write(trials, place.plan / FILE)
    return trials


def _has_run(trial: PlanTrial | None, point: Point) -> bool:
    return trial is not None and trial.value is not None and trial.run == point.id


def chosen(trials: Sequence[PlanTrial]) -> dict[tuple[str, str, str], ScenarioKeys]:
    """Return the keys of the best valued trial of each data, task and method, the first of equals."""
    best: dict[tuple[str, str, str], ScenarioKeys] = {}
    valued = [(trial.value, trial) for trial in trials if trial.value is not None]
    for _, trial in sorted(valued, key=lambda pair: pair[0], reverse=True):  # stable: equals keep their order
        best.setdefault((trial.data, trial.task, trial.method), trial.keys)
    return best


def read(path: Path) -> list[PlanTrial]:
    """Return the trials in a file, none if there is no such file."""
    if not path.is_file():
        return []
    with path.open(encoding="utf-8", newline="") as file:
        return [
            PlanTrial(
                row["data"], row["task"], row["method"], int(row["trial"]), json.loads(row["keys"]),
                float(row["value"]) if row["value"] else None, row["run"],
            )
            for row in csv.DictReader(file)
        ]  # fmt: skip


def write(trials: Sequence[PlanTrial], path: Path) -> None:
    """Write the trials, a row each."""
    write_table(path, COLUMNS, [{**vars(trial), "keys": json.dumps(trial.keys)} for trial in trials])
