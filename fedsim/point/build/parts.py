"""The parts of one scenario, each built once, for checking it and for running it.

A part is built on first access.  No run changes it: parts are frozen, and the clients' columns are drawn from named
streams of the seed, so that every draw is the same.  Of the learning half only the algorithm is included, not data,
model and task, whose import would load torch.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np
import simpy

from fedsim.clock.protocol import Protocol
from fedsim.clock.sampler import Sampler
from fedsim.core import seeds
from fedsim.core.arrays import Floats, Strings
from fedsim.core.record import TransferRow
from fedsim.core.seeds import Streams
from fedsim.learn.algorithm import Algorithm
from fedsim.net.attackers import Attackers
from fedsim.net.channels.connection import ConnectionPolicy
from fedsim.net.codec import Codec
from fedsim.net.effect import Effect, Traits
from fedsim.net.network import ServerAccess, SimulatedNetwork
from fedsim.net.tcp.fluid import model_named
from fedsim.net.topology import Topology
from fedsim.net.transport import Transport
from fedsim.point.build import fleet
from fedsim.scenario.part import Part
from fedsim.scenario.parts import find
from fedsim.scenario.schema import Scenario

NOTHING = Part(name="algorithms.traffic", options={"down": 0, "up": 0})  # fits every protocol, and sends nothing


@dataclass(frozen=True)
class Parts:
    """The parts that a scenario names, built on first access."""

    scenario: Scenario

    @cached_property
    def protocol(self) -> Protocol:
        """The protocol."""
        return find.build("protocol", self.scenario.protocol)  # type: ignore[no-any-return]

    @cached_property
    def topology(self) -> Topology:
        """The topology."""
        return find.build("topology", self.scenario.network.topology)  # type: ignore[no-any-return]

    @cached_property
    def transport(self) -> Transport:
        """The transport."""
        return find.build("transport", self.scenario.network.transport)  # type: ignore[no-any-return]

    @cached_property
    def effects(self) -> list[Effect]:
        """The effects, in order."""
        given = self.scenario.network.effects
        return [find.build("effect", part, f"network.effects.{number}") for number, part in enumerate(given)]

    @cached_property
    def sampler(self) -> Sampler:
        """The sampler."""
        return find.build("sampler", self.scenario.clients.sampler)  # type: ignore[no-any-return]

    @cached_property
    def algorithm(self) -> Algorithm:
        """The algorithm, without a context; one that sends nothing if the protocol needs none."""
        given = self.scenario.algorithm
        part = given if given and self.protocol.asks else NOTHING
        return find.build("algorithm", part)  # type: ignore[no-any-return]

    @cached_property
    def codecs(self) -> dict[str, Codec | None]:
        """The codec of each direction, "up" and "down".  Raises ScenarioError if one does not suit its direction."""
        return fleet.codecs(self.scenario, self.protocol.shares_only)

    @cached_property
    def columns(self) -> dict[str, Floats]:
        """The columns of `Nodes` and `speed`, each (K,) in SI units; see `fleet.rows`."""
        return fleet.rows(self.scenario, self.rng)

    @property
    def count(self) -> int:
        """The number of clients."""
        return len(self.columns["latency"])

    @cached_property
    def countries(self) -> Strings:
        """The country of each client (K,), "" where nothing says it."""
        return fleet.countries(self.scenario, self.rng)

    def rng(self, name: str) -> np.random.Generator:
        """Return the seed's stream of that name, from its beginning."""
        return seeds.generator(self.scenario.seed, name)

    def network(
        self,
        env: simpy.Environment,
        record: Callable[[TransferRow], None],
        traits: Traits,
        effects: Sequence[Effect] = (),
    ) -> SimulatedNetwork:
        """Return the network with these effects at work; `record` receives the row of each transfer."""
        given = self.scenario.network
        return SimulatedNetwork(
            env, fleet.nodes(self.columns), rng=self.rng, record=record, topology=self.topology,
            server=ServerAccess(**given.server.model_dump()), effects=effects,
            model=model_named(given.model, fleet.transfer_model(self.scenario)),
            connections=ConnectionPolicy(**given.connection.model_dump()), transport=self.transport, traits=traits,
        )  # fmt: skip

    def learner_options(self, attackers: Attackers) -> dict[str, Any]:
        """Return what a learner is given besides its algorithm and what trains."""
        seed = self.scenario.seed
        own: dict[str, Any] = {"rng": Streams(seed), "seeds_of": partial(seeds.of_jobs, seed)}
        return {**own, **self.codecs, "attackers": attackers, "reports": self.sampler.reports}
