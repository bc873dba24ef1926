"""The parts of one scenario, each built once, for checking it and for running it.

A part is built on first access.  No run changes it: parts are frozen, and the clients' columns are drawn from named
streams of the seed, so that every draw is the same.  Of the learning half only the algorithm is included, not data,
model and task, whose import would load torch.
"""

from dataclasses import dataclass
from functools import cached_property, partial

from fedsim.clock.protocol import Protocol
from fedsim.clock.sampler import Sampler
from fedsim.core import seeds
from fedsim.learn.algorithm import Algorithm
from fedsim.net.codec import Codec
from fedsim.net.effect import Effect
from fedsim.net.topology import Topology
from fedsim.net.transport import Transport
from fedsim.point import fleet
from fedsim.scenario import find
from fedsim.scenario.part import Part
from fedsim.scenario.schema import Scenario

NOTHING = Part(name="algorithms.traffic", options={"down": 0, "up": 0})  # fits every protocol, and sends nothing


@dataclass(frozen=True)
class Parts:
    """The parts that a scenario names, built on first access."""

    scenario: Scenario

    @cached_property
    def protocol(self) -> Protocol:
        """The protocol."""
        built: Protocol = find.build("protocol", self.scenario.protocol)
        return built

    @cached_property
    def topology(self) -> Topology:
        """The topology."""
        built: Topology = find.build("topology", self.scenario.network.topology)
        return built

    @cached_property
    def transport(self) -> Transport:
        """The transport."""
        built: Transport = find.build("transport", self.scenario.network.transport)
        return built

    @cached_property
    def effects(self) -> list[Effect]:
        """The effects, in order."""
        given = self.scenario.network.effects
        return [find.build("effect", part, f"network.effects.{number}") for number, part in enumerate(given)]

    @cached_property
    def sampler(self) -> Sampler:
        """The sampler."""
        built: Sampler = find.build("sampler", self.scenario.clients.sampler)
        return built

    @cached_property
    def algorithm(self) -> Algorithm:
        """The algorithm, without a context; one that sends nothing if the protocol needs none."""
        given = self.scenario.algorithm
        built: Algorithm = find.build("algorithm", given if given and self.protocol.asks else NOTHING)
        return built

    @cached_property
    def codecs(self) -> dict[str, Codec | None]:
        """The codec of each direction, "up" and "down".  Raises ScenarioError if one does not suit its direction."""
        return fleet.codecs(self.scenario, self.protocol.shares_only)

    @cached_property
    def columns(self) -> dict[str, fleet.Floats]:
        """The columns of `Nodes` and `speed`, each (K,) in SI units; see `fleet.rows`."""
        return fleet.rows(self.scenario, partial(seeds.generator, self.scenario.seed))

    @cached_property
    def countries(self) -> fleet.Codes:
        """The country of each client (K,), "" where nothing says it."""
        return fleet.countries(self.scenario, partial(seeds.generator, self.scenario.seed))
