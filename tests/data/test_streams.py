from types import SimpleNamespace
from typing import Any

import pytest
import simpy
import torch
from drawn_graphs import drawn, graphs, names_to_streams, same
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from fedsim.core.errors import ScenarioError
from fedsim.core.units import Updates
from fedsim.data.graph import Graph, Period, graph_of, induced
from fedsim.data.graphs.split import SplitOptions, official, split_all
from fedsim.data.streams.class_incremental import ClassIncremental
from fedsim.data.streams.static import Static

HALF = SplitOptions(0.4, 0.2)


def labels(period: Period) -> set[int]:
    graph = period.graph
    return set(graph["y"][graph["train"] | graph["val"] | graph["test"]].tolist())


class FakeWorld:
    """A clock, a server that updates at given seconds, and clients that note what arrives."""

    def __init__(self, updates: list[float]) -> None:
        self.env = simpy.Environment()
        self.server = SimpleNamespace(version=0, updated=self.env.event())
        self.seen: list[tuple[float, int, int]] = []
        self.rng = names_to_streams(5)
        self.due = updates

    def deliver(self, client: int, period: Period) -> None:
        self.seen.append((self.env.now, client, period.number))

    def serve(self) -> Any:
        for second in self.due:
            yield self.env.timeout(second - self.env.now)
            self.server.version += 1
            fired, self.server.updated = self.server.updated, self.env.event()
            fired.succeed()


def delivered(stream: Any, clients: int, periods: int, updates: list[float], until: float) -> list[Any]:
    world = FakeWorld(updates)
    empty = graph_of(torch.ones(0, 1), torch.zeros(2, 0), torch.zeros(0))
    own = [[Period(number, empty) for number in range(periods)] for _ in range(clients)]
    world.env.process(stream.run(world, own))
    world.env.process(world.serve())
    world.env.run(until=until)
    return world.seen


def test_static_delivers_the_whole_split_graph_at_once() -> None:
    some = [drawn(20, 3, seed) for seed in range(2)]
    own = Static().prepare(some, HALF, names_to_streams(1))
    assert [[period.number for period in mine] for mine in own] == [[0], [0]]
    assert all(
        same(mine[0].graph, wanted)
        for mine, wanted in zip(own, split_all(some, HALF, names_to_streams(1)), strict=True)
    )
    assert Static().heads(some) == 3
    assert delivered(Static(), 2, 1, [1.0, 2.0], 9.0) == [(0, 0, 0), (0, 1, 0)]


def test_seconds_between_periods() -> None:
    seen = delivered(ClassIncremental(every=10.0), 2, 3, [], 100.0)
    assert seen == [(0, 0, 0), (0, 1, 0), (10, 0, 1), (10, 1, 1), (20, 0, 2), (20, 1, 2)]


def test_updates_between_periods_count_the_servers_versions() -> None:
    seen = delivered(ClassIncremental(every=Updates(2)), 1, 3, [1.0, 4.0, 5.0, 5.0, 9.0], 100.0)
    assert seen == [(0, 0, 0), (4, 0, 1), (5, 0, 2)]


def test_a_period_whose_updates_never_come_does_not_arrive() -> None:
    assert delivered(ClassIncremental(every=Updates(2)), 1, 3, [1.0, 2.0, 3.0], 100.0) == [(0, 0, 0), (2, 0, 1)]


@given(
    some=st.lists(graphs, min_size=1, max_size=4),
    classes=st.integers(1, 4),
    kept=st.sampled_from(["kept", "removed"]),
    order=st.sampled_from(["random", "same"]),
    shuffled=st.booleans(),
    seed=st.integers(0, 99),
)
@settings(deadline=None)
def test_periods_cut_the_classes_into_disjoint_groups(
    some: list[Graph], classes: int, kept: Any, order: Any, shuffled: bool, seed: int
) -> None:
    stream = ClassIncremental(1.0, classes, kept, order, shuffled)
    known = max(int(graph["y"].max()) for graph in some) + 1
    if classes > known:
        with pytest.raises(ScenarioError, match=rf"^data\.stream\.classes: {classes} classes .* take at most {known}"):
            stream.prepare(some, HALF, names_to_streams(seed))
        return
    own = stream.prepare(some, HALF, names_to_streams(seed))
    whole = split_all(some, HALF, names_to_streams(seed))
    for mine, graph in zip(own, whole, strict=True):
        assert [period.number for period in mine] == list(range(known // classes))
        met = [labels(period) for period in mine]
        assert sum(map(len, met)) == len(set().union(*met))  # no class comes twice
        assert all(len(group) <= classes for group in met)
        if not shuffled:
            assert all(len({label // classes for label in group}) <= 1 for group in met)
            assert set().union(*met) == set(graph["y"].tolist()) & set(range(stream.heads(some)))
        for name in ("train", "val", "test"):
            total = sum(int(period.graph[name].sum()) for period in mine)
            inside = torch.isin(graph["y"], torch.tensor(sorted(set().union(*met)) or [-9]))
            assert total == int((graph[name] & inside).sum())


def prepared(graph: Graph, edges: Any) -> list[Period]:
    return ClassIncremental(1.0, 2, edges, "same").prepare([graph], HALF, names_to_streams(2))[0]


def test_removed_edges_leave_the_induced_subgraph_and_kept_ones_the_same_tensors() -> None:
    graph = drawn(50, 4, 3, edges=200)
    whole = split_all([graph], HALF, names_to_streams(2))[0]
    removed, kept = prepared(graph, "removed"), prepared(graph, "kept")
    for number in range(2):
        inside = (graph["y"] // 2 == number).nonzero().squeeze(1)
        assert same(removed[number].graph, induced(whole, inside))
        assert kept[number].graph["x"] is graph["x"]
        assert kept[number].graph["edges"] is graph["edges"]
        assert torch.equal(kept[number].graph["test"].nonzero().squeeze(1), inside[whole["test"][inside]])


def test_a_client_without_a_groups_classes_gets_an_empty_period() -> None:
    full = drawn(40, 4, 0, sparse=True)
    low = induced(full, (full["y"] < 2).nonzero().squeeze(1))
    own = ClassIncremental(1.0, order="same").prepare([full, low], HALF, names_to_streams(0))[1]
    empty = own[1].graph
    assert len(own) == 2
    assert empty["x"].shape == (0, 3)
    assert empty["edges"].shape == (2, 0)
    assert empty["edges"].dtype == torch.long
    assert empty["sizes"].tolist() == [0]
    assert empty["train"].dtype == torch.bool
    kept = ClassIncremental(1.0, edges="kept", order="same").prepare([full, low], HALF, names_to_streams(0))[1][1].graph
    assert len(kept["y"]) == len(low["y"])
    assert not (kept["train"] | kept["val"] | kept["test"]).any()


def test_the_last_incomplete_group_is_dropped_and_the_head_is_smaller() -> None:
    graph = drawn(200, 7, 1)
    stream = ClassIncremental(1.0, 2, order="same")
    assert stream.heads([graph]) == 6
    assert [labels(period) for period in stream.prepare([graph], HALF, names_to_streams(0))[0]] == [
        {0, 1},
        {2, 3},
        {4, 5},
    ]
    assert ClassIncremental(1.0, 2, shuffle_classes=True).heads([graph]) == 7


def test_orders() -> None:
    some = [drawn(200, 8, seed) for seed in range(6)]

    def orders(split: SplitOptions = HALF, **options: Any) -> list[list[int]]:
        own = ClassIncremental(1.0, **options).prepare(some, split, names_to_streams(3))
        return [[min(labels(period)) // 2 for period in mine] for mine in own]

    assert orders(order="same") == [[0, 1, 2, 3]] * 6
    assert len({tuple(order) for order in orders()}) > 1
    assert orders() == orders()
    explicit = ((3, 1, 2, 0),) * 5 + ((0, 2, 1, 3),)
    assert orders(order=explicit) == [list(order) for order in explicit]
    seeded = SplitOptions(0.2, 0.4, 2025)
    assert orders(seeded, order="numpy") == official(some, 0.2, 0.4, 2, 2025)[1]


def test_a_numpy_seed_gives_one_split_whatever_the_order() -> None:
    some = [drawn(100, 4, seed) for seed in range(3)]
    seeded = SplitOptions(0.2, 0.4, 2025)

    def tested(order: Any) -> list[int]:
        own = ClassIncremental(1.0, edges="kept", order=order).prepare(some, seeded, names_to_streams(3))
        return [int((period.graph["test"] * torch.arange(100)).sum()) for mine in own for period in mine]

    assert sorted(tested("numpy")) == sorted(tested("same"))


@pytest.mark.parametrize("order", [((0, 1),), ((0, 1), (0, 0)), ((0, 1), (0, 1, 2)), ((0,), (1,))])
def test_an_order_that_does_not_fit_names_the_key(order: tuple[tuple[int, ...], ...]) -> None:
    with pytest.raises(ScenarioError, match=r"^data\.stream\.order: it must hold 2 lists"):
        ClassIncremental(1.0, order=order).prepare([drawn(40, 4, 0)] * 2, HALF, names_to_streams(0))


@pytest.mark.parametrize("stream", [ClassIncremental(1.0, order="numpy", shuffle_classes=True)])
def test_the_benchmarks_order_needs_its_seed(stream: ClassIncremental) -> None:
    for split in (HALF, SplitOptions(numpy_seed=2025)):
        with pytest.raises(ScenarioError, match=r"^data\.stream\.order: .*data\.split\.numpy_seed"):
            stream.prepare([drawn(40, 4, 0)], split, names_to_streams(0))
    with pytest.raises(ScenarioError, match=r"^data\.stream\.order: .*data\.split\.numpy_seed"):
        ClassIncremental(1.0, order="numpy").prepare([drawn(40, 4, 0)], HALF, names_to_streams(0))


def test_options_are_read_as_scenarios_write_them() -> None:
    read = TypeAdapter(ClassIncremental).validate_python
    assert read({"every": "20 updates", "order": [[1, 0], [0, 1]]}) == ClassIncremental(
        Updates(20), order=((1, 0), (0, 1))
    )
    assert read({"every": "10 min", "edges": "kept", "order": "numpy"}).every == 600.0
    for wrong in ({}, {"every": "1 s", "order": "sorted"}, {"every": "1 s", "classes": 0}):
        with pytest.raises(ValidationError):
            read(wrong)
