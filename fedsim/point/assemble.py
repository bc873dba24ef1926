"""Assemble a point: build the world of a scenario, its learner and its observer, each part once.

The only module that knows both halves, the network and the learning; it imports the latter only if something is
learned.  It expects a checked scenario (`check.py`), and runs nothing.
"""

from collections.abc import Callable, Sequence
from functools import cache, partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import simpy

from fedsim.clock.clients import Clients
from fedsim.clock.ledger import Ledger
from fedsim.clock.masks import Masks
from fedsim.clock.observer import Observer
from fedsim.clock.prices import Meter
from fedsim.clock.server import ServerHost
from fedsim.clock.wave import Columns
from fedsim.clock.world import World
from fedsim.core import seeds
from fedsim.core.errors import Problem, ScenarioError, UserError
from fedsim.core.record import SERVER, Recorder, Row, Span, Transfer
from fedsim.core.seeds import Streams
from fedsim.learner.keys import Keys
from fedsim.learner.received import Views
from fedsim.learner.recorded import Record, Recorded
from fedsim.learner.traffic import Plain
from fedsim.learner.trained import Trained
from fedsim.net.grouping import Grouped
from fedsim.net.masking import STEPS, Masking
from fedsim.net.traits import Traits
from fedsim.point import costing, fleet
from fedsim.point.checkpoint import Keeper
from fedsim.point.parts import Parts
from fedsim.scenario.schema import Scenario


class Built(NamedTuple):
    """A point that is ready to run; `observer` is None if nothing is learned."""

    world: World
    observer: Observer | None
    learner: Recorded
    parts: Parts
    done: simpy.Process


def observe(built: Built, keeper: Keeper) -> Views:
    """Start recording what clients receive, and return the record."""
    views = Views(built.world.env, built.learner.contents)
    built.world.network.received = views.record
    keeper.watch(views)
    return views


def build(
    scenario: Scenario,
    data_root: Path,
    recorder: Recorder,
    keeper: Keeper | None = None,
    *,
    answers: Record | None = None,
    trains: bool = True,
) -> Built:
    """Return the world of a scenario with its processes started.

    If something is learned, `keeper` takes its checkpoints, or `answers` are the record of another point, which it
    follows.  With `trains` False, an `untrained` algorithm takes the place of the scenario's, and nothing is scored.
    """
    parts = Parts(scenario)
    algorithm, rng, own_rng = parts.algorithm, Streams(scenario.seed), Streams(scenario.seed)
    codec, reports = parts.codecs, parts.sampler.reports
    if not algorithm.learns:
        trained = Trained(algorithm, Plain(algorithm), own_rng, up=codec["up"], down=codec["down"], reports=reports)
        world, learner = _world(parts, rng, trained, recorder)
        world.clients.holding[:] = True
        return Built(world, None, learner, parts, world.env.process(parts.protocol.run(world)))
    from fedsim.point import learning

    lesson = learning.prepare(parts, data_root)
    if trains:
        trained = Trained(lesson.algorithm, lesson.cohort, own_rng, up=codec["up"], down=codec["down"], reports=reports)
    else:
        from fedsim.learner.untrained import Estimates, untrained

        known = untrained(lesson.algorithm)
        trained = Trained(
            known, Estimates(known, lesson.cohort), own_rng, up=codec["up"], down=codec["down"], reports=reports
        )
    world, learner = _world(parts, rng, trained, recorder, keeper, answers, lesson.held)
    observer = None
    if trains:
        by_chance = parts.protocol.by_chance and world.sampler.even
        trained.guard = learning.release(scenario, parts.protocol.folded(len(world.clients)), by_chance, own_rng)
        trained.scoring = lesson.scoring(trained, scenario)
        observer = Observer(world, recorder.extend, scenario.measure.every)
        observer.start()
    lesson.deliver(world)
    if keeper and observer:
        keeper.attend(world, lesson, learner)
    # Started last, so that at equal times periods arrive before the protocol asks.
    return Built(world, observer, learner, parts, world.env.process(parts.protocol.run(world)))


def _world(
    parts: Parts,
    rng: Streams,
    trained: Trained,
    recorder: Recorder,
    keeper: Keeper | None = None,
    answers: Record | None = None,
    held: Callable[[], npt.NDArray[np.int64]] | None = None,
) -> tuple[World, Recorded]:
    env, scenario, columns = simpy.Environment(), parts.scenario, parts.columns

    def write(row: Row) -> None:
        ledger.see(row)
        if spends and costs is not None:
            costs.see(row)
        recorder.add(row)

    def write_many(downs: Columns, ups: Columns, spans: Columns, asked: npt.NDArray[np.float64]) -> None:
        ledger.see_wave(downs, ups, spans, asked)
        recorder.extend(Transfer, downs)
        recorder.extend(Transfer, ups)
        recorder.extend(Span, spans)

    traits = check_groups(parts, held)
    links_rng = partial(seeds.generator, scenario.seed)
    links = fleet.network(
        env,
        scenario,
        columns,
        parts.topology,
        links_rng,
        lambda row: world.moved(row),
        parts.effects,
        parts.transport,
        traits,
    )
    trained.forgers = links.forgers
    ledger = Ledger(env, links, len(links.nodes), {*trained.algorithm.prepares, *STEPS})
    secure = scenario.privacy.secure_aggregation
    masks = Masks(Masking(secure.neighbours, secure.threshold, secure.bits), trained.down) if secure.on else None

    def seeds_of(clients: Sequence[int], jobs: Sequence[int]) -> list[int]:
        return seeds.integers(scenario.seed, "job", rows=zip(clients, jobs, strict=True))

    draws = scenario.network.codec.down is not None or parts.protocol.shares_only
    record = keeper.record() if keeper else answers
    keys = None if record is None else Keys(b"", links.forgers, draws=draws)
    learner = Recorded(trained, seeds_of, keys, record)
    speeds = columns.get("speed", links.nodes.uplink)  # not used: without asks no client computes
    clients = Clients(env, links, learner, speeds, rng, write, recorder.extend, masks)
    computer = scenario.server
    until = scenario.measure.until
    spends = until is not None and until.spends
    prices = costing.priced(scenario, links_rng, 0 if parts.protocol.shares_only else 1 + links.edges)
    costs = None if prices is None else Meter(prices)
    alone = scenario.measure.views or (until is not None and until.metered)  # both need the messages one by one
    alone = alone or parts.sampler.observes  # and this the replies
    compressed = trained.up is not None or trained.down is not None

    def host(node: int) -> ServerHost:
        return ServerHost(
            env, links, learner, clients, write, computer.speed, computer.cores, node,
            None if alone or compressed else write_many,  # waves move bytes without messages
        )  # fmt: skip

    server, edges = host(SERVER), [host(-2 - edge) for edge in range(links.edges)]
    world = World(env, links, learner, server, clients, rng, parts.sampler, write, edges, ledger, costs)
    return world, learner


def check_groups(parts: Parts, held: Callable[[], npt.NDArray[np.int64]] | None) -> Traits:
    """Return what effects know of the clients; `held` is `Lesson.held`, None where nothing is learned.

    Raises ScenarioError, with the key of the effect, if the data do not have the labels that make its groups.
    """
    traits = Traits(parts.countries, held and cache(held))
    for number, effect in enumerate(parts.effects):
        if isinstance(effect, Grouped) and effect.groups == "labels":
            try:
                effect.members(traits)
            except UserError as error:
                raise ScenarioError([Problem(f"network.effects.{number}", str(error))]) from None
    return traits
