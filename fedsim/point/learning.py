"""The learning half of a point: its data cut into periods, its task, the cohort that trains, and the observer.

The only module beside `run.py` that is imported for one point; a point that learns nothing never loads it, nor torch.
"""

import ctypes
import json
import logging
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from threadpoolctl import threadpool_limits

from fedsim.algorithm import Algorithm, Context
from fedsim.clock import partition_work
from fedsim.clock.world import World
from fedsim.core.errors import Problem, ScenarioError
from fedsim.core.seeds import Streams
from fedsim.data.fanout import fewer_each, fewer_neighbours
from fedsim.data.graph import Graph, Period, to_device, with_keys
from fedsim.data.partition import cut
from fedsim.data.sparsity import fewer_edges, fewer_features
from fedsim.data.split import SplitOptions, classes_of
from fedsim.data.stream import Stream
from fedsim.data.temporal import Overview, owners_of
from fedsim.data.windows import flattened
from fedsim.learn.cohort import Cohort
from fedsim.learn.optimiser import build as optimiser
from fedsim.learn.task import Task
from fedsim.learn.task import bind as bind_model
from fedsim.learn.training import Trainer
from fedsim.learner import asked, preserve, setaside
from fedsim.learner.scoring import Scoring
from fedsim.learner.trained import Trained
from fedsim.point.parts import Parts
from fedsim.scenario import find, paths
from fedsim.scenario.part import Part
from fedsim.scenario.schema import Scenario

if TYPE_CHECKING:
    from fedsim.learner.release import Release

MMAP_THRESHOLD, TRIM_THRESHOLD, TOP_PAD = -3, -1, -2  # glibc's numbers of the options of mallopt
PREPARED = 2  # data sets kept between points of one process: most points of a sweep share theirs
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
        return preserve.pack(value, self._given)

    def unpack(self, data: bytes) -> Any:
        """Return the value of the bytes; see `preserve.unpack`."""
        return preserve.unpack(data, self._given)

    @cached_property
    def _given(self) -> preserve.Given:
        return preserve.Given(self._graphs())

    def _graphs(self) -> Iterator[Graph]:
        """Yield every graph that there is from the start, in an order that does not change."""
        for own in self.periods:
            for period in own:
                yield from (period.graph, *period.ahead)
        yield from (graph for graphs in self.apart.values() for graph in graphs)
        yield from self.overview.snapshots if self.overview else ()

    def scoring(self, trained: Trained, scenario: Scenario) -> Scoring:
        """Return what scores the models of these values.  Raises ScenarioError where that cannot be done as asked."""
        measure = scenario.measure
        asked.check(measure.metrics, measure.splits, self.task, self.algorithm, self.apart, self.periods)
        return Scoring(
            trained.clients, self.task, self.algorithm,
            metrics=measure.metrics, models=measure.models, splits=measure.splits,
            apart=self.apart, periods=self.periods,
        )  # fmt: skip

    def deliver(self, world: World) -> None:
        """Set off the stream."""
        if self.overview is not None:
            world.env.process(partition_work.watch(world, self.overview, len(self.periods)))
        world.env.process(self.stream.run(world, self.periods))


def prepare(parts: Parts, root: Path) -> Lesson:
    """Return what a scenario learns from and with; its algorithm has its context.

    Raises ScenarioError where the scenario does not say what to learn.
    """
    scenario, protocol, clients = parts.scenario, parts.protocol, len(parts.columns["latency"])
    assert scenario.data is not None
    assert scenario.training is not None
    assert scenario.model is not None
    _settle(scenario.threads)
    device = choose_device(scenario.device)
    apart = tuple(split for split in setaside.SPLITS if split in scenario.measure.splits)
    contents = json.dumps(paths.by_contents(scenario.data.model_dump(mode="json")))
    made = periods_of(_data_key(scenario), clients, scenario.seed, root, device, apart, contents)
    if not made.classes and scenario.task.name == "node_classification":
        told = f"{scenario.data.dataset.name!r} has no labels to learn; take a data set with labels, or another task"
        raise ScenarioError([Problem("data.dataset", told)])
    if made.overview is None:
        _log_orders(made.periods)
    model = parts.algorithm.backbone(find.build("model", scenario.model))
    task = bind_model(find.build("task", scenario.task), model, made.features, made.classes, scenario.seed, device)
    training = scenario.training
    momentum = training.momentum if training.optimiser == "sgd" else 0.0
    context = Context(
        task, learning_rate=training.lr, local_steps=training.local_steps, momentum=momentum, clients=clients,
        overview=made.overview, optimiser=training.optimiser, schedule=training.schedule, clip=training.clip,
        alone=protocol.shares_only or protocol.silent,
    )  # fmt: skip
    try:
        algorithm = replace(parts.algorithm, context=context)
    except TypeError as error:  # its class has an __init__ of its own
        told = f"{type(parts.algorithm).__name__} cannot be handed its context ({error}); make it a frozen dataclass"
        raise ScenarioError([Problem("algorithm", f"{told} whose fields are its options, without __init__")]) from None
    trainer = Trainer(
        optimiser(training.optimiser, training.lr, training.weight_decay, training.momentum),
        training.local_steps, keep_state=training.keep_state, budget=scenario.cohort.memory,
        clip=training.clip, schedule=training.schedule,
    )  # fmt: skip
    cohort = Cohort(algorithm, trainer, batch=scenario.cohort.mode == "union")
    return Lesson(
        algorithm, task, cohort, find.build("stream", scenario.data.stream), made.periods, made.overview, made.apart
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


class Prepared(NamedTuple):
    """What there is to learn from; features and classes, what a server overlooks, what is tested apart."""

    periods: list[list[Period]]
    features: int
    classes: int
    overview: Overview | None
    apart: dict[str, list[Graph]]


@contextmanager
def _one_thread() -> Iterator[None]:
    """Compute with one thread, of torch and of all libraries: several would choose among equally near neighbours."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with threadpool_limits(1):
            yield
    finally:
        torch.set_num_threads(before)


@lru_cache(maxsize=PREPARED)
@_one_thread()
def periods_of(
    data_key: str, clients: int, seed: int, root: Path, device: str, apart: Sequence[str] = (), contents: str = ""
) -> Prepared:
    """Return what there is to learn from, of one description of the data; everything on the device but the overview.

    `apart`: the splits that ask a graph of their own, of which those that the stream has are made.  `contents` tells
    what the files hold that the description names: where they have changed, the data are made anew.
    """
    data = json.loads(data_key)
    rng = Streams(seed)
    dataset = find.build("dataset", Part.model_validate(data["dataset"]))
    graph = dataset.load(root, seed)
    partition = find.build("partition", Part.model_validate(data["partition"])).with_names(partial(dataset.names, root))
    stream = find.build("stream", Part.model_validate(data["stream"]))
    keep, own_split = data["keep"], data["split"]
    split = SplitOptions(own_split["train"], own_split["val"], own_split["numpy_seed"], keep["labels"], own_split["by"])
    snapshots = stream.snapshots(_thinned(graph, keep, Streams(seed)) if "since" in graph else graph)
    if snapshots is not None:
        owned, scanned = partition.counted(snapshots, clients, rng("data.partition"))
        periods = stream.prepare_snapshots(snapshots, owned, split, rng)
        if keep["fanout"]:
            periods = [fewer_each(own, keep["fanout"], _key(rng, client)) for client, own in enumerate(periods)]
        overview = Overview(snapshots, [owners_of(lists, len(graph["y"])) for lists in owned], scanned)
        width, classes = int(snapshots[0]["x"].shape[1]), classes_of([graph])
        makers = {setaside.HELD_OUT: lambda: stream.held_out(snapshots, overview.owners)}
        return Prepared(_placed(periods, device), width, classes, overview, _made(makers, apart, device))
    if "since" in graph:
        graph = flattened(graph)
    known: Overview | None = None
    owned = partition.assign(graph, clients, rng("data.partition"))
    if stream.numbered:
        graph, owned = _numbered(graph, keep), [np.sort(own) for own in owned]
        known = Overview([graph], [owners_of(owned, len(graph["y"]))])
    graphs = cut(graph, owned)
    graphs = fewer_edges(fewer_features(graphs, keep["features"], rng), keep["edges"], rng)
    if keep["fanout"]:
        graphs = [fewer_neighbours(one, keep["fanout"], _key(rng, client)) for client, one in enumerate(graphs)]
    periods = stream.prepare(graphs, split, rng)
    makers = {
        setaside.HELD_OUT: lambda: stream.held_out([graph], [owners_of(owned, len(graph["y"]))]),
        setaside.POOLED: lambda: stream.pooled(graph, owned, periods),
    }
    width = int(graph["x"].shape[1])
    return Prepared(_placed(periods, device), width, stream.heads(graphs), known, _made(makers, apart, device))


def _numbered(graph: Graph, keep: Mapping[str, Any]) -> Graph:
    """Return a whole graph with its vertices' numbers, all of them new, as in the first snapshot of one that changes.

    Raises ScenarioError where clients would hold less of it than the whole graph shows.
    """
    less = {"features": keep["features"] < 1, "edges": keep["edges"] < 1, "fanout": keep["fanout"] is not None}
    if wrong := [name for name, given in less.items() if given]:
        told = "under 'static' with numbered: true clients hold all of their part; leave it out, or numbered"
        raise ScenarioError([Problem(f"data.keep.{wrong[0]}", told)])
    n = len(graph["y"])
    there = torch.ones(n, dtype=torch.bool)
    return with_keys(graph, {"vertex": torch.arange(n), "changed": there, "arrived": there})


def _key(rng: Streams, client: int) -> int:
    return int(rng(f"data.keep.fanout.{client}").integers(2**63))


def _made(
    makers: Mapping[str, Callable[[], Sequence[Graph] | None]], wanted: Sequence[str], device: str
) -> dict[str, list[Graph]]:
    """Return the wanted splits' graphs, those that there are, on the device."""
    found = {split: makers[split]() for split in wanted if split in makers}
    return {split: [to_device(one, device) for one in graphs] for split, graphs in found.items() if graphs is not None}


def _thinned(graph: Graph, keep: Mapping[str, Any], rng: Callable[[str], np.random.Generator]) -> Graph:
    """Return a whole graph that changes with less of it, the same entries and edges at all times."""
    if "bins" in graph and keep["features"] < 1:
        told = "features that tell degrees cannot be thinned; thin the edges, or leave it out"
        raise ScenarioError([Problem("data.keep.features", told)])
    (graph,) = fewer_edges(fewer_features([graph], keep["features"], rng), keep["edges"], rng)
    return graph


def _placed(periods: Sequence[Sequence[Period]], device: str) -> list[list[Period]]:
    moved: dict[int, torch.Tensor] = {}
    return [
        [
            Period(
                one.number,
                to_device(one.graph, device, moved),
                tuple(to_device(graph, device, moved) for graph in one.ahead),
            )
            for one in own
        ]
        for own in periods
    ]


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
    torch.set_deterministic_debug_mode("warn")  # use_deterministic_algorithms would load torch's compiler first


def _data_key(scenario: Scenario) -> str:
    assert scenario.data is not None
    return json.dumps(scenario.data.model_dump(mode="json"), sort_keys=True)


def _log_orders(periods: list[list[Period]]) -> None:
    """Tell which classes each client meets in which period: continual scores hang on it."""
    for client, own in enumerate(periods[:CLIENTS_LOGGED]):
        graphs = [period.graph for period in own]
        met = [sorted(set(graph["y"][graph["train"] | graph["val"] | graph["test"]].tolist())) for graph in graphs]
        log.info("client %d: %s", client, " -> ".join("{" + ",".join(map(str, classes)) + "}" for classes in met))
