"""Hyper-parameters by one rule for all methods: equal trials in one setting, chosen on validation data.

Every method has the same number of trials of each data, task and protocol: the first as its algorithm is
written, the others drawn at random (Bergstra and Bengio, "Random search for hyper-parameter optimization",
JMLR 2012): the learning rate evenly in the logarithm, and the options that its class declares in `tunes`.
All methods share the draws of the learning rate, and all data and protocols those of the options.  A trial
is a run with each of some seeds that the table does not use, in the plan's first setting that has its data,
task, method and protocol; its value is the mean of the last scores on validation data, on which alone it is
scored.  It has a share of the setting's budgets, or all of them if its protocol is one exchange, half of
which would train nothing.  What is chosen holds in all deployments.  A protocol without trials takes what
was chosen under another one.

Not modelled: a search for each deployment.
"""

import csv
import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import mean
from typing import Any

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
COLUMNS = ["data", "task", "method", "protocol", "trial", "seed", "run", "keys", "value"]
READ: dict[str, Callable[[str], Any]] = {
    "trial": int, "seed": int, "keys": json.loads, "value": lambda text: float(text) if text else None,
}  # fmt: skip
LR = "training.lr"
ONCE = "one_shot"  # the protocol of a single exchange


@dataclass(frozen=True)
class PlanTrial:
    """A seed of a trial: of which data, task, method and protocol, its number from 1, the keys tried (see COLUMNS).

    `value` is None if it has not run or failed, `run` the identity of what was run.
    """

    data: str
    task: str
    method: str
    protocol: str
    trial: int
    seed: int
    keys: ScenarioKeys
    value: float | None = None
    run: str = ""

    @property
    def key(self) -> tuple[str, str, str, str, int, int]:
        """Its identity in a plan: data, task, method, protocol, number and seed."""
        return *self.of, self.trial, self.seed

    @property
    def of(self) -> tuple[str, str, str, str]:
        """What it chooses for: data, task, method and protocol."""
        return self.data, self.task, self.method, self.protocol


def planned(plan: Plan) -> Iterator[PlanTrial]:
    """Yield all trials of a plan."""
    for of in dict.fromkeys((cell.data, cell.task, cell.method, cell.protocol) for cell in plan.cells()):
        tunes = type(find.build("algorithm", plan.methods[of[2]].algorithm)).tunes
        for number in range(1, plan.trials.count + 1):
            keys = _drawn(plan, of[2], number, tunes) if number > 1 else {}
            for seed in plan.trials.seeds:
                yield PlanTrial(*of, number, seed, keys)


def _drawn(plan: Plan, method: str, number: int, tunes: Mapping[str, Span]) -> ScenarioKeys:
    low, high = map(math.log, plan.trials.lr)
    rate = seeds.generator(plan.trials.seeds[0], f"reference/{number}/lr").uniform(low, high)
    options = {
        name: _of(span, seeds.generator(plan.trials.seeds[0], f"reference/{number}/{method}/{name}"))
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


def point(plan: Plan, folder: Path, trial: PlanTrial) -> Point:
    """Return the point of a trial, scored on validation data alone.  Raises UserError as build.point does."""
    here = (each for each in plan.settings if each.data == trial.data and plan.has(each, *trial.of[1:]))
    cell = Cell(next(here).deployment, *trial.of, GIVEN, trial.seed)
    chosen = {trial.of: trial.keys}
    once = plan.deployments[cell.deployment].protocols[cell.protocol].name == ONCE
    document = build.scenario(plan, folder, cell, chosen, 1.0 if once else plan.trials.share)
    yaml_file.lay(document, "measure.splits", [*plan.trials.splits], "splits")
    yaml_file.lay(document, "measure.every", "10 updates", "every")
    yaml_file.lay(document, "measure.until.when", "any", "until")
    return build.point_of(document, dict(zip(COLUMNS, trial.key, strict=False)))


def search(
    plan: Plan, place: ReferenceFolders, bench: Bench, only: Sequence[str] = (), without: Sequence[str] = ()
) -> list[PlanTrial]:
    """Run the trials of a plan that have not been run, and write and return all of them.

    `only` names methods, data, or data and task (digits/static), none means all; `without` names data.
    """
    known = {trial.key: trial for trial in read(place.plan / FILE)}
    wanted = [
        trial
        for trial in planned(plan)
        if (not only or {trial.method, trial.data, f"{trial.data}/{trial.task}"} & {*only})
        and trial.data not in without
    ]
    points = {trial.key: point(plan, place.plan, trial) for trial in wanted}
    done = {trial.key: trial for trial in wanted if _has_run(known.get(trial.key), points[trial.key])}
    known |= {key: replace(known[key], keys=trial.keys) for key, trial in done.items()}  # the same run, if written anew
    new = [trial for trial in wanted if trial.key not in done]
    folder = place.out / "trials"
    try:
        running.sweep([points[trial.key] for trial in new], folder, place.data, bench)
    finally:
        folders = places(folder, points.values())
        for trial in new:
            run = points[trial.key].id
            if (row := finished(folders[run])) is not None:
                known[trial.key] = replace(trial, value=row["score"], run=run)
        trials = [known[trial.key] for trial in planned(plan) if trial.key in known]
        write(trials, place.plan / FILE)
    return trials


def _has_run(trial: PlanTrial | None, point: Point) -> bool:
    return trial is not None and trial.value is not None and trial.run == point.id


def chosen(trials: Sequence[PlanTrial]) -> dict[tuple[str, str, str, str], ScenarioKeys]:
    """Return the keys of the best valued trial of each data, task, method and protocol, the first of equals.

    Trials with fewer seeds than others of theirs are not compared.
    """
    values: dict[tuple[str, str, str, str], dict[int, list[float]]] = {}
    keys = {(trial.of, trial.trial): trial.keys for trial in trials}
    for trial in trials:
        if trial.value is not None:
            values.setdefault(trial.of, {}).setdefault(trial.trial, []).append(trial.value)
    best: dict[tuple[str, str, str, str], ScenarioKeys] = {}
    for of, tried in values.items():
        whole = max(map(len, tried.values()))
        means = {number: mean(of_seeds) for number, of_seeds in tried.items() if len(of_seeds) == whole}
        best[of] = keys[of, max(means, key=means.__getitem__)]
    return best


def read(path: Path) -> list[PlanTrial]:
    """Return the trials in a file, none if there is no such file."""
    if not path.is_file():
        return []
    with path.open(encoding="utf-8", newline="") as file:
        return [
            PlanTrial(**{name: READ.get(name, str)(text) for name, text in row.items()}) for row in csv.DictReader(file)
        ]


def write(trials: Sequence[PlanTrial], path: Path) -> None:
    """Write the trials, a row each."""
    write_table(path, COLUMNS, [{**vars(trial), "keys": json.dumps(trial.keys)} for trial in trials])
