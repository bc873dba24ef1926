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

from fedsim.core import seeds
from fedsim.core.errors import Problem, ScenarioError
from fedsim.net.grouping import Grouped
from fedsim.point import costing, fleet, memory, observing, pairing, private, rehearsal
from fedsim.point.parts import NOTHING, Parts
from fedsim.scenario import combinations, find, plugins, source, wording
from fedsim.scenario.part import Part
from fedsim.scenario.schema import Point, Scenario
from fedsim.scenario.yaml_file import Document

LIGHT = ("protocol", "effect", "topology", "codec", "sampler", "transport")  # their files never import torch
LEARNS = ("data", "model", "training")


def points(chosen: Sequence[Point], whole: bool = False) -> list[Problem]:
    """Return the problems of the points' parts and metrics, each once, at the scenario's key."""
    found: dict[Problem, None] = {}
    known: dict[str, list[Problem]] = {}
    for point in chosen:
        wrong, plain = _metric_problems(point), point.scenario.plain()
        if large := memory.problems(point.scenario):  # before anything is drawn
            for problem in large:
                found.setdefault(Problem(combinations.blame(problem.key, point.places), problem.message))
            continue
        once = partial(_once, known, Parts(point.scenario), plain)
        for kind, key, part in point.scenario.parts():
            identity = json.dumps([kind, key, part.name, part.options], default=str)
            if identity not in known:
                known[identity] = _part_problems(kind, key, part, whole)
            wrong += known[identity]
        wrong += once("fleet", ("clients", "network", "costs"), _fleet_problems)
        if not wrong:
            look = partial(_fit_problems, whole=whole)
            there = [key for key in LEARNS if plain.get(key)]
            wrong += once(f"fit of {there}", ("algorithm", "protocol", "network", "privacy", "clients"), look)
        if not wrong and whole:
            wrong += once("pairs", ("algorithm", "protocol", "model", "task", "data", "measure"), pairing.problems)
        if not wrong:
            wrong += once("meeting", ("clients", "network", "protocol"), rehearsal.problems)
        for problem in wrong:
            found.setdefault(Problem(combinations.blame(problem.key, point.places), problem.message))
    return [*found]


def planned(scenario: Scenario, document: Document, only_own: bool = False) -> list[Point]:
    """Return the points of a scenario, checked without `whole`.  Raises UserError that names the file and lines.

    `only_own` refuses parts that are not fedsim's, before any of them is imported.
    """
    try:
        chosen = [*scenario.points()]
    except ScenarioError as error:
        raise document.error(error.problems) from None
    if only_own and (foreign := plugins.problems(chosen)):
        raise document.error(foreign)
    hold(chosen, document)
    return chosen


def hold(chosen: Sequence[Point], document: Document, whole: bool = False) -> None:
    """Raise UserError, naming the file and lines, unless the points can be run."""
    if problems := points(chosen, whole):
        raise document.error(problems)


def notes(chosen: Sequence[Point]) -> list[str]:
    """Return a line for each name that is a file of the user's although fedsim has one of that name."""
    named = dict.fromkeys((kind, part.name) for point in chosen for kind, _, part in point.scenario.parts())
    return [note for kind, name in named if (note := find.note(kind, name))]


def _once(
    known: dict[str, list[Problem]],
    parts: Parts,
    plain: Mapping[str, Any],
    what: str,
    keys: Sequence[str],
    look: Callable[[Parts], list[Problem]],
) -> list[Problem]:
    """Run the check once for every combination of values of these keys."""
    key = json.dumps([what, *(plain.get(key) for key in keys)], sort_keys=True, default=str)
    if key not in known:
        known[key] = look(parts)
    return known[key]


def _fleet_problems(parts: Parts) -> list[Problem]:
    found = fleet.problems(parts.scenario, lambda: parts.columns)
    rng = partial(seeds.generator, parts.scenario.seed)
    return found or costing.problems(parts.scenario, rng)


def _fit_problems(parts: Parts, whole: bool) -> list[Problem]:
    """Return why algorithm, protocol and topology cannot be combined, and what learning lacks.

    Without `whole` the algorithm is left aside, for its file may import torch.
    """
    scenario, protocol = parts.scenario, parts.protocol
    if scenario.algorithm is None and protocol.asks:
        message = f"is missing, and the protocol {scenario.protocol.name!r} asks clients to work; name an algorithm"
        return [Problem("algorithm", message)]
    if reason := protocol.refuse(find.build("algorithm", NOTHING), parts.topology):
        return [Problem("protocol", f"{scenario.protocol.name!r} {reason}")]
    try:
        _ = parts.codecs
    except ScenarioError as error:
        return [*error.problems]
    if wrong := [*private.problems(parts), *_carriage_problems(parts), *observing.problems(parts)]:
        return wrong
    if (whole or not protocol.asks) and (wrong := _unlabelled(parts)):
        return wrong
    if scenario.algorithm is None or not (whole and protocol.asks):
        return []
    found = _missing_lesson(scenario) if parts.algorithm.learns else []
    reason = protocol.refuse(parts.algorithm, parts.topology)
    found += [Problem("protocol", f"{scenario.protocol.name!r} {reason}")] if reason else []
    return [*found, *observing.silent(parts), *private.uncovered(parts)]


def _unlabelled(parts: Parts) -> list[Problem]:
    """Return a problem for each effect on groups by their labels in a run that learns nothing."""
    if parts.algorithm.learns:
        return []
    message = "'labels' needs an algorithm that learns from data with labels; take another, or groups: country"
    given = enumerate(parts.effects)
    return [
        Problem(f"network.effects.{number}.groups", message)
        for number, effect in given
        if isinstance(effect, Grouped) and effect.groups == "labels"
    ]


def _carriage_problems(parts: Parts) -> list[Problem]:
    """Return why connections or transport do not fit the protocol or the topology."""
    network, protocol = parts.scenario.network, parts.protocol
    if network.connection.kind == "exchange" and (protocol.shares_only or not protocol.asks):
        why = f"'exchange' is one connection for a request and its reply, and {parts.scenario.protocol.name!r} has none"
        return [Problem("network.connection.kind", f"{why}: take fresh or kept")]
    if reason := parts.transport.refuse(parts.topology, protocol.asks):
        return [Problem("network.transport", f"{network.transport.name!r} {reason}")]
    return []


def _missing_lesson(scenario: Scenario) -> list[Problem]:
    """Return the missing keys that a learning algorithm needs."""
    assert scenario.algorithm is not None
    message = f"is missing, and {scenario.algorithm.name!r} learns: it needs {', '.join(LEARNS)}"
    return [Problem(key, message) for key in LEARNS if getattr(scenario, key) is None]


@lru_cache
def known_metrics(task: str) -> list[str]:
    """Return the metrics of a task's predictions, read from their sources; empty if the task's does not list them."""
    judges = {*_listed("task", task, "judges")}
    return [name for name in find.names("metric") if judges & {*_listed("metric", name, "of")}]


def _listed(kind: str, name: str, attribute: str) -> list[str]:
    """Return the texts that a part's class lists under an attribute."""
    module = find.module_of(kind, name)
    if module is None or find.check(kind, Part(name=name)):
        return []
    return source.literals(module, find.KINDS[kind].contract, attribute)


def _metric_problems(point: Point) -> list[Problem]:
    """Return a problem for each metric that is there, but of other predictions than the task's."""
    task = point.scenario.task.name
    judges, known = {*_listed("task", task, "judges")}, known_metrics(task)
    message = f"is not a metric of the task {task!r}"
    return [
        Problem(f"measure.metrics.{number}", f"{name!r} {message}{wording.did_you_mean(name, known, 'There are')}")
        for number, name in enumerate(point.scenario.measure.metrics if point.scenario.model else [])
        if judges and (of := _listed("metric", name, "of")) and not judges & {*of}
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
