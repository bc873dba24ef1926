"""The learning half of a point: its data cut into periods, its task, the cohort that trains, and the observer.

The only module beside `run.py` that is imported for one point; a point that learns nothing never loads it, nor torch.
"""

import ctypes
import json
import logging
import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import torch

from fedsim import check, find
from fedsim.algorithm import Algorithm, bind
from fedsim.data.graph import Period, to_device
from fedsim.data.partition import cut
from fedsim.data.sparsity import fewer_edges, fewer_features
from fedsim.data.split import SplitOptions
from fedsim.data.stream import Stream
from fedsim.errors import Problem, ScenarioError
from fedsim.learn.cohort import Cohort
from fedsim.learn.evaluate import Evaluator
from fedsim.learn.optimiser import build as optimiser
from fedsim.learn.task import Task
from fedsim.learn.task import bind as bind_model
from fedsim.learn.training import Trainer
from fedsim.record import Recorder
from fedsim.scenario import Part, Scenario
from fedsim.world import Streams, World

MMAP_THRESHOLD, TRIM_THRESHOLD, TOP_PAD = -3, -1, -2  # glibc's numbers of the options of mallopt
PREPARED = 2  # data sets kept between points of one process: most points of a sweep share theirs
CLIENTS_LOGGED = 100  # whose order of periods the log tells

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Lesson:
    """What a point learns from and with."""

    task: Task
    cohort: Cohort
    stream: Stream
    periods: list[list[Period]]

    def start(self, world: World, recorder: Recorder, scenario: Scenario) -> Evaluator:
        """Set off the observer and then the stream.

        Started in this order they wake in this order: scores are taken before the next period arrives.
        """
        measure = scenario.measure
        _known_metrics(self.task, measure.metrics)
        evaluator = Evaluator(
            world, self.task, recorder,
            metrics=measure.metrics, models=measure.models, splits=measure.splits, every=measure.every,
        )  # fmt: skip
        world.env.process(evaluator.watch())
        world.env.process(evaluator.run())
        world.env.process(self.stream.run(world, self.periods))
        return evaluator


def prepare(algorithm: Algorithm, scenario: Scenario, clients: int, root: Path) -> Lesson:
    """Return what a scenario learns from and with, and bind the algorithm to its task.

    Raises ScenarioError where the scenario does not say what to learn.
    """
    if wrong := check.missing_lesson(scenario):
        raise ScenarioError(wrong)
    assert scenario.data is not None
    assert scenario.training is not None
    assert scenario.model is not None
    _settle(scenario.threads)
    device = choose_device(scenario.device)
    periods, features, classes = periods_of(_data_key(scenario), clients, scenario.seed, root, device)
    _log_orders(periods)
    model = algorithm.backbone(find.build("model", scenario.model))
    task = bind_model(find.build("task", scenario.task), model, features, classes, scenario.seed, device)
    bind(algorithm, task)
    training = scenario.training
    trainer = Trainer(
        optimiser(training.optimiser, training.lr, training.weight_decay, training.momentum),
        training.local_steps, keep_state=training.keep_state, budget=scenario.cohort.memory,
        clip=training.clip, schedule=training.schedule,
    )  # fmt: skip
    cohort = Cohort(algorithm, trainer, batch=scenario.cohort.mode == "union")
    return Lesson(task, cohort, find.build("stream", scenario.data.stream), periods)


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


@lru_cache(maxsize=PREPARED)
def periods_of(data_key: str, clients: int, seed: int, root: Path, device: str) -> tuple[list[list[Period]], int, int]:
    """Return every client's periods, the width of the features, and the number of classes."""
    data = json.loads(data_key)
    rng = Streams(seed)
    graph = find.build("dataset", Part.model_validate(data["dataset"])).load(root, seed)
    partition = find.build("partition", Part.model_validate(data["partition"]))
    graphs = cut(graph, partition.assign(graph, clients, rng("data.partition")))
    keep, own_split = data["keep"], data["split"]
    graphs = fewer_edges(fewer_features(graphs, keep["features"], rng), keep["edges"], rng)
    stream = find.build("stream", Part.model_validate(data["stream"]))
    split = SplitOptions(own_split["train"], own_split["val"], own_split["numpy_seed"], keep["labels"])
    periods = [
        [Period(period.number, to_device(period.graph, device)) for period in own]
        for own in stream.prepare(graphs, split, rng)
    ]
    return periods, int(graph["x"].shape[1]), stream.heads(graphs)


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
    torch.set_num_threads(threads)
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # without it cuBLAS may sum in any order
    torch.use_deterministic_algorithms(True, warn_only=True)


def _data_key(scenario: Scenario) -> str:
    assert scenario.data is not None
    return json.dumps(scenario.data.model_dump(mode="json"), sort_keys=True)


def _known_metrics(task: Task, names: list[str]) -> None:
    if unknown := [name for name in names if name not in task.metrics]:
        told = f"{unknown[0]!r} is not a metric of {type(task).__name__}; its metrics are: {', '.join(task.metrics)}"
        raise ScenarioError([Problem("measure.metrics", told)])


def _log_orders(periods: list[list[Period]]) -> None:
    """Tell which classes each client meets in which period: continual scores hang on it."""
    for client, own in enumerate(periods[:CLIENTS_LOGGED]):
        graphs = [period.graph for period in own]
        met = [sorted(set(graph["y"][graph["train"] | graph["val"] | graph["test"]].tolist())) for graph in graphs]
        log.info("client %d: %s", client, " -> ".join("{" + ",".join(map(str, classes)) + "}" for classes in met))
