"""Whether the points of a scenario can be run: every name a file, every option one that the file's class takes.

Without `whole` nothing is imported that imports torch: protocols and effects are built, of the others the names of
options are read from their sources.  With it every distinct part is built, so that values are checked too.  Either way
the network is laid out for the clients once and then forgotten, for what can only be told where the parts meet.
"""

import ast
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

import numpy as np
import numpy.typing as npt
import simpy

from fedsim import find, fleet, grid, seeds, source, wording
from fedsim.errors import Problem, ScenarioError, UserError
from fedsim.net.model import model_named
from fedsim.net.network import Network, ServerAccess
from fedsim.scenario import Part, Point, Scenario

LIGHT = ("protocol", "effect", "topology", "codec", "sampler")  # their files never import torch
LEARNS = ("data", "model", "training")
METRICS = "fedsim.learn.metrics"
ANY = Part(name="traffic", options={"down": 0, "up": 0})  # goes with every protocol that goes with the topology


def points(chosen: Sequence[Point], whole: bool = False) -> list[Problem]:
    """Return what is wrong with the parts and metrics of the points, each problem once, where the scenario says it."""
    found: dict[Problem, None] = {}
    known: dict[str, list[Problem]] = {}
    metrics = known_metrics()
    for point in chosen:
        wrong = _metric_problems(point, metrics)
        for kind, key, part in point.scenario.parts():
            told = json.dumps([kind, key, part.name, part.options], default=str)
            if told not in known:
                known[told] = _part_problems(kind, key, part, whole)
            wrong += known[told]
        wrong += _once(known, "fleet", point, ("clients", "network"), fleet.problems)
        if not wrong:
            look = partial(_fit_problems, whole=whole)
            wrong += _once(known, "fit", point, ("algorithm", "protocol", "network", *LEARNS), look)
        if not wrong:
            wrong += _once(known, "meeting", point, ("clients", "network", "protocol"), _meeting_problems)
        for problem in wrong:
            found.setdefault(Problem(grid.blame(problem.key, point.axes, point.choice), problem.message))
    return [*found]


def _once(
    known: dict[str, list[Problem]],
    what: str,
    point: Point,
    keys: Sequence[str],
    look: Callable[[Scenario], list[Problem]],
) -> list[Problem]:
    """Look once at every different choice of these keys."""
    plain = point.scenario.plain()
    told = json.dumps([what, *(plain.get(key) for key in keys)], sort_keys=True, default=str)
    if told not in known:
        known[told] = look(point.scenario)
    return known[told]


def _fit_problems(scenario: Scenario, whole: bool) -> list[Problem]:
    """Return why algorithm, protocol and topology cannot go together, and what learning lacks.

    Without `whole` the algorithm is left aside, for its file may import torch.
    """
    protocol, topology = find.build("protocol", scenario.protocol), find.build("topology", scenario.network.topology)
    if scenario.algorithm is None and protocol.asks:
        told = f"is missing, and the protocol {scenario.protocol.name!r} asks clients to work; name an algorithm"
        return [Problem("algorithm", told)]
    if scenario.algorithm is not None and not protocol.asks:
        told = f"is given, and the protocol {scenario.protocol.name!r} asks nobody to work; leave it out"
        return [Problem("algorithm", told)]
    if reason := protocol.refuse(find.build("algorithm", ANY), topology):
        return [Problem("protocol", f"{scenario.protocol.name!r} {reason}")]
    try:
        fleet.codecs(scenario, protocol.shares_only)
    except ScenarioError as error:
        return [*error.problems]
    if scenario.algorithm is None or not whole:
        return []
    algorithm = find.build("algorithm", scenario.algorithm)
    found = [
        Problem(key, f"is missing, and {scenario.algorithm.name!r} learns: it needs {', '.join(LEARNS)}")
        for key in LEARNS
        if algorithm.learns and protocol.asks and getattr(scenario, key) is None
    ]
    reason = protocol.refuse(algorithm, topology)
    return [*found, Problem("protocol", f"{scenario.protocol.name!r} {reason}")] if reason else found


def _meeting_problems(scenario: Scenario) -> list[Problem]:
    """Return what does not fit the clients and links that there are: topology, effects, sampler, and their tables."""
    found: list[Problem] = []
    network, rng = scenario.network, partial(seeds.generator, scenario.seed)
    columns: dict[str, fleet.Floats] = {}
    with _told_as("clients", found):
        columns = fleet.rows(scenario, rng)
    if not found and "speed" not in columns and find.build("protocol", scenario.protocol).asks:
        found.append(Problem("clients.speed", "is missing; give it, or a column 'gflops' in clients.table"))
    laid: list[Network] = []
    if not found:
        with _told_as("network.topology", found):
            laid += [_laid_out(scenario, columns, rng)]
    for number, part in enumerate(network.effects if laid else []):
        with _told_as(f"network.effects.{number}", found):
            effect = find.build("effect", part, f"network.effects.{number}")
            effect.drive(laid[0].env, laid[0], rng(f"effect/{number}"))
    if laid:
        with _told_as("clients.sampler", found):
            everybody = _Everybody(len(laid[0].nodes))
            sampler = find.build("sampler", scenario.clients.sampler)
            if not len(sampler.choose(everybody.numbers, len(everybody.numbers), everybody, rng("participation"))):
                found.append(Problem("clients.sampler", "nobody would ever be asked; give some client a chance"))
    return found


def _laid_out(
    scenario: Scenario, columns: dict[str, fleet.Floats], rng: Callable[[str], np.random.Generator]
) -> Network:
    """Return the network without its effects, on a clock of its own."""
    return Network(
        simpy.Environment(), fleet.nodes(columns), rng=rng, record=lambda row: None,
        topology=find.build("topology", scenario.network.topology),
        server=ServerAccess(**scenario.network.server.model_dump()),
        model=model_named(scenario.network.model, fleet.transfer_model(scenario)),
    )  # fmt: skip


@contextmanager
def _told_as(key: str, found: list[Problem]) -> Iterator[None]:
    """Note what is refused within, at its own key or else at this one."""
    try:
        yield
    except ScenarioError as error:
        found += error.problems
    except UserError as error:
        found.append(Problem(key, str(error)))


@dataclass(frozen=True)
class _Everybody:
    """All clients, free, alike, and never asked before, as a sampler sees them."""

    count: int

    @property
    def numbers(self) -> npt.NDArray[np.int64]:
        return np.arange(self.count)

    @property
    def turns(self) -> npt.NDArray[np.int64]:
        return np.zeros(self.count, dtype=np.int64)

    @property
    def examples(self) -> npt.NDArray[np.int64]:
        return np.ones(self.count, dtype=np.int64)

    def availability(self) -> npt.NDArray[np.float64]:
        return np.ones(self.count)


def known_metrics() -> list[str]:
    """Return the names in the table of metrics, read from its source."""
    path = source.file_of(METRICS)
    body = ast.parse(path.read_text(encoding="utf-8")).body if path else []
    tables = [n.value for n in body if isinstance(n, ast.Assign) and ast.unparse(n.targets[0]) == "ALL"]
    tables += [n.value for n in body if isinstance(n, ast.AnnAssign) and n.value and ast.unparse(n.target) == "ALL"]
    keys = [key for table in tables if isinstance(table, ast.Dict) for key in table.keys]
    return [str(key.value) for key in keys if isinstance(key, ast.Constant)]


def _metric_problems(point: Point, known: list[str]) -> list[Problem]:
    return [
        Problem(
            f"measure.metrics.{number}",
            f"{name!r} is not a metric of fedsim/learn/metrics.py{wording.did_you_mean(name, known, 'There are')}",
        )
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
