"""The learning half of a point: its task, the algorithm with its context, the cohort that trains, and what scores.

Its data are made in `prepared.py`.  A point that learns nothing loads neither, nor torch.
"""

import ctypes
import json
import logging
import os
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from fedsim.clock import partition_work
from fedsim.clock.repartition import Repartitions
from fedsim.clock.world import World
from fedsim.core import kernels, logbook
from fedsim.core.errors import ScenarioError
from fedsim.core.seeds import Streams
from fedsim.data.stream import Stream
from fedsim.data.streams.snapshots import AHEAD, Snapshots
from fedsim.learn import suits
from fedsim.learn.algorithm import Algorithm, Context
from fedsim.learn.engine.cohort import JobQueue
from fedsim.learn.evolution import evolving
from fedsim.learn.metric import Metric
from fedsim.learn.task import Task
from fedsim.learn.task import bind as bind_model
from fedsim.learner.checkpoint import preserve
from fedsim.learner.client import AllClients
from fedsim.learner.live import Live
from fedsim.learner.recorded import Keys, Record, Recorded
from fedsim.learner.scoring.scoring import Scoring
from fedsim.learner.scoring.split import Scene, check
from fedsim.learner.scoring.splits.all_periods import AllPeriods, unavailable
from fedsim.net.attackers import Attackers
from fedsim.point.build import prepared
from fedsim.point.build.parts import Parts
from fedsim.point.build.training import composed
from fedsim.scenario.measure import Measure
from fedsim.scenario.part import Part
from fedsim.scenario.parts import find
from fedsim.scenario.schema import AVERAGE, Scenario
from fedsim.scenario.text import paths

if TYPE_CHECKING:
    from fedsim.learner.gaussian_mechanism import GaussianMechanism

MMAP_THRESHOLD, TRIM_THRESHOLD, TOP_PAD = -3, -1, -2  # glibc's numbers of the options of mallopt

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class LearningSetup:
    """What a point learns from and with."""

    algorithm: Algorithm
    task: Task
    cohort: JobQueue
    stream: Stream
    data: prepared.Prepared

    def pack(self, value: Any) -> bytes:
        """Return a value of the algorithm's as bytes.  Raises Unfit where it holds what cannot be kept."""
        return preserve.pack(value, self.given)

    def unpack(self, data: bytes) -> Any:
        """Return the value of the bytes; see `preserve.unpack`."""
        return preserve.unpack(data, self.given)

    @cached_property
    def given(self) -> preserve.DataGraphs:
        """The graphs that there are from the start, to which packed values refer."""
        return preserve.DataGraphs(self.data.graphs)

    def check(self, scenario: Scenario) -> dict[str, Metric]:
        """Return the metrics by name.  Raises ScenarioError unless what is measured can be scored on these data."""
        measure = scenario.measure
        metrics = _built("metric", measure.metrics)
        check(self._scene(measure), metrics)
        return metrics

    def _scene(self, measure: Measure) -> Scene:
        splits = _built("split", measure.splits)
        given = Scene(self.task, self.algorithm, splits, self.data.periods, self.data.apart, measure.heuristics)
        if isinstance(self.stream, Snapshots):
            given = replace(given, negatives=self.stream.negatives, later=AHEAD)
        return given

    def scoring(self, clients: AllClients, scenario: Scenario) -> Scoring:
        """Return what scores the models of these clients.  Raises ScenarioError where that cannot be done as asked."""
        metrics, measure = self.check(scenario), scenario.measure
        scene = self._scene(measure)
        several = max(map(len, scene.periods), default=0) > 1
        if measure.on_fixed_test and several and unavailable(scene) is None:  # a target of a stream counts on it
            scene = replace(scene, splits={**scene.splits, "all_periods": AllPeriods()})
        return Scoring(clients, scene, metrics, measure.models, together=measure.over == "predictions")

    def deliver(self, world: World) -> None:
        """Set off the stream."""
        periods, overview = self.data.periods, self.data.overview
        if overview is not None:
            world.env.process(partition_work.watch(world, overview, len(periods)))
            if world.network.has_server:  # which knows the graph
                world.repartitions = Repartitions(world, overview)
        world.env.process(self.stream.run(world, periods))


def prepare(parts: Parts, root: Path) -> LearningSetup:
    """Return what a scenario learns from and with; its algorithm has its context.

    Raises ScenarioError where the scenario does not say what to learn.
    """
    found = made(parts, root)
    if found.overview is None:
        for line in found.orders:
            log.info("%s", line)
    return setup_of(parts, found, len(found.periods), choose_device(parts.scenario.device))


def made(parts: Parts, root: Path) -> prepared.Prepared:
    """Return the data of all clients.  Raises ScenarioError where the scenario does not say what to learn."""
    scenario, clients = parts.scenario, parts.count
    assert scenario.data is not None
    _settle(scenario.threads)
    device = choose_device(scenario.device)
    apart = sorted({split.set_aside for split in _built("split", scenario.measure.splits).values()} - {""})
    data = scenario.data.model_dump(mode="json")
    key, contents = json.dumps(data, sort_keys=True), json.dumps(paths.by_contents(data))
    found = prepared.periods_of(key, clients, scenario.seed, root, device, tuple(apart), contents)
    logbook.repeat(found.messages)
    suits.task(scenario, found.periods[0][0].graph, found.classes)
    return found


def setup_of(parts: Parts, found: prepared.Prepared, clients: int, device: str) -> LearningSetup:
    """Return what is learned from these data, which may be those of one client out of `clients` alone.

    Raises ScenarioError where the algorithm cannot be handed its context.
    """
    scenario, protocol = parts.scenario, parts.protocol
    assert scenario.data is not None and scenario.training is not None and scenario.model is not None  # noqa: PT018
    _settle(scenario.threads)
    model = parts.algorithm.backbone(find.build("model", scenario.model))
    suits.model(scenario.model.name, model, found.periods[0][0].graph)
    task = bind_model(find.build("task", scenario.task), model, found.features, found.classes, scenario.seed, device)
    training = scenario.training
    momentum = training.momentum if training.optimiser.name == "sgd" else 0.0
    context = Context(
        task, learning_rate=training.lr, local_steps=training.local_steps, momentum=momentum, clients=clients,
        overview=found.overview, optimiser=training.optimiser.name, schedule=training.schedule, clip=training.clip,
        alone=protocol.shares_only or protocol.silent,
        aggregation=None if scenario.aggregation == AVERAGE else find.build("aggregation", scenario.aggregation),
    )  # fmt: skip
    try:
        algorithm = replace(parts.algorithm, context=context)
    except TypeError as error:  # its class has an __init__ of its own
        remedy = "make it a frozen dataclass whose fields are its options, without __init__"
        wrong = f"{type(parts.algorithm).__name__} cannot be handed its context ({error}); {remedy}"
        raise ScenarioError.at("algorithm", wrong) from None
    if model.turns():
        algorithm = evolving(algorithm)
    algorithm, trainer = composed(parts, algorithm, task, found.periods)
    cohort = JobQueue(algorithm, trainer, batch=scenario.cohort.mode == "union")
    return LearningSetup(algorithm, task, cohort, find.build("stream", scenario.data.stream), found)


def trained(
    parts: Parts, setup: LearningSetup, attackers: Attackers, record: Record | None,
    messages: list[logbook.LogMessage] | None = None,
) -> Live:  # fmt: skip
    """Return the learner of a run, which replays a record if there is one, and goes on with it."""
    options = options_of(parts, setup, attackers)
    if record is None:
        return Live(**options)
    draws = parts.codecs["down"] is not None or parts.protocol.shares_only
    log_of = [] if messages is None else messages
    return Recorded(**options, keys=Keys(b"", attackers, draws=draws), record=record, log=log_of)


def options_of(parts: Parts, setup: LearningSetup, attackers: Attackers) -> dict[str, Any]:
    """Return the options of a learner that trains, by name."""
    options, clients = parts.learner_options(attackers), AllClients()
    scores = {"clients": clients, "scoring": setup.scoring(clients, parts.scenario)}
    trains = {"algorithm": setup.algorithm, "backend": setup.cohort, "privacy": privacy(parts, options["rng"])}
    return {**options, **trains, **scores}


def estimated(parts: Parts, setup: LearningSetup, attackers: Attackers, *_: Any) -> Live:
    """Return the learner of a preview, which knows sizes and operations and trains nothing."""
    from fedsim.learner.untrained import Estimates, Untrained

    known = Untrained(setup.algorithm)
    return Live(known, Estimates(known, setup.cohort), **parts.learner_options(attackers))


def privacy(parts: Parts, rng: Streams) -> "GaussianMechanism | None":
    """Return the Gaussian mechanism, or None without differential privacy."""
    given, protocol = parts.scenario.privacy, parts.protocol
    if given.clip is None:
        return None
    from fedsim.learner.gaussian_mechanism import GaussianMechanism  # whose library takes seconds to load

    count, by_chance = protocol.folded(parts.count), protocol.by_chance and parts.sampler.even
    assert count is not None  # `fit._privacy_problems` has seen to it
    return GaussianMechanism(given.clip, given.noise, given.delta, count, by_chance, rng("privacy"))


def choose_device(name: str) -> str:
    """Return the torch device that `auto` stands for, or the named one.  Raises ScenarioError where there is none."""
    if name == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    if name.startswith("cuda"):
        count = torch.cuda.device_count()
        if int(name.partition(":")[2] or 0) >= count:
            seen = f"{count} GPU{'s' * (count > 1)}, counted from 0" if count else "no GPU"
            raise ScenarioError.at("device", f"{name!r}: torch sees {seen} here; write 'auto' or 'cpu'")
    return name


def device_name(name: str) -> str:
    """Return the torch device that a name stands for, with the model where it is a GPU."""
    device = choose_device(name)
    return f"{device} ({torch.cuda.get_device_name(device)})" if device.startswith("cuda") else device


def _keep_freed_memory() -> None:
    # Arrays of a step are freed and wanted again in the next one.  By default glibc gives large ones back to the
    # system each time, which then fills them with zeros anew: on large graphs half of the time.
    system = ctypes.CDLL(None)
    if hasattr(system, "gnu_get_libc_version"):
        wanted = [(MMAP_THRESHOLD, 2**25), (MMAP_THRESHOLD, 2**30), (TRIM_THRESHOLD, 2**31 - 1), (TOP_PAD, 2**26)]
        for option, most in wanted:  # before 2.35 no threshold above 2**25 is taken
            system.mallopt(option, most)


def _settle(threads: int) -> None:
    """Have torch compute the same whatever else the machine does."""
    _keep_freed_memory()
    if kernels.LATE and not kernels.native():
        warnings.warn(kernels.SAID, stacklevel=1)  # shown once a process
    torch.set_num_threads(threads)
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # without it cuBLAS may sum in any order
    torch.set_deterministic_debug_mode("warn")  # use_deterministic_algorithms would load torch's compiler first


def _built(kind: str, names: Sequence[str]) -> dict[str, Any]:
    """Return the metrics or splits that are asked for, by name.  Raises ScenarioError for one that does not exist."""
    parts = enumerate(names)
    return {name: find.build(kind, Part(name=name), f"measure.{kind}s.{number}") for number, name in parts}
