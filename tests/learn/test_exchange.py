"""Corrections of sums over cut edges against A X and A² X, and what a change reaches by brute force."""

import numpy as np
import torch
from changing import undirected
from hypothesis import given, settings
from hypothesis import strategies as st

from algorithms.dg_colearn.exchange import Cut
from algorithms.dg_colearn.overseer import Overseer
from fedsim.data.graph import graph_of, induced, with_keys
from fedsim.data.time.temporal import Overview
from fedsim.learn.continual.snapshots import near, part
from fedsim.learn.layers.convolution import aggregate

cuts = st.tuples(st.integers(2, 24), st.integers(1, 4), st.integers(0, 10**6), st.sampled_from(["sum", "mean", "sym"]))


def weighed(edges, n, norm):
    """A as a dense matrix (N, N) of float64, self-loops included."""
    a = torch.eye(n, dtype=torch.float64)
    a[edges[1], edges[0]] = 1
    d = a.sum(1)
    return {"sum": a, "mean": a / d[:, None], "sym": a / (d[:, None] * d[None]).sqrt()}[norm]


def drawn(n, clients, seed):
    """A random graph, the owner (N,) of each node and features in float64."""
    rng = np.random.default_rng(seed)
    graph = undirected(n, seed)
    return graph, torch.from_numpy(rng.integers(0, clients, n)), torch.from_numpy(rng.standard_normal((n, 3)))


def at_clients(rows, graph, cut, function):
    """What each client makes of its rows and its own graph, with its nodes' degrees in the whole graph."""
    result = torch.full_like(rows[0], torch.nan)
    for client in cut.owner.unique().tolist():
        own = (cut.owner == client).nonzero().squeeze(1)
        part = with_keys(induced(graph, own), {"degree": cut.degree[own]})
        result[own] = function(*(each[own] for each in rows), part)
    return result


@given(cuts)
@settings(max_examples=40)
def test_with_exact_corrections_clients_have_the_sums_of_the_whole_graph(case):
    n, clients, seed, norm = case
    graph, owner, x = drawn(n, clients, seed)
    cut, a = Cut(graph["edges"], owner, norm), weighed(graph["edges"], n, norm)
    h = at_clients([x], graph, cut, lambda x, part: aggregate(x, part, norm))
    first, second = cut.exact(x, h)
    twice = at_clients([h], graph, cut, lambda h, part: aggregate(h, part, norm))
    done = at_clients(
        [twice, first, second],
        graph,
        cut,
        lambda local, first, second, part: local + aggregate(first, part, norm) + second,
    )
    assert (h + first - a @ x).abs().max() < 1e-9
    assert (done - a @ a @ x).abs().max() < 1e-9


@given(cuts)
@settings(max_examples=40)
def test_the_papers_correction_lacks_what_reaches_a_node_through_its_local_neighbours(case):
    n, clients, seed, norm = case
    graph, owner, x = drawn(n, clients, seed)
    cut, a = Cut(graph["edges"], owner, norm), weighed(graph["edges"], n, norm)
    local = torch.where(owner[:, None] == owner[None], a, 0.0)
    first, second = cut.paper(x, local @ x)
    missing = (local - torch.diag(local.diagonal())) @ ((a - local) @ x)
    torch.testing.assert_close(a @ a @ x - (local @ local @ x + second), missing, rtol=0, atol=1e-9)
    torch.testing.assert_close(first, a @ x - local @ x, rtol=0, atol=1e-9)


def test_on_a_path_the_papers_correction_misses_the_nodes_beside_the_cut():
    pairs = torch.tensor([[0, 1, 2, 3, 4], [1, 2, 3, 4, 5]])
    edges, x = torch.cat([pairs, pairs.flip(0)], 1), torch.eye(6, dtype=torch.float64)
    cut, a = Cut(edges, torch.tensor([0, 0, 0, 1, 1, 1])), weighed(edges, 6, "sum")
    local = torch.block_diag(a[:3, :3], a[3:, 3:])
    wrong = a @ a - local @ local - cut.paper(x, local @ x)[1]
    assert wrong.nonzero().tolist() == [[1, 3], [4, 2]]
    assert cut.border.tolist() == [False, False, True, True, False, False]


def test_an_edge_of_a_node_that_nobody_owns_is_no_cut():
    cut = Cut(torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]), torch.tensor([0, 1, -1]))
    assert cut.foreign.tolist() == [1, 1, 0]
    assert cut.degree.tolist() == [2, 2, 1]


def distances(graph):
    n = len(graph["y"])
    found = torch.full((n, n), 99.0).fill_diagonal_(0)
    found[graph["edges"][1], graph["edges"][0]] = 1
    for k in range(n):
        found = torch.minimum(found, found[:, k : k + 1] + found[k : k + 1])
    return found


@given(st.integers(2, 20), st.integers(0, 10**6), st.integers(0, 3), st.booleans())
@settings(max_examples=30)
def test_the_affected_part_is_what_lies_near_and_its_halo_one_edge_more(n, seed, hops, halo):
    graph = undirected(n, seed)
    changed = torch.from_numpy(np.random.default_rng(seed).random(n) < 0.15)
    graph = with_keys(graph, {"changed": changed})
    away = torch.where(changed[None], distances(graph), 99.0).amin(1)
    assert torch.equal(near(graph, hops), away <= hops)
    cut, rows = part(graph, hops, halo=halo)
    assert torch.equal(rows, (away <= hops + halo).nonzero().squeeze(1))
    assert torch.equal(cut["x"], graph["x"][rows])
    if halo:
        assert torch.equal(cut["halo"], away[rows] > hops)
    assert torch.equal(cut["train"], (graph["train"] & (away <= hops))[rows])


def snapshots(*edges, n, moved=()):
    """An overview of undirected edges between n nodes; the lower half is client 0's, until a node moves."""
    pairs = [torch.tensor(each).T for each in edges]
    owners = [np.repeat([0, 1], n // 2) for _ in edges]
    for t, node in moved:
        for owner in owners[t:]:
            owner[node] = 1 - owner[node]
    graphs = [graph_of(torch.zeros(n, 1), torch.cat([ends, ends.flip(0)], 1), torch.zeros(n)) for ends in pairs]
    before = graphs[0]["edges"]
    for t, graph in enumerate(graphs):
        ends = {tuple(pair) for pair in graph["edges"].T.tolist()} ^ {tuple(pair) for pair in before.T.tolist()}
        graph["changed"] = torch.tensor([t == 0 or any(v in pair for pair in ends) for v in range(n)])
        before = graph["edges"]
    return Overview(graphs, owners)


PATH = [[k, k + 1] for k in range(9)]  # ten nodes, cut between 4 and 5


def ids(mask):
    return mask.nonzero().squeeze(1).tolist()


def test_a_change_spreads_inside_its_client_and_a_removed_edge_counts_at_both_ends():
    seen = Overseer(snapshots(PATH, PATH[1:], PATH[1:4] + PATH[5:], n=10), 0, 2)
    assert ids(seen.near) == list(range(10))
    assert ids(seen.at(1).near) == [0, 1, 2, 3]
    assert ids(seen.at(1).around) == [0, 1, 2, 3, 4]
    assert ids(seen.at(2).near) == [2, 3, 4, 5, 6, 7]  # of the cut edge
    discreet = Overseer(seen.overview, 0, 2, discreet=True)
    assert ids(discreet.at(1).near) == [0, 1, 2, 3]
    assert ids(discreet.at(2).near) == []
    assert ids(Overseer(seen.overview, 1, None).near) == list(range(10))


def test_a_node_with_a_new_owner_is_a_change_to_both():
    seen = Overseer(snapshots(PATH, PATH, n=10, moved=[(1, 4)]), 1, 1)
    assert ids(seen.near) == [2, 3, 4, 5, 6]
    assert ids(seen.cut.border) == [3, 4]


def test_rows_are_due_until_they_come_and_again_once_a_change_has_reached_them():
    seen = Overseer(snapshots(PATH, PATH[1:], PATH[1:], PATH[1:], n=10), 0, 1)
    assert ids(seen.due) == list(range(10))
    seen = seen.noted("known", torch.tensor([0, 1, 2, 3, 4]), torch.ones(5, 1))
    seen = seen.noted("h0", torch.tensor([0, 1]), torch.full((2, 3), 5.0))
    assert seen.rows["h0"].sum(1).tolist() == [15, 15] + 8 * [0]
    later = seen.at(3)  # the change of snapshot 1 has not been met in between
    assert ids(later.near) == []
    assert ids(later.due) == [0, 1, 2, 5, 6, 7, 8, 9]
    assert torch.equal(later.rows["h0"], seen.rows["h0"])
    assert ids(seen.noted("known", torch.arange(10), torch.ones(10, 1)).at(1).due) == [0, 1, 2]
