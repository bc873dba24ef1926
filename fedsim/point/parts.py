"""The parts of one scenario, each built once and handed on: to what checks the scenario, and to what runs it.

A part is built when it is first asked for.  It holds nothing that a run changes: parts are frozen, and the columns of
the clients are drawn from named streams of the seed, so that whoever draws them gets the same.  Parts of the learning
half (data, model, task) are not among them, but for the algorithm: building them would load torch for every study.
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
from fedsim.point import fleet
from fedsim.scenario import find
from fedsim.scenario.part import Part
from fedsim.scenario.schema import Scenario

NOTHING = Part(name="algorithms.traffic", options={"down": 0, "up": 0})  # goes with every protocol, and moves nothing


@dataclass(frozen=True)
class Parts:
    """What a scenario names, built."""

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
    def effects(self) -> list[Effect]:
        """The effects, in their order."""
        given = self.scenario.network.effects
        return [find.build("effect", part, f"network.effects.{number}") for number, part in enumerate(given)]

    @cached_property
    def sampler(self) -> Sampler:
        """The sampler."""
        built: Sampler = find.build("sampler", self.scenario.clients.sampler)
        return built

    @cached_property
    def algorithm(self) -> Algorithm:
        """The algorithm, without a context; one that moves nothing where the protocol asks nobody to run one."""
        given = self.scenario.algorithm
        built: Algorithm = find.build("algorithm", given if given and self.protocol.asks else NOTHING)
        return built

    @cached_property
    def codecs(self) -> dict[str, Codec | None]:
        """The codec of each direction, "up" and "down".  Raises ScenarioError where one cannot go that way."""
        return fleet.codecs(self.scenario, self.protocol.shares_only)

    @cached_property
    def columns(self) -> dict[str, fleet.Floats]:
        """The columns of `Nodes` and `speed`, each (K,) in SI units; see `fleet.rows`."""
        return fleet.rows(self.scenario, partial(seeds.generator, self.scenario.seed))
