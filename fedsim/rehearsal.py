"""A rehearsal of a point: clients, network and protocol meet once, before the run, and are thrown away.

It sees what no part can tell alone: that a table names a client that there is not, a topology does not span the
clients, an effect means a link without a limit, a sampler never asks anybody, or a client's speed is missing.  It draws
from the streams of the point's seed, so it meets the clients and links of the run.  It does not see what comes with
time: nothing is sent, the clock stands, and effects are set off but never go on.  Nor does it see data or models, so
that it needs no torch.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import ClassVar, Protocol

import numpy as np
import numpy.typing as npt
import simpy

from fedsim import find, fleet, seeds
from fedsim.errors import Problem, ScenarioError, UserError
from fedsim.net.effect import Effect, check_hooks
from fedsim.net.network import Network
from fedsim.scenario import Scenario


def problems(scenario: Scenario) -> list[Problem]:
    """Return what does not fit the clients and links that there are: protocol, topology, effects, sampler, tables."""
    found: list[Problem] = []
    network, rng = scenario.network, partial(seeds.generator, scenario.seed)
    columns: dict[str, fleet.Floats] = {}
    with _told_as("clients", found):
        columns = fleet.rows(scenario, rng)
    protocol = find.build("protocol", scenario.protocol)
    if columns:
        with _told_as("protocol", found):
            protocol.suits(len(columns["latency"]))
    if not found:
        found += fleet.missing_speed(columns, protocol.asks)
    laid: list[Network] = []
    if not found:
        with _told_as("network.topology", found):
            laid += [fleet.network(simpy.Environment(), scenario, columns, rng, lambda row: None)]
    effects = [
        find.build("effect", part, f"network.effects.{number}")
        for number, part in enumerate(network.effects if laid else [])
    ]
    found += unheard(scenario, protocol, effects)
    for number, effect in enumerate(effects):
        with _told_as(f"network.effects.{number}", found):
            check_hooks(effect)
            effect.drive(laid[0].env, laid[0], rng(f"effect/{number}"))
            effect.forge(len(laid[0].nodes), rng(f"effect/{number}/forge"))
    if laid:
        with _told_as("clients.sampler", found):
            everybody = _Everybody(len(laid[0].nodes))
            sampler = find.build("sampler", scenario.clients.sampler)
            if not len(sampler.choose(everybody.numbers, len(everybody.numbers), everybody, rng("participation"))):
                found.append(
                    Problem("clients.sampler", "no client would ever be asked; give at least one a positive rate")
                )
    return found


class Talking(Protocol):
    """What is asked of a protocol here."""

    silent: ClassVar[bool]


def unheard(scenario: Scenario, protocol: Talking, effects: Sequence[Effect]) -> list[Problem]:
    """Return the effects that have no meaning because under the protocol nothing travels."""
    names = [part.name for part in scenario.network.effects]
    told = f"affects what clients send and receive, and under {scenario.protocol.name!r} that is nothing; leave it out"
    return [
        Problem(f"network.effects.{number}", f"{names[number]!r} {told}")
        for number, effect in enumerate(effects)
        if effect.on_messages and protocol.silent
    ]


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
