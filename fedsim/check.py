"""Whether the points of a scenario can be run: every name a file, every option one that the file's class takes.

Without `whole` nothing is imported that imports torch: protocols and effects are built, of the others the names of
options are read from their sources.  With it every distinct part is built, so that values are checked too.  Either way
the network is laid out once by `rehearsal`, for what only shows where the parts meet.  A dry run and a run do both, one
after the other, so that they refuse the same scenarios in the same words.

What it does not look at: the data themselves.  Whether a graph can be divided as asked is seen once it is loaded.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, partial
from typing import Any

from fedsim import combinations, find, fleet, private, rehearsal, source, wording
from fedsim.errors import Problem, ScenarioError
from fedsim.scenario import Part, Point, Scenario
from fedsim.scenario_file import Document

LIGHT = ("protocol", "effect", "topology", "codec", "sampler")  # their files never import torch
LEARNS = ("data", "model", "training")
NOTHING = Part(name="algorithms.traffic", options={"down": 0, "up": 0})  # goes with every protocol, and moves nothing


def points(chosen: Sequence[Point], whole: bool = False) -> list[Problem]:
    """Return what is wrong with the parts and metrics of the points, each problem once, where the scenario says it."""
    found: dict[Problem, None] = {}
    known: dict[str, list[Problem]] = {}
    for point in chosen:
        wrong, plain = _metric_problems(point), point.scenario.plain()
        once = partial(_once, known, point.scenario, plain)
        for kind, key, part in point.scenario.parts():
            told = json.dumps([kind, key, part.name, part.options], default=str)
            if told not in known:
                known[told] = _part_problems(kind, key, part, whole)
            wrong += known[told]
        wrong += once("fleet", ("clients", "network"), fleet.problems)
        if not wrong:
            look = partial(_fit_problems, whole=whole)
            there = [key for key in LEARNS if plain.get(key)]
            wrong += once(f"fit of {there}", ("algorithm", "protocol", "network", "privacy", "clients"), look)
        if not wrong:
            wrong += once("meeting", ("clients", "network", "protocol"), rehearsal.problems)
        for problem in wrong:
            found.setdefault(Problem(combinations.blame(problem.key, point.places), problem.message))
    return [*found]


def planned(scenario: Scenario, document: Document) -> list[Point]:
    """Return the points of a scenario, looked at without `whole`.  Raises UserError that names the file and places."""
    try:
        chosen = [*scenario.points()]
    except ScenarioError as error:
        raise document.error(error.problems) from None
    hold(chosen, document)
    return chosen


def hold(chosen: Sequence[Point], document: Document, whole: bool = False) -> None:
    """Hold that the points can be run.  Raises UserError that names the file and places where they cannot."""
    if problems := points(chosen, whole):
        raise document.error(problems)


def notes(chosen: Sequence[Point]) -> list[str]:
    """Return a line for each name that is a file of the user's although fedsim has one of that name."""
    named = dict.fromkeys((kind, part.name) for point in chosen for kind, _, part in point.scenario.parts())
    return [note for kind, name in named if (note := find.note(kind, name))]


def _once(
    known: dict[str, list[Problem]],
    scenario: Scenario,
    plain: Mapping[str, Any],
    what: str,
    keys: Sequence[str],
    look: Callable[[Scenario], list[Problem]],
) -> list[Problem]:
    """Look once at every different choice of these keys."""
    told = json.dumps([what, *(plain.get(key) for key in keys)], sort_keys=True, default=str)
    if told not in known:
        known[told] = look(scenario)
    return known[told]


def _fit_problems(scenario: Scenario, whole: bool) -> list[Problem]:
    """Return why algorithm, protocol and topology cannot go together, and what learning lacks.

    Without `whole` the algorithm is left aside, for its file may import torch.
    """
    protocol, topology = find.build("protocol", scenario.protocol), find.build("topology", scenario.network.topology)
    if wrong := missing_algorithm(scenario, protocol.asks):
        return wrong
    if reason := protocol.refuse(find.build("algorithm", NOTHING), topology):
        return [Problem("protocol", f"{scenario.protocol.name!r} {reason}")]
    try:
        fleet.codecs(scenario, protocol.shares_only)
    except ScenarioError as error:
        return [*error.problems]
    if wrong := private.problems(scenario, protocol):
        return wrong
    if scenario.algorithm is None or not (whole and protocol.asks):
        return []
    algorithm = find.build("algorithm", scenario.algorithm)
    found = missing_lesson(scenario) if algorithm.learns else []
    reason = protocol.refuse(algorithm, topology)
    found += [Problem("protocol", f"{scenario.protocol.name!r} {reason}")] if reason else []
    return found + private.uncovered(scenario, algorithm)


def missing_algorithm(scenario: Scenario, asks: bool) -> list[Problem]:
    """Return that the protocol `asks` clients to work and the scenario does not say at what, where it is so."""
    if scenario.algorithm is not None or not asks:
        return []
    told = f"is missing, and the protocol {scenario.protocol.name!r} asks clients to work; name an algorithm"
    return [Problem("algorithm", told)]


def missing_lesson(scenario: Scenario) -> list[Problem]:
    """Return which of the keys that an algorithm needs to learn the scenario lacks."""
    assert scenario.algorithm is not None
    told = f"is missing, and {scenario.algorithm.name!r} learns: it needs {', '.join(LEARNS)}"
    return [Problem(key, told) for key in LEARNS if getattr(scenario, key) is None]


@lru_cache
def known_metrics(task: str) -> list[str]:
    """Return what a task can be scored by, read from its source; empty where the source does not tell."""
    module = find.module_of("task", task)
    if module is None or find.check("task", Part(name=task)):
        return []
    return source.literals(module, find.KINDS["task"].contract, "metrics")


def _metric_problems(point: Point) -> list[Problem]:
    task = point.scenario.task.name
    known = known_metrics(task)
    told = f"is not a metric of the task {task!r}"
    return [
        Problem(f"measure.metrics.{number}", f"{name!r} {told}{wording.did_you_mean(name, known, 'There are')}")
        for number, name in enumerate(point.scenario.measure.metrics)
        if known and name not in known
    ]


def _part_problems(kind: str, key: str, part: Part, whole: bool) -> list[Problem]:
    wrong = find.check(kind, part, key)
    if wrong or not (whole or kind in LIGHT):
        return wrong
    try:
        find.build(kind, part, key)
    except ScenarioError as error:
        return [*error.problems]
    return []
