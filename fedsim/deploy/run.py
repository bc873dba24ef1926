"""One deployed run: the protocol on the wall clock, and then the scores and the tables.

Protocol, sampler, stream and observer are those of a simulated run, with real messages in place of its network.  What
the scenario says of links, speeds, effects and transports is not applied: that is as it is.

Tables are those of a simulated run, in the same format.  Transfers and spans are measured: seconds since the first
question, by the server's clock.  A transfer's `wire_bytes` are what the carrier made of the message; bytes of its
polls and of the layers below it are not seen from here.

Not modelled: resuming.  A run that is interrupted starts again.
"""

import json
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fedsim.clock.clients import Clients
from fedsim.clock.exchange import Exchange
from fedsim.clock.world import World
from fedsim.core import logbook
from fedsim.core.errors import UserError
from fedsim.core.progress import Progress, ReportProgress
from fedsim.core.record import Recorder
from fedsim.core.seeds import Streams
from fedsim.deploy import package
from fedsim.deploy.host import RealHost
from fedsim.deploy.messages import END, HELLO, Post, Question, Response, pack, unpack
from fedsim.deploy.package import Own
from fedsim.deploy.real_time import Inbox, RealTime
from fedsim.deploy.remote import Remote
from fedsim.learn.algorithm import title_of
from fedsim.net.attackers import Attackers
from fedsim.net.network import SimulatedNetwork
from fedsim.net.node import Nodes
from fedsim.point.build import learning
from fedsim.point.build.assemble import Built, started
from fedsim.point.build.parts import Parts
from fedsim.point.run import described, summed_up
from fedsim.scenario.schema import Point, Scenario

REPORT_EVERY = 1.0  # seconds between two reports of progress
PATIENCE = 120.0  # seconds for every client to answer the first question


def run(point: Point, folder: Path, data_root: Path, post: Post, progress: ReportProgress) -> dict[str, Any]:
    """Run a point over real messages, write its tables into the folder, and return its row of summary.csv.

    Raises UserError if clients do not answer or have packages of another run, or if none of them could do its work.
    """
    scenario, recorder, began = point.scenario, Recorder(), time.perf_counter()
    with logbook.keep(folder / "run.log"):
        greeting = Inbox(RealTime(), post)
        code = package.code(scenario)
        expected = [package.described(scenario, content) for content in packages(scenario, data_root)]
        about = _greet(greeting, [{**client, **code} for client in expected])
        inbox = Inbox(RealTime(), post, greeting.asked)
        built, host, learner = assemble(scenario, data_root, inbox, recorder, [*map(package.digest, expected)])
        assert built.observer is not None
        status = inbox.run(built.done, _reporter(built, progress))
        seconds = inbox.env.now
        built.world.end()
        if built.observer.version < host.version:  # else it was, when it came: real time has gone on since
            built.observer.score()
        learner.settle(host.memories, recorder.extend)
        released = [inbox.ask(client, pack(Question(END)))[0] for client in range(len(built.world.clients))]
        for event in released:  # they forget what they have kept for the scores
            inbox.wait(event)
    tables = recorder.close(folder)
    if not host.version and host.faults:
        raise UserError(f"no client could do its work; the first said: {host.faults[0]}")
    (folder / "scenario.yaml").write_text(described(point, True), encoding="utf-8", newline="")
    row = summed_up(tables, scenario.measure)
    row |= {"updates": host.version, "status": status, "seed": scenario.seed, "sim_seconds": seconds}
    row |= {"method": title_of(type(built.parts.algorithm)), "real_seconds": time.perf_counter() - began}
    notes: dict[str, Any] = {"deployed": "seconds are real", "clients": about, "faults": host.faults[:20]}
    notes["missed"] = [f"client {client}: {host.missed[client]} of its {host.given[client]} jobs were lost"
                       for client in sorted(host.missed)]  # fmt: skip
    if host.starts:
        notes["start"] = statistics.median(host.starts)
    device = {"device": learning.device_name(scenario.device), "threads": scenario.threads}
    return {**row, "provenance": {**device, **notes}}


def _greet(inbox: Inbox, expected: Sequence[Mapping[str, str]]) -> list[str]:
    """Ask every client who it is, and return what they said of themselves; their memories begin anew.

    `expected` are the descriptions of what the clients should have.
    """
    clients = len(expected)
    events = [inbox.ask(client, pack(Question(HELLO)))[0] for client in range(clients)]
    until, abouts = time.monotonic() + PATIENCE, []
    while not all(event.triggered for event in events):
        if time.monotonic() > until:
            silent = [client for client, event in enumerate(events) if not event.triggered]
            raise UserError(f"client {silent[0]} does not answer, {len(silent)} of {clients} in all; is it running?")
        inbox.deliver(1.0)
    for client, event in enumerate(events):
        delivered = inbox.wait(event)
        if delivered.data is None:
            raise UserError(f"client {client} does not answer: {delivered.error}")
        answer = unpack(Response, delivered.data)
        if answer.error or answer.refused:
            raise UserError(f"client {client}: {answer.error or answer.refused}")
        if answer.client != client:
            raise UserError(f"client {client} has the package of client {answer.client}; give each its own")
        if differ := package.differences(json.loads(answer.message), expected[client]):
            remedy = "write the packages anew with --package and the same settings, and copy them to the clients"
            raise UserError(f"client {client} has the package of another run ({differ}): {remedy}")
        abouts.append(answer.about)
    return sorted({*abouts})


def _reporter(built: Built, progress: ReportProgress) -> Callable[[], bool]:
    last = 0.0

    def between() -> bool:
        nonlocal last
        now = built.world.env.now
        if now - last > REPORT_EVERY:
            last = now
            progress(Progress(now, built.share(), None, built.world.server.version))
        return False

    return between


def packages(scenario: Scenario, data_root: Path) -> list[Own]:
    """Return what each client of a scenario is given.  Raises ScenarioError where its data cannot be had."""
    data, contents = learning.made(Parts(scenario), data_root), []
    if data.overview is not None:
        package.check_owners(data.overview)
    for client, periods in enumerate(data.periods):
        known = [*package.known_to(client, data.overview)] if data.overview else []
        contents.append(Own(client, len(data.periods), periods, data.features, data.classes, known))
    return contents


def assemble(
    scenario: Scenario, data_root: Path, inbox: Inbox, recorder: Recorder, packages: Sequence[str]
) -> tuple[Built, RealHost, Remote]:
    """Return the run of a scenario with its processes started, on the clock of the inbox.

    `packages` are the digests of the packages that the clients should have.
    """
    env, parts, rng = inbox.env, Parts(scenario), Streams(scenario.seed)
    setup, count = learning.prepare(parts, data_root), parts.count
    learner = Remote(**learning.options_of(parts, setup, Attackers()))
    nodes = Nodes(np.zeros(count), np.ones(count), np.ones(count))  # of no use: nothing is sent over them
    network = SimulatedNetwork(env, nodes, rng=parts.rng, record=recorder.add)
    clients = Clients(env, network, learner, np.full(count, np.inf), rng, recorder.add, recorder.extend)
    host = RealHost(
        env, network, learner, clients, recorder.add, np.inf, preparatory=setup.algorithm.prepares,
        inbox=inbox, device=learning.choose_device(scenario.device), packages=packages, codec=parts.codecs["up"],
    )  # fmt: skip
    world = World(env, network, learner, host, Exchange(host), clients, rng, parts.sampler, recorder.add)
    return started(world, learner, parts, setup, learner.stamp), host, learner
