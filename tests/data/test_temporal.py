"""Graphs that change, and their snapshots, against counting one by one."""

import numpy as np
import pytest
import torch
from drawn_graphs import drawn, same
from fake_events import Stretch, edges_between, entries, graph_of_stretches, listed
from hypothesis import given, settings
from hypothesis import strategies as st

from fedsim.data.graph import Graph, induced, to_device, with_keys, with_masks
from fedsim.data.partition import cut
from fedsim.data.time.temporal import Overview, events, evolving, owners_of, recorded
from fedsim.data.time.windows import bounds_of, by_degree, changed_locally, flattened, merged, snapshots_of

N = 12


def latest_of(told: list[Stretch]) -> float:
    return float(max(max(since, until if np.isfinite(until) else 0) for a, b, since, until in told if a != b))


def brute(told: list[Stretch], bounds: list[float], window: int) -> list[set[tuple[int, int]]]:
    count = len(bounds) - 1
    single = [edges_between(told, bounds[t], bounds[t + 1], t == count - 1) for t in range(count)]
    return [set().union(*single[max(0, t - window + 1) : t + 1]) for t in range(count)]


@given(told=entries, steps=st.integers(1, 9), window=st.integers(1, 4))
@settings(max_examples=60, deadline=None)
def test_snapshots_have_the_edges_that_a_brute_force_count_finds(told: list[Stretch], steps: int, window: int) -> None:
    graph = graph_of_stretches(told, N)
    bounds = bounds_of(graph, steps, None)
    assert bounds.tolist() == pytest.approx(np.linspace(0, latest_of(told), steps + 1))
    found = snapshots_of(graph, bounds, window)
    for snapshot, wanted in zip(found, brute(told, bounds.tolist(), window), strict=True):
        mine = listed(snapshot)
        assert sorted(wanted) == mine  # each once, both directions, no self loop, sorted
        assert snapshot["node"].tolist() == list(range(N))


@given(told=entries, step=st.sampled_from([1.0, 2.5, 4.0, 7.0, 100.0]))
@settings(max_examples=40, deadline=None)
def test_windows_of_a_given_length_cover_everything(told: list[Stretch], step: float) -> None:
    graph = graph_of_stretches(told, N)
    bounds = bounds_of(graph, None, step)
    assert torch.equal(bounds.diff(), torch.full((len(bounds) - 1,), step, dtype=torch.float64))
    last = float(graph["since"].max()) if len(graph["since"]) else 0.0
    assert last < float(bounds[-1])  # no window but the needed ones, and none is missing
    assert latest_of(told) <= float(bounds[-1])
    assert len(bounds) == 2 or latest_of(told) >= float(bounds[-2])
    found = snapshots_of(graph, bounds)
    assert [set(listed(snapshot)) for snapshot in found] == brute(told, bounds.tolist(), 1)


@given(told=entries, steps=st.integers(2, 8), window=st.integers(1, 3))
@settings(max_examples=60, deadline=None)
def test_changed_and_arrived_are_what_a_slow_look_at_each_node_finds(
    told: list[Stretch], steps: int, window: int
) -> None:
    graph = graph_of_stretches(told, N)
    bounds = bounds_of(graph, steps, None)
    found, sets = snapshots_of(graph, bounds, window), brute(told, bounds.tolist(), window)
    there: set[int] = set()
    for t, snapshot in enumerate(found):
        before, earlier = there, sets[t - 1] if t else set()
        there = there | {a for a, _ in sets[t]}
        assert set(snapshot["arrived"].nonzero().flatten().tolist()) == there
        gone_or_come = {a for pair in earlier ^ sets[t] for a in pair}
        wanted = (there - before) | gone_or_come if t else there
        assert set(snapshot["changed"].nonzero().flatten().tolist()) == wanted


def test_the_ends_of_a_removed_edge_have_changed() -> None:
    entry = [(0, 1, 0.0, 2.0), (2, 3, 0.0, np.inf), (3, 4, 2.0, np.inf)]
    graph = graph_of_stretches(entry, 5, span=(0.0, 3.0))
    snapshots = snapshots_of(graph, bounds_of(graph, 3, None))
    assert [snapshot["changed"].tolist() for snapshot in snapshots] == [
        [True, True, True, True, False],
        [False] * 5,
        [True, True, False, True, True],  # 0-1 goes, 3-4 comes, and with it 4
    ]
    assert [seeds.tolist() for seeds in Overview(snapshots, []).seeds] == [[0, 1, 2, 3], [], [0, 1, 3, 4]]


def test_an_owner_receives_its_own_edges_and_nodes_that_come_to_it() -> None:
    entry = [(0, 1, 0.0, 1.0), (1, 2, 0.0, 1.0), (3, 4, 1.0, np.inf), (2, 3, 0.0, np.inf)]
    graph = graph_of_stretches(entry, 5, span=(0.0, 2.0), born=np.zeros(5))
    snapshots = snapshots_of(graph, bounds_of(graph, 2, None))
    assert snapshots[1]["changed"].tolist() == [True, True, True, True, True]
    same_owners = [np.array([0, 0, 1, 1, 0])] * 2
    assert changed_locally(snapshots, same_owners, 0).all()
    assert changed_locally(snapshots, same_owners, 1).tolist() == [True, True, False, False, False]
    moved = [np.array([0, 0, 1, 1, 0]), np.array([0, 0, 0, 1, -1])]
    assert changed_locally(snapshots, moved, 1).tolist() == [True, True, True, True, True]  # 2-3 is cut, 2 and 4 move


def test_new_features_are_a_change_and_are_in_force_from_their_second_on() -> None:
    graph = graph_of_stretches([(0, 1, 0.0, np.inf), (1, 2, 0.0, np.inf)], 3, span=(0.0, 4.0))
    frames = torch.tensor([[[1.0], [2.0], [3.0]], [[1.0], [9.0], [3.0]]])
    graph = with_keys(graph, {"frames": frames, "framed": torch.tensor([0.0, 2.0], dtype=torch.float64)})
    snapshots = snapshots_of(graph, bounds_of(graph, 4, None))
    assert [snapshot["x"][:, 0].tolist() for snapshot in snapshots] == [[1, 2, 3], [1, 2, 3], [1, 9, 3], [1, 9, 3]]
    assert [snapshot["changed"].tolist() for snapshot in snapshots[1:]] == [[0, 0, 0], [0, 1, 0], [0, 0, 0]]
    own = [np.zeros(3, dtype=np.int64)] * 4
    assert [changed_locally(snapshots, own, t).tolist() for t in (1, 2)] == [[0, 0, 0], [0, 1, 0]]
    assert flattened(graph)["x"][:, 0].tolist() == [1, 9, 3]


def test_degrees_are_told_in_bins() -> None:
    star = torch.tensor([[0, 0, 0, 1, 2, 3], [1, 2, 3, 0, 0, 0]])
    assert by_degree(torch.tensor([0, 1, 2, 4]), star, 5).argmax(1).tolist() == [2, 1, 1, 1, 0]


def test_what_is_listed_in_snapshots_lives_over_those_that_list_it() -> None:
    ends, number = np.array([[0, 1, 0, 0, 2], [1, 0, 1, 1, 2]]), np.array([0, 1, 2, 4, 3])
    graph = recorded(ends, number, 3, 6, 10.0)
    assert graph["edges"].tolist() == [[0, 0, 1, 1], [1, 1, 0, 0]]
    assert graph["since"].tolist() == [0, 40, 0, 40]
    assert graph["until"].tolist() == [30, 50, 30, 50]
    assert graph["span"].tolist() == [0, 60]
    snapshots = snapshots_of(graph, bounds_of(graph, 6, None))
    assert [len(listed(snapshot)) // 2 for snapshot in snapshots] == [1, 1, 1, 0, 1, 0]
    assert len(snapshots_of(graph, bounds_of(graph, None, 10.0))) == 6
    with pytest.raises(ValueError, match="numbered 0 to 3"):
        recorded(ends, number, 3, 4, 10.0)


def test_repeats_and_self_loops_are_dropped_but_not_other_times() -> None:
    graph = events(np.array([[0, 1, 0, 2, 0], [1, 0, 1, 2, 1]]), np.array([5.0, 5.0, 5.0, 5.0, 6.0]), 3)
    assert graph["edges"].tolist() == [[0, 0, 1, 1], [1, 1, 0, 0]]
    assert graph["since"].tolist() == graph["until"].tolist() == [5, 6, 5, 6]
    assert graph["y"].tolist() == [-1, -1, -1]


def test_an_empty_recording_is_a_graph() -> None:
    graph = evolving(np.zeros((2, 0), dtype=np.int64), np.zeros(0), np.zeros(0), 4, span=(0.0, 2.0))
    assert [len(listed(snapshot)) for snapshot in snapshots_of(graph, bounds_of(graph, 2, None))] == [0, 0]


@given(told=entries, steps=st.integers(1, 6))
@settings(max_examples=30, deadline=None)
def test_the_union_of_all_snapshots_is_the_graph_without_time(told: list[Stretch], steps: int) -> None:
    graph = graph_of_stretches(told, N)
    snapshots = snapshots_of(graph, bounds_of(graph, steps, None))
    assert torch.equal(merged(snapshots)["edges"], flattened(graph)["edges"])
    assert "since" not in flattened(graph)


def numbered(seed: int) -> Graph:
    graph = drawn(20, 3, seed)
    return with_keys(graph, {"node": torch.arange(20) * 10, "changed": torch.arange(20) % 3 == 0})


def test_what_belongs_to_nodes_follows_them() -> None:
    graph, rows = numbered(4), np.array([7, 3, 11])
    part = induced(graph, rows)
    assert part["node"].tolist() == [70, 30, 110]
    assert part["changed"].tolist() == [False, True, False]
    first, second = cut(graph, [rows, np.array([0])])
    assert all(torch.equal(first[key], part[key]) for key in ("node", "changed"))  # type: ignore[literal-required]
    assert second["node"].tolist() == [0]
    masked = with_masks(part, part["changed"], part["changed"], part["changed"])
    assert torch.equal(masked["node"], part["node"])
    plain = drawn(20, 3, 4)
    assert same(induced(plain, rows), part)
    assert "node" not in induced(plain, rows)


def test_graphs_that_share_tensors_share_them_on_another_device() -> None:
    graph, moved = numbered(1), {}  # type: ignore[var-annotated]
    masked = with_masks(graph, graph["val"], graph["train"], graph["test"])
    one, other = (to_device(each, "meta", moved) for each in (graph, masked))
    assert one["y"].device == other["node"].device == torch.device("meta")
    assert one["edges"] is other["edges"]
    assert one["train"] is other["val"]


def test_owners_are_told_node_by_node() -> None:
    assert owners_of([np.array([2, 0]), np.array([], dtype=np.int64), np.array([3])], 5).tolist() == [0, -1, 0, 2, -1]


def test_cut_lets_clients_be_empty_where_they_may() -> None:
    none = np.array([], dtype=np.int64)
    parts = cut(drawn(6, 2, 0), [none, np.array([1, 2])], empty=True)
    assert [len(part["y"]) for part in parts] == [0, 2]
    assert [len(part["y"]) for part in cut(drawn(6, 2, 0), [none], empty=True)] == [0]


def test_a_node_that_comes_without_an_edge_has_changed() -> None:
    graph = graph_of_stretches([(0, 1, 0.0, np.inf)], 3, span=(0.0, 3.0), born=np.array([0.0, 0.0, 1.0]))
    snapshots = snapshots_of(graph, bounds_of(graph, 3, None))
    assert [snapshot["arrived"].tolist() for snapshot in snapshots] == [[1, 1, 0], [1, 1, 1], [1, 1, 1]]
    assert [seeds.tolist() for seeds in Overview(snapshots, []).seeds] == [[0, 1], [2], []]
