"""Assemble a deployed run: the world of a scenario with real messages in place of its network, and its packages.

Protocol, sampler, stream and observer are those of a simulated run.  What the scenario says of links, speeds, effects
and transports is not applied: that is as it is.
"""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import simpy

from fedsim.clock import partition_work
from fedsim.clock.clients import Clients
from fedsim.clock.observer import Observer
from fedsim.clock.world import World
from fedsim.core import seeds
from fedsim.core.record import Recorder
from fedsim.core.seeds import Streams
from fedsim.deploy import neighbours
from fedsim.deploy.host import RealHost
from fedsim.deploy.package import Own
from fedsim.deploy.real_time import Inbox
from fedsim.deploy.remote import Remote, Scored
from fedsim.net.network import Network
from fedsim.net.node import Nodes
from fedsim.point import learning
from fedsim.point.parts import Parts
from fedsim.scenario.schema import Scenario


class Deployed(NamedTuple):
    """A run that is ready to begin."""

    world: World
    host: RealHost
    learner: Scored
    observer: Observer
    parts: Parts
    done: simpy.Process


def packages(scenario: Scenario, data_root: Path) -> list[Own]:
    """Return what each client of a scenario is given.  Raises ScenarioError where its data cannot be had."""
    parts = Parts(scenario)
    made = learning.made(parts, data_root)
    count, seen = len(made.periods), made.overview
    if seen is not None:
        neighbours.check(seen)
    return [
        Own(client, count, own, made.features, made.classes, [*neighbours.known_to(client, seen)] if seen else ())
        for client, own in enumerate(made.periods)
    ]


def assemble(
    scenario: Scenario, data_root: Path, inbox: Inbox, recorder: Recorder, packages: Sequence[str]
) -> Deployed:
    """Return the run of a scenario with its processes started, on the clock of the inbox.

    `packages` are the digests of the packages that the clients should have.
    """
    env, parts = inbox.env, Parts(scenario)
    lesson, own_rng = learning.prepare(parts, data_root), Streams(scenario.seed)
    codec, count = parts.codecs, len(parts.columns["latency"])
    trained = Remote(
        lesson.algorithm, lesson.cohort, own_rng, up=codec["up"], down=codec["down"], reports=parts.sampler.reports
    )
    learner = Scored(
        trained, lambda clients, jobs: seeds.integers(scenario.seed, "job", rows=zip(clients, jobs, strict=True))
    )
    nodes = Nodes(np.zeros(count), np.ones(count), np.ones(count))  # of no use: nothing is sent over them
    network = Network(env, nodes, rng=partial(seeds.generator, scenario.seed), record=recorder.add)
    rng = Streams(scenario.seed)
    clients = Clients(env, network, learner, np.full(count, np.inf), rng, recorder.add, recorder.extend)
    device = learning.choose_device(scenario.device)
    host = RealHost(
        env, network, learner, clients, recorder.add, np.inf,
        inbox=inbox, device=device, packages=packages, codec=codec["up"],
    )  # fmt: skip
    world = World(env, network, learner, host, clients, rng, parts.sampler, recorder.add)
    learner.moment = lambda: (env.now, host.version)
    by_chance = parts.protocol.by_chance and world.sampler.even
    trained.guard = learning.release(scenario, parts.protocol.folded(count), by_chance, own_rng)
    trained.scoring = lesson.scoring(trained, scenario)
    observer = Observer(world, recorder.extend, scenario.measure.every)
    observer.start()
    if lesson.overview is not None:
        env.process(partition_work.watch(world, lesson.overview, count))
    env.process(lesson.stream.run(world, lesson.periods))
    return Deployed(world, host, learner, observer, parts, env.process(parts.protocol.run(world)))
