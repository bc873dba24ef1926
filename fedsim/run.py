"""One point, from its scenario to its tables: builds the world, runs the clock, closes the record.

The only module that sees both halves, the network and the learning, and it loads the second only where something is
learned.  Everything random comes from named streams of the point's seed, and simulated time never from the host, so
that a point's tables depend on its scenario alone.
"""

import gc
import logging
import math
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import simpy

from analysis.summarise import summarise
from fedsim import __version__, budget, check, find, fleet, logbook, private, rehearsal, seeds, stamp
from fedsim.algorithm import title_of
from fedsim.checkpoint import EVERY, Keeper
from fedsim.clients import Clients
from fedsim.errors import Problem, ScenarioError
from fedsim.hosts import ServerHost
from fedsim.learner.keys import Keys
from fedsim.learner.recorded import Recorded
from fedsim.learner.traffic import Plain
from fedsim.learner.trained import Trained
from fedsim.ledger import Ledger
from fedsim.masks import Masks
from fedsim.net.masking import STEPS, Masking
from fedsim.observer import Observer
from fedsim.progress import Progress
from fedsim.protocol import Protocol
from fedsim.record import SERVER, Recorder, Row, Span, Transfer
from fedsim.scenario import Point, Scenario
from fedsim.scenario_file import dump
from fedsim.seeds import Streams
from fedsim.views import Views
from fedsim.wave import Columns
from fedsim.world import World

Tell = Callable[[Progress], None]
REPORT_EVERY = 0.2  # seconds between two reports of progress

log = logging.getLogger(__name__)


class Built(NamedTuple):
    """A point that is ready to run: its world, whoever scores it (None where nothing is learned), and its protocol."""

    world: World
    observer: Observer | None
    learner: Recorded
    protocol: Protocol
    done: simpy.Process


def run(point: Point, folder: Path, data_root: Path, progress: Tell, every: float = EVERY) -> dict[str, Any]:
    """Run one point, write tables, log and resolved scenario into the folder, and return its row of summary.csv.

    While it runs it keeps a checkpoint there, every so many seconds of real time, from which the next call goes on.
    Raises UserError where the scenario asks for something that cannot be had, Breach where the books do not balance.
    """
    with logbook.keep(folder / "run.log"):
        return _run(point, folder, data_root, progress, every)


def _run(point: Point, folder: Path, data_root: Path, progress: Tell, every: float) -> dict[str, Any]:
    began, scenario = time.perf_counter(), point.scenario
    recorder = Recorder()
    keeper = Keeper(folder, every, folder / "run.log", stamp.of(scenario))
    built = build(scenario, data_root, recorder, keeper)
    world, observer = built.world, built.observer
    views = observe(built, keeper) if scenario.measure.views else None
    gc.freeze()  # graphs and clients outlive every round; looking for garbage among them takes a third of the time
    try:
        status = _run_clock(built, scenario, progress, keeper if observer else None)
    finally:
        gc.unfreeze()
    world.end()
    if observer:
        observer.score()
    _close(world)
    tables = recorder.close(folder)
    if views:
        views.close(folder)
    (folder / "scenario.yaml").write_text(_described(point, observer is not None), encoding="utf-8", newline="")
    measure = scenario.measure
    row = summarise(
        tables["transfers"], tables["updates"], tables["scores"], arrivals=tables["arrivals"], spans=tables["spans"],
        target=measure.target, model=measure.models[0], metric=measure.metrics[0], split=measure.splits[0],
        target_on=measure.target_on,
    )  # fmt: skip
    row["updates"] = world.server.version if row["asked"] is not None else None
    row["metric"] = row["metric"] if observer else None
    row["bytes_masking"] = None if world.clients.masks is None else world.clients.masks.added
    keeper.end()  # only now: the disk may be full
    own = {"status": status, "seed": scenario.seed, "sim_seconds": world.env.now, "method": _title(scenario)}
    device = {"device": _device(scenario) if observer else None, "threads": scenario.threads}
    return {**row, **own, "real_seconds": time.perf_counter() - began, "provenance": device}


def _device(scenario: Scenario) -> str:
    from fedsim import learning

    return learning.device_name(scenario.device)


def observe(built: Built, keeper: Keeper) -> Views:
    """Return what keeps all that clients receive from now on."""
    views = Views(built.world.env, built.learner.contents)
    built.world.network.received = views.record
    keeper.watch(views)
    return views


def build(
    scenario: Scenario, data_root: Path, recorder: Recorder, keeper: Keeper | None = None, *, trains: bool = True
) -> Built:
    """Return the world of a scenario with its processes started.

    Where nothing is learned nobody scores; elsewhere the keeper, if there is one, looks after it.  Where it is not to
    be trained (`trains`) an `untrained` algorithm stands for the scenario's.
    """
    protocol: Protocol = find.build("protocol", scenario.protocol)
    if wrong := check.missing_algorithm(scenario, protocol.asks):
        raise ScenarioError(wrong)
    if wrong := private.problems(scenario, protocol):
        raise ScenarioError(wrong)
    # Where nobody is asked, whatever a scenario says of algorithm and data is left aside.
    algorithm = find.build("algorithm", scenario.algorithm if scenario.algorithm and protocol.asks else check.NOTHING)
    if wrong := private.uncovered(scenario, algorithm):
        raise ScenarioError(wrong)
    if reason := protocol.refuse(algorithm, find.build("topology", scenario.network.topology)):
        raise ScenarioError([Problem("protocol", f"{scenario.protocol.name!r} {reason}")])
    clients, rng, own_rng = fleet.size(scenario), Streams(scenario.seed), Streams(scenario.seed)
    codec = fleet.codecs(scenario, protocol.shares_only)
    if not algorithm.learns:
        trained = Trained(algorithm, Plain(algorithm), own_rng, up=codec["up"], down=codec["down"])
        world, learner = _world(scenario, rng, trained, None, recorder, protocol)
        world.clients.holding[:] = True
        return Built(world, None, learner, protocol, world.env.process(protocol.run(world)))
    from fedsim import learning

    lesson = learning.prepare(algorithm, scenario, clients, data_root)
    if trains:
        trained = Trained(lesson.algorithm, lesson.cohort, own_rng, up=codec["up"], down=codec["down"])
    else:
        from fedsim.learner.untrained import Estimates, untrained

        known = untrained(lesson.algorithm)
        trained = Trained(known, Estimates(known, lesson.cohort), own_rng, up=codec["up"], down=codec["down"])
    world, learner = _world(scenario, rng, trained, keeper, recorder, protocol)
    observer = None
    if trains:
        by_chance = protocol.by_chance and world.sampler.even
        trained.guard = learning.release(scenario, protocol.folded(clients), by_chance, own_rng)
        trained.scoring = lesson.scoring(trained, scenario)
        observer = Observer(world, recorder.extend, scenario.measure.every)
        observer.start()
    lesson.deliver(world)
    if keeper and observer:
        keeper.attend(world, lesson, learner)
    # Started last, the protocol goes on last: a period has arrived before it asks again.
    return Built(world, observer, learner, protocol, world.env.process(protocol.run(world)))


def _world(
    scenario: Scenario,
    rng: Streams,
    trained: Trained,
    keeper: Keeper | None,
    recorder: Recorder,
    protocol: Protocol,
) -> tuple[World, Recorded]:
    env, columns = simpy.Environment(), fleet.rows(scenario, rng)
    network = scenario.network
    if wrong := fleet.missing_speed(columns, protocol.asks):
        raise ScenarioError(wrong)

    def write(row: Row) -> None:
        ledger.see(row)
        recorder.add(row)

    def write_many(downs: Columns, ups: Columns, spans: Columns, asked: npt.NDArray[np.float64]) -> None:
        ledger.see_wave(downs, ups, spans, asked)
        recorder.extend(Transfer, downs)
        recorder.extend(Transfer, ups)
        recorder.extend(Span, spans)

    effects = [find.build("effect", part, f"network.effects.{i}") for i, part in enumerate(network.effects)]
    if wrong := rehearsal.unheard(scenario, protocol, effects):
        raise ScenarioError(wrong)
    links_rng = partial(seeds.generator, scenario.seed)
    links = fleet.network(env, scenario, columns, links_rng, lambda row: world.moved(row), effects)
    trained.forgers = links.forgers
    ledger = Ledger(env, links, len(links.nodes), {*trained.algorithm.prepares, *STEPS})
    secure = scenario.privacy.secure_aggregation
    masks = Masks(Masking(secure.neighbours, secure.threshold, secure.bits), trained.down) if secure.on else None

    def seed_of(client: int, job: int) -> int:
        return seeds.integer(scenario.seed, "job", client, job)

    draws = scenario.network.codec.down is not None or protocol.shares_only
    keys = None if keeper is None else Keys(b"", links.forgers, draws=draws)
    learner = Recorded(trained, seed_of, keys, keeper.record() if keeper else None)
    speeds = columns.get("speed", links.nodes.uplink)  # nobody computes where nobody is asked
    clients = Clients(env, links, learner, speeds, rng, write, recorder.extend, masks)
    computer = scenario.server
    until = scenario.measure.until
    alone = scenario.measure.views or (until is not None and until.metered)  # messages are looked at one by one
    compressed = trained.up is not None or trained.down is not None

    def host(node: int) -> ServerHost:
        return ServerHost(
            env, links, learner, clients, write, computer.speed, computer.cores, node,
            None if alone or compressed else write_many,  # a wave plans its messages, and sends none
        )  # fmt: skip

    server, edges = host(SERVER), [host(-2 - edge) for edge in range(links.edges)]
    sampler = find.build("sampler", scenario.clients.sampler)
    world = World(env, links, learner, server, clients, rng, sampler, write, edges, ledger)
    return world, learner


def _run_clock(built: Built, scenario: Scenario, progress: Tell, keeper: Keeper | None) -> str:
    """Step the clock until the protocol ends, a budget is used up, or nobody is left to wait for."""
    world, observer, _, protocol, done = built
    env, until, last = world.env, scenario.measure.until, 0.0
    end = math.inf if until is None or until.time is None else until.time
    while not done.processed:
        ahead = env.peek()
        if ahead == float("inf"):
            return "stalled"
        if ahead > end:
            if env.now < end:
                env.run(until=end)
            return "done"
        updated = world.server.updated
        _step(env, keeper)
        if until is not None and budget.spent(until, world):
            while updated.triggered and not updated.processed:  # who waits for this update comes first
                _step(env, keeper)
            return "done"
        if time.perf_counter() - last > REPORT_EVERY:
            last = time.perf_counter()
            share = protocol.share(world) if until is None else max(protocol.share(world), budget.used(until, world))
            progress(Progress(env.now, min(1.0, share), observer.latest if observer else None, world.server.version))
    return "done"


def _step(env: simpy.Environment, keeper: Keeper | None) -> None:
    env.step()
    if keeper:
        keeper.passed()


def _title(scenario: Scenario) -> str | None:
    """Return the published name of the scenario's algorithm, or None where the protocol asks nobody to run one."""
    if scenario.algorithm is None or not find.build("protocol", scenario.protocol).asks:
        return None
    return title_of(find.find("algorithm", scenario.algorithm, "algorithm"))


def _close(world: World) -> None:
    """Have the ledger compare what moved with the rows, and log what became of the bytes."""
    assert world.ledger is not None
    world.ledger.close()
    log.info("bytes: %s", ", ".join(f"{name} {value:.0f}" for name, value in world.ledger.summary().items()))


def _described(point: Point, learned: bool) -> str:
    versions: Mapping[str, str] = {"fedsim": __version__, "simpy": simpy.__version__}
    if learned:
        from fedsim import learning

        versions = {**versions, **learning.versions()}
    notes = "".join(f"# {name}: {version}\n" for name, version in versions.items())
    return f"# point {point.id}\n{notes}{dump(point.scenario)}"
