"""Assemble a point: build its world, its learner and its observer, in the order in which they depend on each other.

The only module that knows both halves, the network and the learning; it imports the latter only if something is
learned.  It expects a checked scenario (`check.py`), and runs nothing.
"""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import simpy

from fedsim.clock import budget
from fedsim.clock.clients import Clients
from fedsim.clock.exchange import Exchange
from fedsim.clock.ledger import Ledger, RowFeed
from fedsim.clock.observer import Extend, Observer
from fedsim.clock.prices import CostMeter
from fedsim.clock.restarts import RestartingServer
from fedsim.clock.security.exchange import SecureExchange
from fedsim.clock.security.payloads import Masks
from fedsim.clock.server import ServerHost
from fedsim.clock.world import Router, World
from fedsim.core.arrays import Ints
from fedsim.core.errors import ScenarioError, UserError
from fedsim.core.logbook import LogMessage
from fedsim.core.record import SERVER, Recorder
from fedsim.core.seeds import Streams
from fedsim.learner.live import Live
from fedsim.learner.recorded import Record
from fedsim.learner.traffic import Plain
from fedsim.net.attackers import Attackers
from fedsim.net.effect import Traits
from fedsim.net.masking import STEPS, Masking
from fedsim.net.presence.grouping import Grouped
from fedsim.net.topology import edge_node
from fedsim.point.build import costing
from fedsim.point.build.parts import Parts
from fedsim.scenario.schema import Scenario

if TYPE_CHECKING:
    from fedsim.point.build.learning import LearningSetup


class Built(NamedTuple):
    """A point that is ready to run; `setup` is None if nothing is learned, `observer` if nothing is scored."""

    world: World
    observer: Observer | None
    learner: Live
    parts: Parts
    done: simpy.Process
    setup: "LearningSetup | None" = None

    def share(self) -> float:
        """Return how much of the run has passed, by the protocol or by its budget."""
        share, until = self.parts.protocol.share(self.world), self.parts.scenario.measure.until
        return min(1.0, share if until is None else max(share, budget.used(until, self.world)))


def build(
    scenario: Scenario,
    data_root: Path,
    recorder: Recorder,
    record: Record | None = None,
    messages: list[LogMessage] | None = None,
    *,
    trains: bool = True,
) -> Built:
    """Return the world of a scenario with its processes started.

    If something is learned, it is recorded in `record`, after what that holds is replayed, together with what is
    logged meanwhile, which comes in `messages`.  With `trains` False, an
    `untrained` algorithm takes the place of the scenario's, and nothing is scored.
    """
    parts = Parts(scenario)
    attackers = Attackers()
    if any(effect.forges for effect in parts.effects):
        attackers = Attackers.drawn(parts.effects, parts.count, parts.rng)
    if not parts.algorithm.learns:
        learner = Live(parts.algorithm, Plain(parts.algorithm), **parts.learner_options(attackers))
        world = build_world(parts, learner, recorder)
        world.clients.has_data[:] = True
        return started(world, learner, parts)
    from fedsim.point.build import learning

    setup = learning.prepare(parts, data_root)
    learner = (learning.trained if trains else learning.estimated)(parts, setup, attackers, record, messages)
    world = build_world(parts, learner, recorder, lambda: setup.data.held)
    return started(world, learner, parts, setup, recorder.extend if trains else None)


def build_world(parts: Parts, learner: Live, recorder: Recorder, held: Callable[[], Ints] | None = None) -> World:
    """Return a scenario's network, clients and servers; `held` returns `Prepared.held`, None if nothing is learned."""
    scenario, env, rng = parts.scenario, simpy.Environment(), Streams(parts.scenario.seed)
    rows = RowFeed(recorder)
    router = Router(rows.add)
    network = parts.network(env, router.moved, check_groups(parts, held), parts.effects)
    preparatory = frozenset({*learner.prepares, *STEPS})
    ledger = Ledger(env, network, parts.count, preparatory)
    rows.subscribe(ledger)
    costs = None
    if scenario.costs is not None:
        servers = 0 if parts.protocol.shares_only else 1 + network.layout.edges
        costs = CostMeter(costing.priced(scenario, parts.rng, servers))
        if scenario.measure.until is not None and scenario.measure.until.spends:
            rows.subscribe(costs)
    speeds = parts.columns.get("speed", network.nodes.uplink)  # not used: without asks no client computes
    clients = Clients(env, network, learner, speeds, rng, rows.add, recorder.extend)
    server, *edges = [
        (RestartingServer if network.server_status and node == SERVER else ServerHost)(
            env, network, learner, clients, rows.add, scenario.server.speed, scenario.server.cores, preparatory,
            node=node, write_cohort=rows.add_cohort if can_ask_as_cohort(parts) else None,
        )
        for node in (SERVER, *map(edge_node, range(network.layout.edges)))
    ]  # fmt: skip
    router.register(server, *edges)
    exchange = exchange_of(parts, server, rng)
    return World(env, network, learner, server, exchange, clients, rng, parts.sampler, rows.add, edges, ledger, costs)


def can_ask_as_cohort(parts: Parts) -> bool:
    """Return whether nothing needs messages or replies one by one: views, budgets, samplers that observe, codecs."""
    measure, codecs = parts.scenario.measure, parts.codecs
    metered = measure.until is not None and measure.until.metered
    return not (measure.views or metered or parts.sampler.observes or codecs["up"] or codecs["down"])


def started(
    world: World, learner: Live, parts: Parts, setup: "LearningSetup | None" = None, extend: Extend | None = None
) -> Built:
    """Start observer, stream and protocol, so that at equal times data are scored, then arrive, then are asked for.

    `extend` takes the scores; without it nothing is scored.
    """
    observer = None if extend is None else Observer(world, extend, parts.scenario.measure.every)
    if observer:
        observer.start()
    if setup:
        setup.deliver(world)
    return Built(world, observer, learner, parts, world.env.process(parts.protocol.run(world)), setup)


def exchange_of(parts: Parts, server: ServerHost, rng: Streams) -> Exchange:
    """Return how cohorts are asked: masked where the scenario asks for secure aggregation."""
    secure = parts.scenario.privacy.secure_aggregation
    if not secure.on:
        return Exchange(server)
    masking = Masking(secure.neighbours, secure.threshold, secure.bits)
    return SecureExchange(server, Masks(masking, parts.codecs["down"]), rng)


def check_groups(parts: Parts, held: Callable[[], Ints] | None) -> Traits:
    """Return what effects know of the clients; `held` returns `Prepared.held`, None where nothing is learned.

    Raises ScenarioError, with the key of the effect, if the data do not have the labels that make its groups.
    """
    traits = Traits(parts.countries, held)
    for number, effect in enumerate(parts.effects):
        if isinstance(effect, Grouped) and effect.groups == "labels":
            try:
                effect.members(traits)
            except UserError as error:
                raise ScenarioError.at(f"network.effects.{number}", str(error)) from None
    return traits
