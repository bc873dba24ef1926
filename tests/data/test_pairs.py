"""Pairs that link predictors are asked about, against sets of edges."""

import itertools

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fedsim.data.graph import Graph, graph_of
from fedsim.data.graphs import pairs
from fedsim.data.graphs.pairs import absent, pair_numbers, pairs_of


def drawn(nodes, edges, seed, *, own=None):
    """A graph with both directions of random edges, a loop and repetitions; `own` are its nodes' global numbers."""
    generator = torch.Generator().manual_seed(seed)
    ends = torch.randint(nodes, (2, edges), generator=generator)
    whole = torch.cat([ends, ends.flip(0), ends[:, :2], torch.zeros(2, 1, dtype=torch.long)], 1)
    graph = graph_of(torch.ones(nodes, 1), whole, torch.zeros(nodes))
    return graph if own is None else Graph(**{**graph, "node": torch.as_tensor(own)})


def joined(graph, node=None):
    """The unordered pairs that edges join, by global numbers, loops left out."""
    edges = graph["edges"] if node is None else node[graph["edges"]]
    return {(min(u, v), max(u, v)) for u, v in edges.T.tolist() if u != v}


def told(graph, split):
    """The asked pairs of a split by global numbers: those that are links, and the others, as lists."""
    rows = graph["asked"] == split
    ends = graph["node"][graph["pairs"][:, rows]].sort(0).values.T.tolist()
    there = graph["links"][rows].tolist()
    return [
        [tuple(pair) for pair, is_link in zip(ends, there, strict=True) if is_link is wanted]
        for wanted in (True, False)
    ]


@given(sizes=st.lists(st.integers(0, 12), min_size=1, max_size=4), seed=st.integers(0, 10**6))
def test_ranks_number_what_is_free(sizes, seed):
    rng = np.random.default_rng(seed)
    taken = [[number for number in range(size) if rng.random() < 0.5] for size in sizes]
    flat = [(number, k) for k, own in enumerate(taken) for number in [*own, *own]]
    rng.shuffle(flat)
    numbers = torch.tensor(flat, dtype=torch.long).view(-1, 2)
    found = absent(numbers[:, 0], numbers[:, 1], torch.tensor(sizes))
    for k, size in enumerate(sizes):
        free = [number for number in range(size) if number not in taken[k]]
        assert int(found.counts[k]) == len(free)
        assert found.pick(torch.arange(len(free)), torch.full((len(free),), k)).tolist() == free


def test_pairs_and_their_numbers_are_one_to_one():
    numbers = torch.arange(300 * 299 // 2)
    ends = pairs_of(numbers)
    assert (ends[0] < ends[1]).all()
    assert len({*map(tuple, ends.T.tolist())}) == len(numbers)
    assert int(ends.max()) == 299
    assert torch.equal(pair_numbers(ends[1], ends[0]), numbers)


@pytest.mark.parametrize("nodes", [10**6, 10**9])
def test_numbers_of_pairs_are_exact_where_roots_are_not(nodes):
    upper = torch.randint(1, nodes, (2000,), generator=torch.Generator().manual_seed(0))
    for lower in (torch.zeros_like(upper), upper - 1):
        assert torch.equal(pairs_of(pair_numbers(lower, upper)), torch.stack([lower, upper]))


@given(nodes=st.integers(2, 30), edges=st.integers(0, 40), globally=st.booleans(), seed=st.integers(0, 10**6))
def test_what_is_asked_of_a_client_is_what_comes_between_its_nodes(nodes, edges, globally, seed):
    rng = np.random.default_rng(seed)
    own = np.sort(rng.choice(40, nodes, replace=False))
    graph = drawn(nodes, edges, seed, own=own)
    numbers = [None, None] if globally else [np.sort(rng.choice(40, 25, replace=False)) for _ in range(2)]
    later = [drawn(40 if it is None else 25, 60, seed + 1 + t, own=it) for t, it in enumerate(numbers)]
    asked = pairs.ahead(graph, later, np.random.default_rng(seed))
    possible = set(itertools.combinations(own.tolist(), 2))
    for split, one in zip((pairs.VALIDATES, pairs.TESTS), later, strict=True):
        links, others = told(asked, split)
        there = joined(one, one.get("node")) & possible
        assert len(links) == len(set(links))
        assert set(links) == there
        assert set(others) <= possible - there  # never an edge, a loop or a stranger
        assert len(others) == len(set(others)) == min(len(there), len(possible - there))
    assert asked["train"].all()
    assert asked["edges"] is graph["edges"]


def test_negatives_are_decided_by_the_stream_and_spread_over_all_non_edges():
    graph, later = drawn(12, 5, 0, own=np.arange(12)), [drawn(12, 9, 1), drawn(12, 9, 2)]
    one, same, other = (pairs.ahead(graph, later, np.random.default_rng(seed)) for seed in (3, 3, 4))
    assert torch.equal(one["pairs"], same["pairs"])
    assert not torch.equal(one["pairs"], other["pairs"])
    met = {pair for seed in range(200) for pair in told(pairs.ahead(graph, later, np.random.default_rng(seed)), 1)[1]}
    assert met == set(itertools.combinations(range(12), 2)) - joined(later[0])


def test_the_last_periods_have_less_to_be_asked():
    graph = drawn(12, 5, 0, own=np.arange(12))
    assert set(pairs.ahead(graph, [drawn(12, 9, 1)], np.random.default_rng(0))["asked"].tolist()) == {1}
    assert pairs.ahead(graph, [], np.random.default_rng(0))["pairs"].shape == (2, 0)


@pytest.mark.parametrize("seed", range(3))
def test_cross_pairs_are_the_cut_and_as_many_non_edges_between_distinct_clients(seed):
    snapshot, owner = drawn(30, 60, seed), np.random.default_rng(seed).integers(-1, 4, 30)
    ends, links = pairs.across(snapshot, owner, np.random.default_rng(seed))
    found = [tuple(pair) for pair in ends.T.tolist()]
    cut = {(u, v) for u, v in joined(snapshot) if owner[u] != owner[v] and min(owner[u], owner[v]) >= 0}
    assert len(cut) > 5
    assert {pair for pair, link in zip(found, links, strict=True) if link} == cut
    assert int(links.sum()) == len(cut) == int((~links).sum())
    for (u, v), link in zip(found, links, strict=True):
        assert owner[u] != owner[v]
        assert min(owner[u], owner[v]) >= 0
        assert ((min(u, v), max(u, v)) in joined(snapshot)) is bool(link)


def test_cross_negatives_take_clients_uniformly_whatever_their_sizes():
    owner = np.repeat([0, 1, 2], [90, 5, 5])
    edges = torch.stack([torch.arange(90), 90 + torch.arange(90) % 5])
    snapshot = graph_of(torch.ones(100, 1), edges, torch.zeros(100))
    apart = [pairs.across(snapshot, owner, np.random.default_rng(seed)) for seed in range(30)]
    ends = torch.cat([pair[:, ~link] for pair, link in apart], 1)
    small = (torch.from_numpy(owner)[ends] > 0).all(0).double().mean()
    assert float(small) == pytest.approx(1 / 3, abs=0.05)  # by nodes it would be 25 / 925


def test_there_are_no_cross_negatives_where_every_pair_is_an_edge():
    snapshot = graph_of(torch.ones(2, 1), torch.tensor([[0, 1], [1, 0]]), torch.zeros(2))
    ends, links = pairs.across(snapshot, np.array([0, 1]), np.random.default_rng(0))
    assert ends.tolist() == [[0], [1]]
    assert links.tolist() == [True]
