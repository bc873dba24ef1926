"""The learning half of a point: its task, the algorithm with its context, the cohort that trains, and what scores.

Its data are made in `prepared.py`.  A point that learns nothing loads neither, nor torch.
"""

import ctypes
import json
import logging
import os
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch

from fedsim.clock import partition_work
from fedsim.clock.repartition import Repartitions
from fedsim.clock.world import World
from fedsim.core import kernels, logbook
from fedsim.core.errors import Problem, ScenarioError
from fedsim.core.seeds import Streams
from fedsim.data.graph import Graph, Period
from fedsim.data.split import classes_of
from fedsim.data.stream import Stream
from fedsim.data.streams.snapshots import AHEAD, Snapshots
from fedsim.data.temporal import Overview
from fedsim.learn.algorithm import Algorithm, Context
from fedsim.learn.cohort import Cohort
from fedsim.learn.metric import Metric
from fedsim.learn.optimiser import build as optimiser
from fedsim.learn.same_pairs import SamePairs
from fedsim.learn.task import Task
from fedsim.learn.task import bind as bind_model
from fedsim.learn.training import Trainer
from fedsim.learner import asked, preserve, setaside
from fedsim.learner.scoring import Scoring
from fedsim.learner.trained import Trained
from fedsim.point import prepared
from fedsim.point.parts import Parts
from fedsim.scenario import find, paths
from fedsim.scenario.measure import Measure
from fedsim.scenario.part import Part
from fedsim.scenario.schema import Scenario

if TYPE_CHECKING:
    from fedsim.learner.release import Release

MMAP_THRESHOLD, TRIM_THRESHOLD, TOP_PAD = -3, -1, -2  # glibc's numbers of the options of mallopt
CLIENTS_LOGGED = 100  # whose order of periods the log tells

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Lesson:
    """What a point learns from and with."""

    algorithm: Algorithm
    task: Task
    cohort: Cohort
    stream: Stream
    periods: list[list[Period]]
    overview: Overview | None = None
    apart: Mapping[str, Sequence[Graph]] = field(default_factory=dict)  # each period's graph of splits with their own

    def pack(self, value: Any) -> bytes:
        """Return a value of the algorithm's as bytes.  Raises Unfit where it holds what cannot be kept."""
        return preserve.pack(value, self.given)

    def unpack(self, data: bytes) -> Any:
        """Return the value of the bytes; see `preserve.unpack`."""
        return preserve.unpack(data, self.given)

    @cached_property
    def given(self) -> preserve.Given:
        """The graphs that there are from the start, to which packed values refer."""
        return preserve.Given(self._graphs())

    def _graphs(self) -> Iterator[Graph]:
        """Yield every graph that there is from the start, in an order that does not change."""
        for own in self.periods:
            for period in own:
                yield from (period.graph, *period.ahead)
        yield from (graph for graphs in self.apart.values() for graph in graphs)
        yield from self.overview.snapshots if self.overview else ()

    def held(self) -> npt.NDArray[np.int64]:
        """Return how many vertices of each class each client ever has to train on, (K, classes)."""
        classes = max(1, classes_of([period.graph for own in self.periods for period in own]))
        found = np.zeros((len(self.periods), classes), dtype=np.int64)
        for client, own in enumerate(self.periods):
            for period in own:
                labels = period.graph["y"][period.graph["train"]].numpy(force=True)
                found[client] += np.bincount(labels[labels >= 0], minlength=classes)
        return found

    def check(self, scenario: Scenario) -> dict[str, Metric]:
        """Return the metrics by name.  Raises ScenarioError unless what is measured can be scored on these data."""
        measure = scenario.measure
        metrics = _metrics(measure)
        asked.check(metrics, measure.splits, self.task, self.algorithm, self.apart, self.periods, measure.heuristics)
        return metrics

    def scoring(self, trained: Trained, scenario: Scenario) -> Scoring:
        """Return what scores the models of these values.  Raises ScenarioError where that cannot be done as asked."""
        metrics, measure = self.check(scenario), scenario.measure
        same = None
        if self.overview is not None and isinstance(self.stream, Snapshots):
            same = SamePairs(self.overview, self.task, self.stream.negatives, AHEAD)
        return Scoring(
            trained.clients, self.task, self.algorithm,
            metrics=metrics, models=measure.models,
            splits=asked.splits_of(measure, self.periods, self.algorithm),
            apart=self.apart, periods=self.periods, same=same, heuristics=measure.heuristics,
            together=measure.over == "predictions",
        )  # fmt: skip

    def deliver(self, world: World) -> None:
        """Set off the stream."""
        if self.overview is not None:
            world.env.process(partition_work.watch(world, self.overview, len(self.periods)))
            if world.network.service is not None:  # peers have no server that knows the graph
                world.repartitions = Repartitions(world, self.overview)
        world.env.process(self.stream.run(world, self.periods))


def prepare(parts: Parts, root: Path) -> Lesson:
    """Return what a scenario learns from and with; its algorithm has its context.

    Raises ScenarioError where the scenario does not say what to learn.
    """
    found = made(parts, root)
    if found.overview is None:
        _log_orders(found.periods)
    return lesson_of(parts, found, len(found.periods), choose_device(parts.scenario.device))


def made(parts: Parts, root: Path) -> prepared.Prepared:
    """Return the data of all clients.  Raises ScenarioError where the scenario does not say what to learn."""
    scenario, clients = parts.scenario, len(parts.columns["latency"])
    assert scenario.data is not None
    _settle(scenario.threads)
    device = choose_device(scenario.device)
    apart = tuple(split for split in setaside.SPLITS if split in scenario.measure.splits)
    contents = json.dumps(paths.by_contents(scenario.data.model_dump(mode="json")))
    found = prepared.periods_of(prepared.key_of(scenario), clients, scenario.seed, root, device, apart, contents)
    logbook.repeat(found.messages)
    if not found.classes and scenario.task.name == "node_classification":
        message = f"{scenario.data.dataset.name!r} has no labels to learn; take a data set with labels, or another task"
        raise ScenarioError([Problem("data.dataset", message)])
    return found


def lesson_of(parts: Parts, found: prepared.Prepared, clients: int, device: str) -> Lesson:
    """Return what is learned from these data, which may be those of one client out of `clients` alone.

    Raises ScenarioError where the algorithm cannot be handed its context.
    """
    scenario, protocol = parts.scenario, parts.protocol
    assert scenario.data is not None
    assert scenario.training is not None
    assert scenario.model is not None
    _settle(scenario.threads)
    model = parts.algorithm.backbone(find.build("model", scenario.model))
    task = bind_model(find.build("task", scenario.task), model, found.features, found.classes, scenario.seed, device)
    training = scenario.training
    momentum = training.momentum if training.optimiser == "sgd" else 0.0
    context = Context(
        task, learning_rate=training.lr, local_steps=training.local_steps, momentum=momentum, clients=clients,
        overview=found.overview, optimiser=training.optimiser, schedule=training.schedule, clip=training.clip,
        alone=protocol.shares_only or protocol.silent,
    )  # fmt: skip
    try:
        algorithm = replace(parts.algorithm, context=context)
    except TypeError as error:  # its class has an __init__ of its own
        message = f"{type(parts.algorithm).__name__} cannot be handed its context ({error}); make it a frozen dataclass"
        raise ScenarioError(
            [Problem("algorithm", f"{message} whose fields are its options, without __init__")]
        ) from None
    trainer = Trainer(
        optimiser(training.optimiser, training.lr, training.weight_decay, training.momentum),
        training.local_steps, keep_state=training.keep_state, budget=scenario.cohort.memory,
        clip=training.clip, schedule=training.schedule, reports=parts.sampler.reports,
        step_bytes=task.step_bytes,
    )  # fmt: skip
    cohort = Cohort(algorithm, trainer, batch=scenario.cohort.mode == "union")
    return Lesson(
        algorithm, task, cohort, find.build("stream", scenario.data.stream), found.periods, found.overview, found.apart
    )


def release(scenario: Scenario, count: int | None, by_chance: bool, rng: Streams) -> "Release | None":
    """Return what makes private what is folded, or None where the scenario does not ask for it.

    `count` is how many replies an update is meant to fold, `by_chance` whether these are drawn with equal chances.
    """
    given = scenario.privacy
    if given.clip is None:
        return None
    from fedsim.learner.release import Release  # whose library takes seconds to load

    assert count is not None  # `private.problems` has seen to it
    return Release(given.clip, given.noise, given.delta, count, by_chance, rng("privacy"))


def versions() -> Mapping[str, str]:
    """Return the versions of what computes."""
    return {"torch": torch.__version__}


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


def _log_orders(periods: list[list[Period]]) -> None:
    """Tell which classes each client meets in which period: continual scores hang on it."""
    for client, own in enumerate(periods[:CLIENTS_LOGGED]):
        graphs = [period.graph for period in own]
        met = [sorted(set(graph["y"][graph["train"] | graph["val"] | graph["test"]].tolist())) for graph in graphs]
        log.info("client %d: %s", client, " -> ".join("{" + ",".join(map(str, classes)) + "}" for classes in met))


def _metrics(measure: Measure) -> dict[str, Metric]:
    """Return the metrics that are asked for, by name.  Raises ScenarioError for one that does not exist."""
    return {
        name: find.build("metric", Part(name=name), f"measure.metrics.{number}")
        for number, name in enumerate(measure.metrics)
    }
