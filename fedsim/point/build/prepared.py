"""The data of a point: its graph loaded, divided among the clients, thinned, and cut into periods.

What one description of the data makes is kept for the next point of the process that has the same.  When periods
arrive is not decided here (a stream's `run`), nor is what is learned from them.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache, cached_property, partial
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import torch
from threadpoolctl import threadpool_limits

from fedsim.core import logbook
from fedsim.core.arrays import Ints
from fedsim.core.errors import ScenarioError
from fedsim.core.seeds import Rng, Streams
from fedsim.data.files.own_tables import masked
from fedsim.data.graph import MASKS, Graph, Period, classes_of, to_device, with_keys
from fedsim.data.graphs.sparsity import fewer, fewer_each, fewer_neighbours
from fedsim.data.graphs.split import SplitOptions
from fedsim.data.partition import cut
from fedsim.data.time.temporal import Overview, owners_of
from fedsim.data.time.windows import flattened
from fedsim.scenario.part import Part
from fedsim.scenario.parts import find

ROOM = 1e9  # bytes of the data sets kept between points of one process; two are kept in any case
CLIENTS_LOGGED = 100  # whose order of periods the log tells


@dataclass(frozen=True)
class Prepared:
    """What there is to learn from; features, classes (or real targets); what a server overlooks, what is tested
    apart; what was logged while it was made, for the log of each point that uses it.
    """

    periods: list[list[Period]]
    features: int
    classes: int
    overview: Overview | None
    apart: dict[str, list[Graph]]
    messages: Sequence[logbook.LogMessage] = ()

    @property
    def graphs(self) -> list[Graph]:
        """All graphs, in an order that is always the same."""
        graphs = [graph for own in self.periods for one in own for graph in (one.graph, *one.ahead)]
        return [*graphs, *chain(*self.apart.values(), self.overview.snapshots if self.overview else ())]

    @cached_property
    def held(self) -> Ints:
        """How many nodes of each class each client ever has to train on, (K, classes)."""
        classes = max(1, classes_of([period.graph for own in self.periods for period in own]))
        counts = np.zeros((len(self.periods), classes), dtype=np.int64)
        for client, own in enumerate(self.periods):
            for period in own:
                labels = period.graph["y"][period.graph["train"]].numpy(force=True)
                counts[client] += np.bincount(labels[labels >= 0], minlength=classes)
        return counts

    @cached_property
    def orders(self) -> list[str]:
        """Which classes each client meets in which period, for the log: continual scores hang on it."""
        lines = []
        for client, own in enumerate(self.periods[:CLIENTS_LOGGED]):
            graphs = [period.graph for period in own]
            met = [sorted(set(graph["y"][graph["train"] | graph["val"] | graph["test"]].tolist())) for graph in graphs]
            sets = ("{" + ",".join(map(str, classes)) + "}" for classes in met)
            lines.append(f"client {client}: {' -> '.join(sets)}")
        return lines


@contextmanager
def _one_thread() -> Iterator[None]:
    """Compute with one thread, of torch and of all libraries, whose results may depend on how many there are."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with threadpool_limits(1):
            yield
    finally:
        torch.set_num_threads(before)


@cache
@_one_thread()
def periods_of(
    data_key: str, clients: int, seed: int, root: Path, device: str, apart: Sequence[str] = (), contents: str = ""
) -> Prepared:
    """Return what there is to learn from, of one description of the data; everything on the device but the overview.

    `apart`: the splits that ask a graph of their own, of which those that the stream has are made.  `contents` tells
    what the files hold that the description names: where they have changed, the data are made anew.
    """
    with logbook.set_aside() as messages:
        made = _prepare(json.loads(data_key), clients, seed, root, device, apart)
    others = periods_of.cache_info().currsize
    if others > 1 and (others + 1) * _size(made) > ROOM:  # those of a sweep are about as large as each other
        periods_of.cache_clear()
    return replace(made, messages=messages)


def _size(made: Prepared) -> int:
    """Return the bytes of all graphs but for indices of sparse features; shared ones are counted once."""
    tensors = [value for graph in made.graphs for value in graph.values() if isinstance(value, torch.Tensor)]
    stored = [(one.values() if one.layout == torch.sparse_csr else one).untyped_storage() for one in tensors]
    return sum({storage.data_ptr(): storage.nbytes() for storage in stored}.values())


def _prepare(data: dict[str, Any], clients: int, seed: int, root: Path, device: str, apart: Sequence[str]) -> Prepared:
    rng = Streams(seed)
    dataset = find.build("dataset", Part.model_validate(data["dataset"]))
    graph = dataset.load(root, seed)
    partition = find.build("partition", Part.model_validate(data["partition"])).with_names(partial(dataset.names, root))
    if partition.by_edges and not graph["edges"].shape[1]:
        message = f"{data['partition']['name']!r} goes by edges, and these data have none"
        raise ScenarioError.at("data.partition", f"{message}: take random, dirichlet, label_skew or table")
    stream = find.build("stream", Part.model_validate(data["stream"]))
    keep, own_split = data["keep"], data["split"]
    tables = {name: Path(own_split[name]) for name in MASKS if isinstance(own_split[name], str)}
    train, val, test = (0.0 if name in tables else own_split[name] for name in MASKS)
    split = SplitOptions(
        train, val, own_split["numpy_seed"], keep["labels"], own_split["by"], own_split["rounding"], tuple(tables), test
    )
    if tables:
        if not stream.divides:
            message = f"'{data['stream']['name']}' as given divides no nodes, so that none can be listed; leave it out"
            raise ScenarioError.at(f"data.split.{next(iter(tables))}", message)
        graph = masked(graph, tables, dataset.names(root))
    snapshots = stream.snapshots(_thinned(graph, keep, Streams(seed)) if "since" in graph else graph)
    if snapshots is not None:
        owned, scanned = partition.counted(snapshots, clients, rng("data.partition"))
        periods = stream.prepare_snapshots(snapshots, owned, split, rng)
        if keep["fanout"]:
            periods = [fewer_each(own, keep["fanout"], _key(rng, client)) for client, own in enumerate(periods)]
        owners, compared = [owners_of(lists, len(graph["y"])) for lists in owned], None
        if stream.compared is not None:  # drawn as a run of that many clients draws it
            others = partition.counted(snapshots, stream.compared, Streams(seed)("data.partition"))[0]
            compared = [owners_of(lists, len(graph["y"])) for lists in others]
        overview = Overview(snapshots, owners, scanned, compared)
        width, classes = int(snapshots[0]["x"].shape[1]), _outputs(graph, lambda: classes_of([graph]))
        makers = {"held_out": lambda: stream.held_out(snapshots, overview.owners)}
        return Prepared(_placed(periods, device), width, classes, overview, _made(makers, apart, device))
    if "since" in graph:
        graph = flattened(graph)
    known: Overview | None = None
    owned = partition.assign(graph, clients, rng("data.partition"))
    if stream.numbered:
        graph, owned = _numbered(graph, keep), [np.sort(own) for own in owned]
        known = Overview([graph], [owners_of(owned, len(graph["y"]))])
    graphs = cut(graph, owned)
    graphs = fewer("edges", fewer("features", graphs, keep["features"], rng), keep["edges"], rng)
    if keep["fanout"]:
        graphs = [fewer_neighbours(one, keep["fanout"], _key(rng, client)) for client, one in enumerate(graphs)]
    periods = stream.prepare(graphs, split, rng)
    makers = {
        "held_out": lambda: stream.held_out([graph], [owners_of(owned, len(graph["y"]))]),
        "pooled": lambda: stream.pooled(graph, owned, periods),
    }
    width = int(graph["x"].shape[1])
    outputs = _outputs(graph, lambda: stream.heads(graphs))
    return Prepared(_placed(periods, device), width, outputs, known, _made(makers, apart, device))


def _outputs(graph: Graph, classes: Callable[[], int]) -> int:
    return graph["real"].shape[1] if "real" in graph else classes()


def _numbered(graph: Graph, keep: Mapping[str, Any]) -> Graph:
    """Return a whole graph with its nodes' numbers, all of them new, as in the first snapshot of one that changes.

    Raises ScenarioError where clients would hold less of it than the whole graph shows.
    """
    less = {"features": keep["features"] < 1, "edges": keep["edges"] < 1, "fanout": keep["fanout"] is not None}
    if wrong := [name for name, given in less.items() if given]:
        message = "under 'static' with numbered: true clients hold all of their part; leave it out, or numbered"
        raise ScenarioError.at(f"data.keep.{wrong[0]}", message)
    n = len(graph["y"])
    there = torch.ones(n, dtype=torch.bool)
    return with_keys(graph, {"node": torch.arange(n), "changed": there, "arrived": there})


def _thinned(graph: Graph, keep: Mapping[str, Any], rng: Rng) -> Graph:
    """Return a whole graph that changes with less of it, the same entries and edges at all times."""
    if "bins" in graph and keep["features"] < 1:
        message = "features that hold degrees cannot be thinned; thin the edges, or leave it out"
        raise ScenarioError.at("data.keep.features", message)
    (graph,) = fewer("edges", fewer("features", [graph], keep["features"], rng), keep["edges"], rng)
    return graph


def _key(rng: Streams, client: int) -> int:
    return int(rng(f"data.keep.fanout.{client}").integers(2**63))


def _made(
    makers: Mapping[str, Callable[[], Sequence[Graph] | None]], wanted: Sequence[str], device: str
) -> dict[str, list[Graph]]:
    """Return the wanted splits' graphs, those that there are, on the device."""
    found = {split: makers[split]() for split in wanted if split in makers}
    return {split: [to_device(one, device) for one in graphs] for split, graphs in found.items() if graphs is not None}


def _placed(periods: Sequence[Sequence[Period]], device: str) -> list[list[Period]]:
    place = partial(to_device, device=device, moved={})
    return [[Period(one.number, place(one.graph), tuple(map(place, one.ahead))) for one in own] for own in periods]
