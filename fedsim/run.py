"""One point, from its scenario to its tables: builds the world, runs the clock, closes the record.

The only module that sees both halves, the network and the learning.  Everything random comes from named streams of
the point's seed, and simulated time never from the host, so that a point's tables depend on its scenario alone.
"""

import json
import logging
import os
import time
from collections.abc import Callable
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import simpy
import torch

from analysis.summarise import summarise
from fedsim import __version__, find, logbook, seeds
from fedsim.algorithm import bind as bind_task
from fedsim.data.graph import Period, to_device
from fedsim.data.partition import cut
from fedsim.data.split import SplitOptions
from fedsim.errors import Problem, ScenarioError
from fedsim.hosts import ClientHost, ServerHost
from fedsim.learn import metrics
from fedsim.learn.cohort import Cohort
from fedsim.learn.evaluate import Evaluator
from fedsim.learn.optimiser import build as optimiser
from fedsim.learn.task import Task
from fedsim.learn.task import bind as bind_model
from fedsim.learn.training import Trainer
from fedsim.net.model import model_named
from fedsim.net.network import Network, ServerAccess
from fedsim.net.node import Nodes
from fedsim.net.tcp import TransferModel
from fedsim.progress import Progress
from fedsim.record import Recorder, Row
from fedsim.scenario import Part, Point, Scenario
from fedsim.scenario_file import dump
from fedsim.world import Streams, World

Tell = Callable[[Progress], None]
PREPARED = 2  # data sets kept between points of one process: most points of a sweep share theirs
REPORT_EVERY = 0.2  # seconds between two reports of progress
CLIENTS_LOGGED = 100  # whose order of periods the log tells

log = logging.getLogger(__name__)


def run(point: Point, folder: Path, data_root: Path, progress: Tell) -> dict[str, Any]:
    """Run one point, write tables, log and resolved scenario into the folder, and return its row of summary.csv.

    Raises UserError where the scenario asks for something that cannot be had.
    """
    with logbook.keep(folder / "run.log"):
        return _run(point, folder, data_root, progress)


def _run(point: Point, folder: Path, data_root: Path, progress: Tell) -> dict[str, Any]:
    began, scenario = time.perf_counter(), point.scenario
    torch.set_num_threads(scenario.threads)
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # without it cuBLAS may sum in any order
    torch.use_deterministic_algorithms(True, warn_only=True)
    recorder = Recorder()
    world, evaluator, done = build(scenario, data_root, recorder)
    status = _run_clock(world, evaluator, done, scenario, progress)
    world.server.end()
    evaluator.score()
    tables = recorder.close(folder)
    (folder / "scenario.yaml").write_text(_described(point), encoding="utf-8")
    headline = {"model": scenario.measure.models[0], "metric": scenario.measure.metrics[0]}
    row = summarise(
        tables["transfers"], tables["updates"], tables["scores"], **headline,
        target=scenario.measure.target, split=scenario.measure.splits[0],
    )  # fmt: skip
    row["updates"] = world.server.version
    own = {"status": status, "seed": scenario.seed, "sim_seconds": world.env.now}
    return {**row, **own, "real_seconds": time.perf_counter() - began}


def build(scenario: Scenario, data_root: Path, recorder: Recorder) -> tuple[World, Evaluator, simpy.Process]:
    """Return the world of a scenario with its processes started, the evaluator, and the protocol's process."""
    device = choose_device(scenario.device)
    periods, features, classes = prepare(_data_key(scenario), scenario.clients.count, scenario.seed, data_root, device)
    _log_orders(periods)
    task = _task(scenario, features, classes, device)
    algorithm = bind_task(find.build("algorithm", scenario.algorithm), task)
    protocol = find.build("protocol", scenario.protocol)
    stream = find.build("stream", scenario.data.stream)
    training = scenario.training
    trainer = Trainer(
        optimiser(training.optimiser, training.lr, training.weight_decay, training.momentum),
        training.local_steps, keep_state=training.keep_state, budget=scenario.cohort_memory,
    )  # fmt: skip
    cohort = Cohort(algorithm, trainer, batch=scenario.cohort == "union")
    env, rng = simpy.Environment(), Streams(scenario.seed)
    world = _world(env, rng, scenario, algorithm, cohort, recorder.add)
    measure = scenario.measure
    _known_metrics(measure.metrics)
    evaluator = Evaluator(
        world, task, recorder,
        metrics=measure.metrics, models=measure.models, splits=measure.splits, every=measure.every,
    )  # fmt: skip
    # Started in this order, they wake in this order: scores are taken before the next period arrives, and a
    # period has arrived before the protocol asks again.
    env.process(evaluator.run())
    env.process(stream.run(world, periods))
    return world, evaluator, env.process(protocol.run(world))


def choose_device(name: str) -> str:
    """Return the torch device that `auto` stands for, or the named one.  Raises ScenarioError where there is none."""
    if name == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    if name.startswith("cuda"):
        there, number = torch.cuda.device_count(), int(name.partition(":")[2] or 0)
        if number >= there:
            seen = f"{there} GPU{'s' * (there > 1)}, counted from 0" if there else "no GPU"
            raise ScenarioError([Problem("device", f"{name!r}: torch sees {seen} here; write 'auto' or 'cpu'")])
    return name


@lru_cache(maxsize=PREPARED)
def prepare(data_key: str, clients: int, seed: int, root: Path, device: str) -> tuple[list[list[Period]], int, int]:
    """Return every client's periods, the width of the features, and the number of classes."""
    data = json.loads(data_key)
    rng = Streams(seed)
    graph = find.build("dataset", Part.model_validate(data["dataset"])).load(root, seed)
    partition = find.build("partition", Part.model_validate(data["partition"]))
    graphs = cut(graph, partition.assign(graph, clients, rng("data.partition")))
    stream = find.build("stream", Part.model_validate(data["stream"]))
    split = SplitOptions(data["split"]["train"], data["split"]["val"], data["split"]["numpy_seed"])
    periods = [
        [Period(period.number, to_device(period.graph, device)) for period in own]
        for own in stream.prepare(graphs, split, rng)
    ]
    return periods, int(graph["x"].shape[1]), stream.heads(graphs)


def _data_key(scenario: Scenario) -> str:
    return json.dumps(scenario.data.model_dump(mode="json"), sort_keys=True)


def _task(scenario: Scenario, features: int, classes: int, device: str) -> Task:
    model = find.build("model", scenario.model)
    return bind_model(find.build("task", scenario.task), model, features, classes, scenario.seed, device)


def _world(
    env: simpy.Environment,
    rng: Streams,
    scenario: Scenario,
    algorithm: Any,
    cohort: Cohort,
    write: Callable[[Row], None],
) -> World:
    count, network = scenario.clients.count, scenario.network
    nodes = Nodes(
        latency=network.latency.sample(rng("network.latency"), count),
        uplink=network.uplink.sample(rng("network.uplink"), count),
        downlink=network.downlink.sample(rng("network.downlink"), count),
    )
    constants = TransferModel(congestion_control=network.congestion_control, tls_rtts=network.tls_rtts)
    effects = [find.build("effect", part, f"network.effects.{i}") for i, part in enumerate(network.effects)]
    books: list[ServerHost] = []
    links = Network(
        env, nodes, rng=partial(seeds.generator, scenario.seed), record=lambda row: books[0].moved(row),
        server=ServerAccess(network.server.ingress, network.server.egress), effects=effects,
        model=model_named(network.model, constants),
    )  # fmt: skip
    speeds = scenario.clients.speed.sample(rng("clients.speed"), count)

    def seed_of(client: int, job: int) -> int:
        return seeds.integer(scenario.seed, "job", client, job)

    clients = {client: ClientHost(client, float(speeds[client]), seed_of) for client in range(count)}
    server = ServerHost(
        env, links, algorithm, cohort, clients, rng, write, scenario.server.speed, scenario.server.cores
    )
    books.append(server)
    return World(env, algorithm, server, clients, rng, nodes.online)


def _run_clock(world: World, evaluator: Evaluator, done: simpy.Process, scenario: Scenario, progress: Tell) -> str:
    """Step the clock until the protocol ends, the scenario's end is reached, or nobody is left to wait for."""
    env, until, last = world.env, scenario.measure.until, 0.0
    protocol = find.build("protocol", scenario.protocol)
    while not done.processed:
        ahead = env.peek()
        if ahead == float("inf"):
            return "stalled"
        if until is not None and ahead > until:
            env.run(until=until)
            return "done"
        env.step()
        if time.perf_counter() - last > REPORT_EVERY:
            last = time.perf_counter()
            share = protocol.share(world) if until is None else max(protocol.share(world), env.now / until)
            progress(Progress(env.now, share, evaluator.latest, world.server.version))
    return "done"


def _known_metrics(names: list[str]) -> None:
    if unknown := [name for name in names if name not in metrics.ALL]:
        raise ScenarioError(
            [Problem("measure.metrics", f"there is no metric {unknown[0]!r}; there are: {', '.join(metrics.ALL)}")]
        )


def _log_orders(periods: list[list[Period]]) -> None:
    """Tell which classes each client meets in which period: continual scores hang on it."""
    for client, own in enumerate(periods[:CLIENTS_LOGGED]):
        graphs = [period.graph for period in own]
        met = [sorted(set(graph["y"][graph["train"] | graph["val"] | graph["test"]].tolist())) for graph in graphs]
        log.info("client %d: %s", client, " -> ".join("{" + ",".join(map(str, classes)) + "}" for classes in met))


def _described(point: Point) -> str:
    versions = {"fedsim": __version__, "torch": torch.__version__, "simpy": simpy.__version__}
    notes = "".join(f"# {name}: {version}\n" for name, version in versions.items())
    return f"# point {point.id}\n{notes}{dump(point.scenario)}"
