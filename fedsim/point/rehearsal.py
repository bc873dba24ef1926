"""A rehearsal of a point: its clients, network and protocol are set up once before the run, and discarded.

It finds problems that no part can find alone: a table names an unknown client, a topology does not span the clients, an
effect needs a link that has no limit, a sampler never asks a client, or a client's speed is missing.  It draws from the
streams of the point's seed, so it has the clients and links of the run.  It does not find problems that need time to
pass: nothing is sent, the clock stands still, and effects are started but never continue.  It uses neither data nor
models, so it needs no torch.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

import numpy as np
import numpy.typing as npt
import simpy

from fedsim.clock.protocol import Protocol
from fedsim.clock.reports import Reports
from fedsim.core import seeds
from fedsim.core.errors import Problem, ScenarioError, UserError
from fedsim.net.effect import Effect, check_hooks, check_times
from fedsim.net.network import Network
from fedsim.net.traits import Traits
from fedsim.point import fleet
from fedsim.point.parts import Parts
from fedsim.scenario.schema import Scenario


def problems(parts: Parts) -> list[Problem]:
    """Return what does not fit the clients and links: protocol, topology, effects, sampler or tables."""
    found: list[Problem] = []
    scenario, protocol = parts.scenario, parts.protocol
    rng = partial(seeds.generator, scenario.seed)
    columns: dict[str, fleet.Floats] = {}
    with _noted_as("clients", found):
        columns = parts.columns
    if columns:
        with _noted_as("protocol", found):
            protocol.suits(len(columns["latency"]))
    if not found:
        found += fleet.missing_speed(columns, protocol.asks)
    laid: list[Network] = []
    if not found:
        with _noted_as("network.topology", found):
            traits = Traits(parts.countries, None if scenario.data is None else _not_loaded)
            env = simpy.Environment()
            laid += [fleet.network(env, scenario, columns, parts.topology, rng, lambda row: None, traits=traits)]
    effects = parts.effects if laid else []
    found += _without_effect(scenario, protocol, effects)
    for number, effect in enumerate(effects):
        with _noted_as(f"network.effects.{number}", found):
            check_hooks(effect)
            check_times(effect)
            effect.drive(laid[0].env, laid[0], rng(f"effect/{number}"))
            effect.forge(len(laid[0].nodes), rng(f"effect/{number}/forge"))
    if laid:
        with _noted_as("clients.sampler", found):
            everybody = _Everybody(len(laid[0].nodes))
            numbers = everybody.numbers
            parts.sampler.suits(len(numbers), protocol.cohorts(len(numbers)))
            if not len(parts.sampler.choose(numbers, len(numbers), everybody, rng("participation"))):
                found.append(
                    Problem("clients.sampler", "no client would ever be asked; give at least one a positive rate")
                )
    return found


def _without_effect(scenario: Scenario, protocol: Protocol, effects: Sequence[Effect]) -> list[Problem]:
    """Return a problem for each effect on messages under a protocol that sends none."""
    names = [part.name for part in scenario.network.effects]
    message = (
        f"affects messages, and under {scenario.protocol.name!r} clients neither send nor receive any; leave it out"
    )
    return [
        Problem(f"network.effects.{number}", f"{names[number]!r} {message}")
        for number, effect in enumerate(effects)
        if effect.on_messages and protocol.silent
    ]


def _not_loaded() -> npt.NDArray[np.int64]:
    raise RuntimeError("what clients hold was asked for before the run has begun; ask in the process of the effect")


@contextmanager
def _noted_as(key: str, found: list[Problem]) -> Iterator[None]:
    """Add the errors raised within the block to `found`, at their own key or at this one."""
    try:
        yield
    except ScenarioError as error:
        found += error.problems
    except UserError as error:
        found.append(Problem(key, str(error)))


@dataclass(frozen=True)
class _Everybody:
    """All clients as a sampler sees them: free, equal, and never asked before."""

    count: int

    @property
    def numbers(self) -> npt.NDArray[np.int64]:
        return np.arange(self.count)

    @property
    def cohorts(self) -> int:
        return 0

    @property
    def turns(self) -> npt.NDArray[np.int64]:
        return np.zeros(self.count, dtype=np.int64)

    @property
    def training_vertices(self) -> npt.NDArray[np.int64]:
        return np.ones(self.count, dtype=np.int64)

    @property
    def reports(self) -> Reports:
        return Reports(self.count)

    def availability(self) -> npt.NDArray[np.float64]:
        return np.ones(self.count)
