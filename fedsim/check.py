"""Check whether the points of a scenario can be run: every name is a file, every option one of the file's class.

Without `whole` nothing that needs torch is imported: protocols and effects are built, and for other parts the names of
options are read from their sources.  With `whole` every distinct part is built, so that values are checked too.  Either
way `rehearsal` sets the network up once, to find problems between parts.  Dry runs and runs do both, one after the
other, so that they refuse the same scenarios with the same messages.

The data are not checked: whether a graph can be divided as requested shows when it is loaded.
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
NOTHING = Part(name="traffic", options={"down": 0, "up": 0})  # goes with every protocol, and moves nothing


def points(chosen: Sequence[Point], whole: bool = False) -> list[Problem]:
    """Return the problems of the points' parts and metrics, each once, at the scenario's key."""
    found: dict[Problem, None] = {}
    known: dict[str, list[Problem]] = {}
    for point in chosen:
        wrong, plain = _metric_problems(point), point.scenario.plain()
        once = partial(_once, known, point.scenario, plain)
        for kind, key, part in point.scenario.parts():
            identity = json.dumps([kind, key, part.name, part.options], default=str)
            if identity not in known:
                known[identity] = _part_problems(kind, key, part, whole)
            wrong += known[identity]
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
    """Return the points of a scenario, checked without `whole`.  Raises UserError that names the file and lines."""
    try:
        chosen = [*scenario.points()]
    except ScenarioError as error:
        raise document.error(error.problems) from None
    hold(chosen, document)
    return chosen


def hold(chosen: Sequence[Point], document: Document, whole: bool = False) -> None:
    """Raise UserError, naming the file and lines, unless the points can be run."""
    if problems := points(chosen, whole):
        raise document.error(problems)


def _once(
    known: dict[str, list[Problem]],
    scenario: Scenario,
    plain: Mapping[str, Any],
    what: str,
    keys: Sequence[str],
    look: Callable[[Scenario], list[Problem]],
) -> list[Problem]:
    """Run the check once for every combination of values of these keys."""
    key = json.dumps([what, *(plain.get(key) for key in keys)], sort_keys=True, default=str)
    if key not in known:
        known[key] = look(scenario)
    return known[key]


def _fit_problems(scenario: Scenario, whole: bool) -> list[Problem]:
    """Return why algorithm, protocol and topology cannot be combined, and what learning lacks.

    Without `whole` the algorithm is ignored, because its file may import torch.
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
    """Return a problem if the protocol `asks` clients to work but the scenario names no algorithm."""
    if scenario.algorithm is not None or not asks:
        return []
    message = f"is missing, and the protocol {scenario.protocol.name!r} asks clients to work; name an algorithm"
    return [Problem("algorithm", message)]


def missing_lesson(scenario: Scenario) -> list[Problem]:
    """Return the missing keys that a learning algorithm needs."""
    assert scenario.algorithm is not None
    message = f"is missing, and {scenario.algorithm.name!r} learns: it needs {', '.join(LEARNS)}"
    return [Problem(key, message) for key in LEARNS if getattr(scenario, key) is None]


@lru_cache
def known_metrics(task: str) -> list[str]:
    """Return the metrics of a task, read from its source; empty if the source does not list them."""
    module = find.module_of("task", task)
    if module is None or find.check("task", Part(name=task)):
        return []
    return source.literals(module, find.KINDS["task"].contract, "metrics")


def _metric_problems(point: Point) -> list[Problem]:
    task = point.scenario.task.name
    known = known_metrics(task)
    message = f"is not a metric of the task {task!r}"
    return [
        Problem(f"measure.metrics.{number}", f"{name!r} {message}{wording.did_you_mean(name, known, 'There are')}")
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
