"""Links that a client is asked about under live update: those of later snapshots, whoever owns their ends by then."""

import numpy as np
from drawn_graphs import names_to_streams
from fake_events import Stretch, entries, graph_of_stretches, in_whole_numbers, listed
from hypothesis import given, settings
from hypothesis import strategies as st

from fedsim.core.units import Updates
from fedsim.data.graph import Graph
from fedsim.data.graphs import pairs
from fedsim.data.graphs.split import SplitOptions
from fedsim.data.streams.snapshots import Snapshots

N = 12
Owned = list[list[np.ndarray]]


def stream(steps: int) -> Snapshots:
    return Snapshots(every=Updates(1), steps=steps, scored="links")


def asked(snapshots: list[Graph], owned: Owned, steps: int) -> dict[tuple[int, int, int], list[set[tuple[int, int]]]]:
    """Whole numbers of the pairs that each client, period and snapshot ahead has: those that are links, and others."""
    found = {}
    for client, own in enumerate(
        stream(steps).prepare_snapshots(snapshots, owned, SplitOptions(), names_to_streams(2))
    ):
        for period in own:
            graph = period.graph
            for ahead in (pairs.VALIDATES, pairs.TESTS):
                rows = graph["asked"] == ahead
                ends = graph["node"][graph["pairs"][:, rows]].sort(0).values.T.tolist()
                told: list[set[tuple[int, int]]] = [set(), set()]
                for (u, v), link in zip(ends, graph["links"][rows].tolist(), strict=True):
                    told[1 - link].add((u, v))
                found[client, period.number, ahead] = told
    return found


@given(told=entries, client=st.integers(0, 2))
@settings(max_examples=20, deadline=None)
def test_no_link_that_is_asked_about_is_among_the_edges_trained_on_unless_it_is_there_already(
    told: list[Stretch], client: int
) -> None:
    told = [*told, *[(a, (a + 1) % N, 0.0, 0.0) for a in range(N)]]
    snapshots = list(stream(5).snapshots(graph_of_stretches(told, N)))
    owned = [[np.arange(k, N, 3) for k in range(3)]] * 5
    for period in stream(5).prepare_snapshots(snapshots, owned, SplitOptions(), names_to_streams(2))[client]:
        mine = set(owned[0][client].tolist())
        now = {(u, v) for u, v in listed(snapshots[period.number]) if {u, v} <= mine}
        assert in_whole_numbers(period.graph) == now
        assert not period.ahead


def test_links_are_asked_of_who_owns_their_ends_now_though_both_move_away() -> None:
    told: list[Stretch] = [(0, 1, 0.0, 9.0), (2, 3, 0.0, 9.0), (4, 5, 0.0, 9.0), (1, 2, 6.5, 9.0)]
    snapshots = list(stream(3).snapshots(graph_of_stretches(told, 6)))
    first, second = np.array([0, 1, 4]), np.array([2, 3, 5])
    owned = [[first, second], [second, first], [np.array([0, 2, 4]), np.array([1, 3, 5])]]
    found = asked(snapshots, owned, 3)
    assert {key: told[0] for key, told in found.items()} == {
        (0, 0, 1): {(0, 1)}, (1, 0, 1): {(2, 3)}, (0, 0, 2): {(0, 1)}, (1, 0, 2): {(2, 3)},
    }  # fmt: skip
    assert found[0, 0, 2][1] <= {(0, 4), (1, 4)}
    assert len(found[0, 0, 2][1]) == 1


@given(told=entries, seed=st.integers(0, 99))
@settings(max_examples=30, deadline=None)
def test_whatever_owners_do_all_later_links_among_the_nodes_of_now_are_asked(told: list[Stretch], seed: int) -> None:
    told = [*told, *[(a, (a + 1) % N, 0.0, 0.0) for a in range(N)]]
    snapshots = list(stream(5).snapshots(graph_of_stretches(told, N)))
    rng, owned = np.random.default_rng(seed), []
    for snapshot in snapshots:
        owner = np.where(snapshot["arrived"].numpy(), rng.integers(-1, 3, N), -1)
        owned.append([np.flatnonzero(owner == client) for client in range(3)])
    for (client, t, ahead), (links, others) in asked(snapshots, owned, 5).items():
        mine, there = set(owned[t][client].tolist()), {(u, v) for u, v in listed(snapshots[t + ahead]) if u < v}
        assert links == {(u, v) for u, v in there if {u, v} <= mine}
        assert not others & there
        assert all({u, v} <= mine for u, v in others)
