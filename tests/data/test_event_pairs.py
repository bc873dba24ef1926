"""Snapshots of so many events, the events that each client holds, and the pairs that it is asked about."""

from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
import torch
from drawn_graphs import names_to_streams
from hypothesis import given, settings
from hypothesis import strategies as st

from fedsim.core.errors import ScenarioError
from fedsim.core.units import Updates
from fedsim.data.datasets.meetings import Meetings, pairings
from fedsim.data.graph import with_keys
from fedsim.data.graphs.split import SplitOptions
from fedsim.data.streams.snapshots import Snapshots
from fedsim.data.time.event_pairs import replaced
from fedsim.data.time.temporal import events, evolving

N, CLIENTS = 14, 3
HALF = SplitOptions(0.4, 0.2)


def stream(**options):
    return Snapshots(every=Updates(1), **({"patch": 10, "scored": "events"} | options))


def drawn(seed, count, latest):
    """Events at whole seconds, several of them at once; the first and the last are sure."""
    rng = np.random.default_rng(seed)
    ends, times = rng.integers(N, size=(2, count)), rng.integers(latest, size=count).astype(float)
    ends[1] = np.where(ends[0] == ends[1], (ends[1] + 1) % N, ends[1])
    return events(ends, times, N)


def told(graph):
    """Every event once: its ends in the whole graph and its second."""
    return sorted(
        (int(a), int(b), float(s)) for (a, b), s in zip(graph["edges"].T, graph["since"], strict=True) if a < b
    )


def of(graph, rows=slice(None)):
    """A client's events, or those at these rows, by the whole graph's numbers."""
    ends = graph["node"][graph["events"][:, rows]].sort(dim=0).values.T.tolist()
    return sorted((a, b, s) for (a, b), s in zip(ends, graph["happened"][rows].tolist(), strict=True))


@given(seed=st.integers(0, 999), patch=st.integers(1, 30), latest=st.integers(2, 200))
@settings(max_examples=60, deadline=None)
def test_patches_share_out_the_events_and_those_of_one_second_stay_together(seed, patch, latest):
    graph = drawn(seed, 90, latest)
    cut = stream(patch=patch, scored="split").snapshots(graph)
    every = told(graph)
    found, at = [], Counter(second for _, _, second in every)
    for snapshot in stream(patch=patch, scored="events").snapshots(graph) if len(cut) > 2 else []:
        own = [
            (a, b, s) for (a, b), s in zip(snapshot["events"].T.tolist(), snapshot["happened"].tolist(), strict=True)
        ]
        assert [s for _, _, s in own] == sorted(s for _, _, s in own)
        assert {s for _, _, s in own}.isdisjoint(s for _, _, s in found)
        assert len(own) < patch + max(at.values()) if own else True
        found += own
    assert sorted(found) == (every if len(cut) > 2 else [])


@pytest.mark.parametrize(("count", "patch", "sizes"), [(40, 10, [10, 10, 10, 10]), (43, 10, [10, 10, 10, 10, 3])])
def test_where_seconds_differ_every_patch_but_the_last_has_as_many(count, patch, sizes):
    line = events(np.stack([np.arange(count) % 5, np.arange(count) % 5 + 1]), np.arange(count) * 1.5, 6)
    assert [len(one["happened"]) for one in stream(patch=patch).snapshots(line)] == sizes


@given(seed=st.integers(0, 999), moving=st.booleans())
@settings(max_examples=40, deadline=None)
def test_a_client_holds_what_it_recorded_of_nodes_that_it_still_has(seed, moving):
    graph = drawn(seed, 120, 400)
    cutter, rng = stream(), np.random.default_rng(seed)
    snapshots = cutter.snapshots(graph)
    owner, owners, owned = rng.integers(CLIENTS, size=N), [], []
    for snapshot in snapshots:
        owner = np.where(rng.random(N) < 0.2 * moving, rng.integers(CLIENTS, size=N), owner)
        owners.append(owner)
        there = snapshot["arrived"].numpy()
        owned.append([np.flatnonzero((owner == client) & there) for client in range(CLIENTS)])
    recorded = [
        [(t, a, b, s) for t, one in enumerate(snapshots)
         for a, b, s in zip(*one["events"].tolist(), one["happened"].tolist(), strict=True)
         if owners[t][a] == owners[t][b] == client]
        for client in range(CLIENTS)
    ]  # fmt: skip
    for client, own in enumerate(cutter.prepare_snapshots(snapshots, owned, HALF, names_to_streams(1))):
        assert len(own) == len(snapshots) - 2
        for period in own:
            for t, one in enumerate((period.graph, *period.ahead), period.number):
                mine = set(owned[t][client].tolist())
                known = [(s, a, b, c) for s, a, b, c in recorded[client] if s <= t and {a, b} <= mine]
                assert of(one) == sorted((a, b, c) for _, a, b, c in known)
                assert of(one, one["fresh"]) == sorted((a, b, c) for s, a, b, c in known if s == t)
                assert one["happened"].tolist() == sorted(one["happened"].tolist())
            assert bool(period.graph["train"].any()) == bool(period.graph["fresh"].any())


@given(seed=st.integers(0, 999))
@settings(max_examples=30, deadline=None)
def test_each_later_event_is_asked_at_its_second_with_one_negative(seed):
    cutter = stream()
    snapshots = cutter.snapshots(drawn(seed, 90, 300))
    owned = [[np.flatnonzero(one["arrived"].numpy())[k::CLIENTS] for k in range(CLIENTS)] for one in snapshots[-1:]]
    owned = [[own[one["arrived"].numpy()[own]] for own in owned[0]] for one in snapshots]
    for own in cutter.prepare_snapshots(snapshots, owned, HALF, names_to_streams(1)):
        for period in own:
            assert "pairs" not in period.graph
            for split, one in enumerate(period.ahead, 1):
                positive = one["pairs"][:, one["links"]]
                assert torch.equal(positive, one["events"][:, one["fresh"]])
                assert (one["asked"] == split).all()
                negative = one["pairs"][:, ~one["links"]]
                if len(one["y"]) > 2:
                    assert torch.equal(*one["moments"].view(2, -1))
                    same = (negative.unsqueeze(1) == positive.unsqueeze(0)).sum((0, 1))
                    assert (same == 1).all(), "one end stays, the other is neither"
                    assert (negative[0] != negative[1]).all()
                else:
                    assert not negative.numel()


def test_what_validates_a_period_tests_the_one_before():
    cutter = stream()
    snapshots = cutter.snapshots(drawn(0, 90, 300))
    owned = [[np.flatnonzero(one["arrived"].numpy())] for one in snapshots]
    (own,) = cutter.prepare_snapshots(snapshots, owned, HALF, names_to_streams(1))
    for earlier, later in pairwise(own):
        assert earlier.ahead[1]["pairs"] is later.ahead[0]["pairs"]
        assert (earlier.ahead[1]["asked"] == 2).all()
        assert (later.ahead[0]["asked"] == 1).all()


def test_every_third_node_takes_the_place_of_an_end():
    ends = torch.tensor([[2, 5, 0], [4, 1, 5]])
    for turned in (0, 1):
        for column, (a, b) in enumerate(ends.T.tolist()):
            one = ends[:, [column] * 4]
            pair = replaced(one, torch.full((4,), turned), torch.arange(4))
            assert (pair[0] == (a, b)[turned]).all()
            assert sorted(pair[1].tolist()) == sorted({*range(6)} - {a, b})


def test_features_of_events_stay_with_their_events():
    rng = np.random.default_rng(0)
    ends = rng.permuted(np.tile(np.arange(N), (60, 1)), axis=1)[:, :2].T
    whole = events(ends, rng.permutation(60).astype(float), N)
    low, high = whole["edges"].min(0).values, whole["edges"].max(0).values
    message = torch.stack([low * 1000 + high, whole["since"]], dim=1).float()
    cutter = stream()
    snapshots = cutter.snapshots(with_keys(whole, {"message": message}))
    owned = [[np.flatnonzero(one["arrived"].numpy())] for one in snapshots]
    (own,) = cutter.prepare_snapshots(snapshots, owned, HALF, names_to_streams(1))
    graph = own[-1].ahead[1]
    ends = graph["node"][graph["events"]]
    assert torch.equal(graph["message"][:, 0].long(), ends.min(0).values * 1000 + ends.max(0).values)
    assert torch.equal(graph["message"][:, 1].double(), graph["happened"])
    assert len(graph["message"]) == 60


@pytest.mark.parametrize(
    ("options", "words"),
    [({"steps": 4}, "only one"), ({"patch": None}, "give one of"), ({"window": 2}, "window: with scored: events")],
)
def test_options_that_exclude_each_other_are_refused(options, words):
    with pytest.raises(ValueError, match=words):
        stream(**options)


@pytest.mark.parametrize(
    ("options", "key"),
    [({"scored": "links"}, "data.stream.patch"), ({"patch": None, "steps": 4}, "data.stream.scored")],
)
def test_edges_that_last_are_no_events(options, key):
    lasting = evolving(np.array([[0, 1, 2], [1, 2, 3]]), np.array([0.0, 1, 2]), np.array([3.0, 4, 5]), 4)
    with pytest.raises(ScenarioError, match="in this data set edges last") as caught:
        stream(**options).snapshots(lasting)
    assert caught.value.problems[0].key == key


@pytest.mark.parametrize("group", [2, 4, 8, 16])
def test_in_a_group_everybody_meets_everybody_once(group):
    rounds = pairings(group)
    assert all(sorted(pairs.flatten().tolist()) == [*range(group)] for pairs in rounds)
    met = Counter(frozenset(pair) for pairs in rounds for pair in pairs.tolist())
    assert len(met) == group * (group - 1) // 2
    assert {*met.values()} == {1}


def test_everybody_has_one_meeting_a_second_and_within_its_community():
    graph = Meetings(communities=3, members=12, group=4, seconds=9).load(None, 5)
    source, target = graph["edges"]
    assert torch.equal(graph["y"][source], graph["y"][target])
    assert torch.equal(torch.bincount(source * 9 + graph["since"].long()), torch.ones(36 * 9, dtype=torch.long))
    with pytest.raises(ValueError, match="group"):
        Meetings(members=30, group=8)
