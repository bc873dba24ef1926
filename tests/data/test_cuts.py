import sys
from collections import Counter
from math import log2
from pathlib import Path
from statistics import mean, pstdev

import numpy as np
import pytest
import torch
from drawn_graphs import drawn, graphs
from hypothesis import given, settings
from hypothesis import strategies as st

from fedsim.data.graph import Graph, graph_of
from fedsim.data.partitions.louvain import Louvain

sys.path.append(str(Path(__file__).resolve().parents[2] / "benchmarks"))
from cuts import entropy, measure, moved


def two_cliques(labels: list[int]) -> Graph:
    """Two cliques of three with a bridge: seven edges."""
    one_way = torch.tensor([[0, 1], [0, 2], [1, 2], [3, 4], [3, 5], [4, 5], [2, 3]]).T
    return graph_of(torch.zeros(6, 1), torch.cat([one_way, one_way.flip(0)], dim=1), torch.tensor(labels))


def test_two_cliques_by_hand() -> None:
    graph = two_cliques([0, 1, 2, 5, 5, 5])
    found = measure(graph, [np.array([0, 1, 2]), np.array([3, 4, 5])])
    assert found.cut_ratio == pytest.approx(1 / 7)
    assert found.edge_cov == 0
    assert found.entropy == pytest.approx(log2(3) / 2)
    found = measure(graph, [np.array([0, 1, 2, 3]), np.array([4, 5])])
    assert found.cut_ratio == pytest.approx(2 / 7)
    assert found.edge_cov == pytest.approx(1.5 / 2.5)  # 4 edges and 1


def test_one_client_cuts_nothing_and_an_edge_to_nobody_is_cut() -> None:
    graph = two_cliques([0] * 6)
    assert measure(graph, [np.arange(6)]).cut_ratio == 0
    assert measure(graph, [np.arange(5)]).cut_ratio == pytest.approx(2 / 7)
    assert measure(graph, [np.arange(4)]).cut_ratio == pytest.approx(3 / 7)  # one lies between two that nobody owns
    assert measure(graph, [np.arange(6)]).entropy == 0


def test_nothing_to_count_is_zero() -> None:
    found = measure(drawn(6, 2, 0, edges=0), [np.arange(0), np.arange(0)])
    assert (found.cut_ratio, found.edge_cov, found.entropy) == (0, 0, 0)


@pytest.mark.parametrize(("classes", "most"), [(5, 2.32), (3, 1.58), (4, 2.00)])
def test_the_most_even_mix_has_the_entropies_of_the_paper(classes: int, most: float) -> None:
    assert round(entropy(np.tile(np.arange(classes), 3)), 2) == most
    assert entropy(np.array([2, 2, -1])) == 0


@given(graph=graphs, clients=st.integers(1, 6), seed=st.integers(0, 99))
@settings(max_examples=60, deadline=None)
def test_measures_equal_those_of_slow_loops(graph: Graph, clients: int, seed: int) -> None:
    owner = np.random.default_rng(seed).integers(0, clients, len(graph["y"]))
    holder = owner.tolist()
    own = [np.flatnonzero(owner == client) for client in range(clients)]
    pairs = [(a, b) for a, b in graph["edges"].T.tolist() if a < b]
    inner = [sum(holder[a] == holder[b] == client for a, b in pairs) for client in range(clients)]
    mixes = [Counter(graph["y"].numpy()[mine].tolist()) for mine in own if len(mine)]
    found = measure(graph, own)
    assert found.cut_ratio == pytest.approx(1 - sum(inner) / len(pairs) if pairs else 0)
    assert found.edge_cov == pytest.approx(pstdev(inner) / mean(inner) if sum(inner) else 0)
    assert found.entropy == pytest.approx(
        mean(-sum(n / mix.total() * log2(n / mix.total()) for n in mix.values()) for mix in mixes)
    )


def test_moved_counts_changes_of_owner_only() -> None:
    before = [np.array([0, 1, 2]), np.array([3, 4]), np.array([], dtype=np.int64)]
    after = [np.array([0, 3]), np.array([1, 4, 9]), np.array([7])]
    assert moved(before, after) == 2  # 1 and 3; 2 has left, 7 and 9 are new
    assert moved(before, before) == 0
    assert moved([np.array([], dtype=np.int64)], [np.array([], dtype=np.int64)]) == 0


def cliques(sizes: list[int]) -> Graph:
    ends, at = [], 0
    for size in sizes:
        ends.append(torch.combinations(torch.arange(at, at + size)))
        at += size
    one_way = torch.cat(ends).T
    return graph_of(torch.zeros(at, 1), torch.cat([one_way, one_way.flip(0)], dim=1), torch.zeros(at))


def test_louvain_deals_communities_in_turn_the_largest_first() -> None:
    own = Louvain(deal="round_robin").assign(cliques([4, 9, 5, 7, 6]), 2, np.random.default_rng(0))
    assert [len(mine) for mine in own] == [9 + 6 + 4, 7 + 5]
    own = Louvain(deal="round_robin").assign(cliques([4, 9]), 3, np.random.default_rng(0))
    assert sorted(len(mine) for mine in own) == [1, 4, 8]
