"""Histories against a slow search, and what they must never depend on."""

import pytest
import torch
from happening import drawn_events, events_of, graph_of_events
from hypothesis import given, settings
from hypothesis import strategies as st

from fedsim.data.graph import with_keys
from fedsim.learn.engine import joining
from fedsim.learn.pairs import histories

seeds = st.integers(0, 999)


def searched(graph, end, second, length):
    """The end, then its last events strictly before that second: (other end, number of the event)."""
    known = [
        (b if a == end else a, number)
        for number, (a, b, s) in enumerate(events_of(graph))
        if end in (a, b) and s < second
    ]
    return known[max(0, len(known) - (length - 1)) :]


@given(seed=seeds, length=st.integers(1, 12), count=st.integers(0, 60))
@settings(max_examples=60, deadline=None)
def test_a_history_is_the_end_and_its_last_events_before_the_second(seed, length, count):
    graph = drawn_events(seed, count=count, message=2)
    found = histories.before(graph, graph["pairs"], graph["moments"], length)
    features = [part.view(12, 2, length, -1) for part in histories.features(graph, found)]
    for q, (pair, second) in enumerate(zip(graph["pairs"].T.tolist(), graph["moments"].tolist(), strict=True)):
        for which, end in enumerate(pair):
            known = searched(graph, end, second, length)
            assert found.taken[q, which].tolist() == [True] * (1 + len(known)) + [False] * (length - 1 - len(known))
            assert found.node[q, which, : 1 + len(known)].tolist() == [end, *(other for other, _ in known)]
            assert not features[1][q, which, 0].any()
            assert torch.equal(features[0][q, which, 0], graph["x"][end])
            for place, (other, number) in enumerate(known, 1):
                assert found.gap[q, which, place] == second - graph["happened"][number]
                assert torch.equal(features[0][q, which, place], graph["x"][other])
                assert torch.equal(features[1][q, which, place], graph["message"][number])


def test_counts_of_the_published_example():
    """S_u = (a, b, a) and S_v = (b, b, a, c); u is a and v is b here, so that both begin with themselves."""
    a, b, c = 0, 1, 2
    node = torch.tensor([[[a, b, a, 0], [b, b, a, c]]])
    taken = torch.tensor([[[True, True, True, False], [True] * 4]])
    counts = histories.common(histories.Histories(node, node, node.float(), taken))
    assert counts[0, 0, :3].tolist() == [[2, 1], [1, 2], [2, 1]]
    assert counts[0, 1].tolist() == [[1, 2], [1, 2], [2, 1], [0, 1]]
    assert counts[0, 0, 3].tolist() == [0, 0], "a free place counts nothing"


@given(seed=seeds)
@settings(max_examples=30, deadline=None)
def test_nothing_at_the_second_or_later_is_read(seed):
    graph = drawn_events(seed, message=1)
    for q, second in enumerate(graph["moments"].tolist()):
        asked = graph["pairs"][:, [q]], graph["moments"][[q]]
        earlier = [one for one in events_of(graph) if one[2] < second]
        less = graph_of_events(earlier, 9, message=0)
        whole, part = (histories.before(one, *asked, 6) for one in (graph, less))
        assert all(map(torch.equal, whole, part))


@given(seed=seeds)
@settings(max_examples=30, deadline=None)
def test_clients_side_by_side_read_their_own_events(seed):
    graphs = [drawn_events(seed + k, nodes=5 + k, count=20 * k, message=1) for k in range(3)]
    joined = joining.union(graphs)
    found = histories.before(joined, joined["pairs"], joined["moments"], 5)
    nodes = events = 0
    for k, graph in enumerate(graphs):
        own = histories.before(graph, graph["pairs"], graph["moments"], 5)
        rows = slice(12 * k, 12 * k + 12)
        assert torch.equal(found.taken[rows], own.taken)
        assert torch.equal(found.gap[rows], own.gap)
        assert torch.equal(found.node[rows] - nodes, own.node)
        mine, all_of_them = histories.features(graph, own)[1], histories.features(joined, found)[1]
        assert torch.equal(all_of_them[120 * k : 120 * (k + 1)], mine)
        nodes, events = nodes + len(graph["y"]), events + graph["events"].shape[1]


def test_histories_follow_other_events_of_the_same_layout():
    graph = drawn_events(0)
    first = histories.before(graph, graph["pairs"], graph["moments"], 5)
    later = with_keys(graph, {"happened": graph["happened"] + 100})  # the same layout, and none is before
    assert histories.before(later, graph["pairs"], graph["moments"], 5).taken.sum() == 24
    assert first.taken.sum() > 24


@pytest.mark.parametrize("moment", [0.0, 39.0, 1e12])
def test_any_second_may_be_asked_about(moment):
    graph = drawn_events(1)
    found = histories.before(graph, graph["pairs"], torch.full((12,), moment, dtype=torch.float64), 4)
    assert found.taken[:, :, 0].all()
    assert found.node.max() < 9
