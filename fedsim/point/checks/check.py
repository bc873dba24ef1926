"""Check whether the points of a scenario can be run: every name is a file, every option one of the file's class.

Without `whole` protocols, effects and the like are built, and of other parts the names of options are checked.  With
`whole` every distinct part is built, so that values are checked too.  Either way a rehearsal (`fit.py`) sets the
network up once, to find problems between parts.  Dry runs and runs do both, one after the other, so that they refuse
the same scenarios with the same messages.

Before any worker starts, each distinct section `data` is made once (`check_data`): loaded, divided and cut into periods
as a run does it, with the seed of the first point that has it, and the tasks, algorithms and splits that go with it are
asked whether they can use it.  What this process will need itself is kept (`prepared`).

Not checked: what other seeds draw, such as a client that is left without nodes.
"""

import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np

from fedsim.core import logbook
from fedsim.core.asking import asking_once
from fedsim.core.errors import Problem, ScenarioError, UserError
from fedsim.core.units import did_you_mean
from fedsim.point.build import costing, fleet
from fedsim.point.build.parts import Parts
from fedsim.point.checks import fit, memory, training
from fedsim.scenario import combinations
from fedsim.scenario.part import Part
from fedsim.scenario.parts import find, plugins
from fedsim.scenario.schema import Point, Scenario
from fedsim.scenario.text.yaml_file import Document

LIGHT = ("protocol", "effect", "topology", "codec", "sampler", "transport")  # their files never import torch
STRONGEST = 1e18  # FLOP/s, about the largest machine of all
FASTEST = 1e15  # bit/s: about what has been measured over a single fibre


@asking_once()
def points(chosen: Sequence[Point], whole: bool = False) -> list[Problem]:
    """Return the problems of the points' parts and metrics, each once, at the scenario's key."""
    known: dict[str, list[Problem]] = {}
    before = memory.peak()
    problems = _each_once((point, _problems_of(point, known, whole)) for point in chosen)
    memory.reclaim(before)  # the network of a rehearsal is a circle, and a run exempts what lives from collection
    return problems


def _each_once(of_points: Iterable[tuple[Point, Sequence[Problem]]]) -> list[Problem]:
    """Return the problems of points, each once, at the key that the user has written."""
    placed = (Problem(combinations.blame(problem.key, point.places), problem.message)
              for point, problems in of_points for problem in problems)  # fmt: skip
    return [*dict.fromkeys(placed)]


def _problems_of(point: Point, known: dict[str, list[Problem]], whole: bool) -> list[Problem]:
    """Return the problems of a point; those that are `known` of its parts are not looked for again."""
    if large := memory.problems(point.scenario):  # before anything is drawn
        return large
    wrong, plain = _metric_problems(point), point.scenario.plain()
    once = partial(_once, known, Parts(point.scenario), plain)
    for kind, key, part in point.scenario.parts():
        identity = json.dumps([kind, key, part.name, part.options], default=str)
        if identity not in known:
            known[identity] = _part_problems(kind, key, part, whole)
        wrong += known[identity]
    wrong += once("fleet", ("clients", "network", "costs"), _fleet_problems)
    if not wrong:
        stated = [key for key in fit.LEARNS if plain.get(key)]
        keys = ("algorithm", "aggregation", "protocol", "network", "privacy", "clients")
        wrong += once(f"fit of {stated}", keys, partial(fit.problems, whole=whole))
    if not wrong:
        wrong += once("module", ("algorithm", "model", "task"), fit.module_problems)
    if not wrong and whole:
        wrong += once("training", ("algorithm", "model", "task", "training"), training.problems)
    if not wrong and whole:
        wrong += once("pairs", ("algorithm", "protocol", "model", "task", "data", "measure"), fit.pair_problems)
    return wrong or once("meeting", ("clients", "network", "protocol"), fit.rehearse)


@asking_once()
def planned(scenario: Scenario, document: Document, only_own: bool = False) -> list[Point]:
    """Return the points of a scenario, checked without `whole`.  Raises UserError that names the file and lines.

    `only_own` refuses parts that are not fedsim's, before any of them is imported.
    """
    with document.located():
        if only_own and (foreign := plugins.problems(scenario, (Path.cwd(), document.path.parent))):
            raise ScenarioError(foreign)
        chosen = [*scenario.points()]
    hold(chosen, document)
    return chosen


def hold(chosen: Sequence[Point], document: Document, whole: bool = False) -> None:
    """Raise UserError, naming the file and lines, unless the points can be run."""
    if problems := points(chosen, whole):
        raise document.error(problems)


def notes(chosen: Sequence[Point]) -> list[str]:
    """Return a line for each name that is a file of the user's although fedsim has one of that name.

    And one for each rate or speed that nothing has, as a wrong unit gives.
    """
    named = dict.fromkeys((kind, part.name) for point in chosen for kind, _, part in point.scenario.parts())
    hiding = [note for kind, name in named if (note := find.note(kind, name))]
    fleets: dict[str, Scenario] = {}
    for point in chosen:
        plain = point.scenario.plain()
        fleets.setdefault(json.dumps([plain["clients"], plain["network"]], sort_keys=True), point.scenario)
    return [*hiding, *dict.fromkeys(note for scenario in fleets.values() for note in _too_fast(scenario))]


def _too_fast(scenario: Scenario) -> list[str]:
    """Return a line for each rate and speed of a scenario that is above what anything has."""
    columns, server = Parts(scenario).columns, scenario.network.server
    drawn = {f"network.{name}": float(columns[name].max()) for name in ("uplink", "downlink") if len(columns[name])}
    given = {f"network.server.{name}": getattr(server, name) or 0.0 for name in ("ingress", "egress")}
    message = "is more than any link carries: is it the right unit? (without a limit, leave a server's rate out)"
    noted = [f"{key}: {rate:.3g} bit/s {message}" for key, rate in {**drawn, **given}.items() if rate > FASTEST]
    if (speed := float(np.max(columns.get("speed", 0.0)))) > STRONGEST:
        noted.append(f"clients.speed: {speed:.3g} FLOP/s is more than any client has: is it the right unit?")
    return noted


def _once(
    known: dict[str, list[Problem]], parts: Parts, plain: Mapping[str, Any],
    what: str, keys: Sequence[str], look: Callable[[Parts], list[Problem]],
) -> list[Problem]:  # fmt: skip
    """Run the check once for every combination of values of these keys."""
    key = json.dumps([what, *(plain.get(key) for key in keys)], sort_keys=True, default=str)
    if key not in known:
        known[key] = look(parts)
    return known[key]


def _fleet_problems(parts: Parts) -> list[Problem]:
    scenario = parts.scenario
    wrong = [*fleet.problems(scenario, lambda: parts.columns)]
    if not wrong and scenario.costs is not None:
        with fit.noted_as("costs", wrong):
            costing.priced(scenario, parts.rng, 1)
    return wrong


@lru_cache
def known_metrics(task: str) -> list[str]:
    """Return the metrics of a task's predictions; empty if the task does not list these."""
    judges = {*_listed("task", task, "judges")}
    return [name for name in find.names("metric") if judges & {*_listed("metric", name, "of")}]


def _listed(kind: str, name: str, attribute: str) -> list[str]:
    """Return the texts that a part's class lists under an attribute; empty if it cannot be imported."""
    try:
        return [*getattr(find.find(kind, Part(name=name), kind), attribute, ())]
    except ScenarioError:
        return []


def _metric_problems(point: Point) -> list[Problem]:
    """Return a problem for each metric that is there, but of other predictions than the task's."""
    if not point.scenario.model:
        return []
    task = point.scenario.task.name
    judges, known = {*_listed("task", task, "judges")}, known_metrics(task)
    message = f"is not a metric of the task {task!r}"
    return [
        Problem(f"measure.metrics.{number}", f"{name!r} {message}{did_you_mean(name, known)}")
        for number, name in enumerate(point.scenario.measure.metrics)
        if judges and (of := _listed("metric", name, "of")) and not judges & {*of}
    ]


def _part_problems(kind: str, key: str, part: Part, whole: bool) -> list[Problem]:
    wrong = [*find.check(kind, part, key)]
    if not wrong and (whole or kind in LIGHT):
        with fit.noted_as(key, wrong):
            find.build(kind, part, key)
    return wrong


USES = ("data", "clients", "model", "task", "algorithm", "measure")  # what asks something of the data


def check_data(chosen: Sequence[Point], document: Document, root: Path, keep: bool = False) -> list[str]:
    """Raise UserError, naming the file and lines, unless the data of these points can be used; return what to note.

    `root` is the folder of data sets.  With `keep` the data made last stay in memory for the points of this process.
    """
    try:
        wrong, notes = data_problems(chosen, root, keep)
        if wrong:
            raise document.error(wrong)
        return notes
    finally:
        if not keep:
            _forget()


def data_problems(chosen: Sequence[Point], root: Path, keep: bool = False) -> tuple[list[Problem], list[str]]:
    """Return the problems of the points' data, and what is worth a note, each once.

    Raises UserError if a data set cannot be loaded at all.
    """
    wrong: list[tuple[Point, Sequence[Problem]]] = []
    notes: dict[str, None] = {}
    seen = set[str]()
    for point in chosen:
        plain, scenario = point.scenario.plain(), point.scenario
        more = [scenario.protocol.name, [part.model_dump() for part in scenario.network.effects]]
        key = json.dumps([*(plain.get(name) for name in USES), more], sort_keys=True, default=str)
        if key in seen:
            continue
        seen.add(key)
        try:
            with logbook.set_aside():  # what is worth a message goes into the log of each point
                if note := _look(scenario, root, keep):
                    notes[note] = None
        except ScenarioError as error:
            wrong.append((point, error.problems))
        except UserError:
            raise
        except Exception:  # a fault of a part's code: the point fails by it, and its log has the traceback
            continue
    return _each_once(wrong), [*notes]


def _look(scenario: Scenario, root: Path, keep: bool) -> str:
    """Raise UserError unless a run could begin on these data; return a note, "" without any.

    What is not kept takes none of a GPU's memory.
    """
    parts = Parts(scenario)
    if not parts.algorithm.learns or scenario.data is None:
        return ""
    from fedsim.point.build import learning
    from fedsim.point.build.assemble import check_groups

    learning.choose_device(scenario.device)
    if not keep:
        parts = Parts(scenario.model_copy(update={"device": "cpu"}))
    setup = learning.prepare(parts, root)
    setup.check(scenario)
    setup.algorithm.start()
    check_groups(parts, lambda: setup.data.held)
    if setup.task.classes == 1 and "classes" in setup.task.judges:
        name = scenario.data.dataset.name
        return f"data.dataset: {name!r} has a single class, so every model is right about all of it"
    return ""


def _forget() -> None:
    if prepared := sys.modules.get("fedsim.point.build.prepared"):  # not there where nothing is learned
        prepared.periods_of.cache_clear()
