"""Buckets of communities, one of which is nobody's."""

from itertools import pairwise

import numpy as np
import pytest
import torch
from drawn_graphs import drawn, graphs
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter

from fedsim.core.errors import UserError
from fedsim.data.dataset import undirected
from fedsim.data.graph import Graph, graph_of
from fedsim.data.partitions.buckets import Buckets, dealt


def sizes(buckets: list[list[np.ndarray]]) -> list[int]:
    return [sum(map(len, bucket)) for bucket in buckets]


def cliques(*each: int) -> Graph:
    """Cliques of these sizes, one after the other: communities that leave no doubt."""
    starts = np.concatenate([[0], np.cumsum(each)])
    pairs = [(a, b) for low, high in pairwise(starts) for a in range(low, high) for b in range(low, a)]
    ends = torch.tensor(np.array(pairs)).T
    nodes = int(starts[-1])
    return graph_of(torch.zeros(nodes, 1), undirected(ends, nodes), torch.zeros(nodes))


@given(lengths=st.lists(st.integers(1, 30), min_size=3, max_size=60), count=st.integers(2, 7), slack=st.integers(0, 6))
@settings(max_examples=60, deadline=None)
def test_nothing_is_lost_and_no_bucket_is_too_full(lengths: list[int], count: int, slack: int) -> None:
    nodes = sum(lengths)
    share = -(-nodes // count)
    longest = sorted((min(length, max(1, share - slack)) for length in lengths), reverse=True)
    parts = np.split(np.arange(sum(longest)), np.cumsum(longest)[:-1])
    most = share + slack
    found = dealt(parts, count, share, most)
    assert max(sizes(found)) <= most
    assert np.sort(np.concatenate([piece for bucket in found for piece in bucket])).tolist() == list(
        range(sum(longest))
    )


@given(graph=graphs, clients=st.integers(1, 6), slack=st.integers(0, 3), seed=st.integers(0, 9))
@settings(max_examples=30, deadline=None)
def test_clients_are_disjoint_and_what_is_left_is_one_bucket(graph: Graph, clients: int, slack: int, seed: int) -> None:
    nodes = len(graph["y"])
    partition = Buckets(slack=slack)
    share = nodes / (clients + 1)
    if share < slack + 1:
        with pytest.raises(UserError):
            partition.assign(graph, clients, np.random.default_rng(seed))
        return
    own = partition.assign(graph, clients, np.random.default_rng(seed))
    every, most = np.concatenate(own), max(share + slack, int(np.ceil(share)))
    assert len(own) == clients
    assert len(np.unique(every)) == len(every)
    assert all((np.diff(mine) > 0).all() for mine in own)
    assert all(0 < len(mine) <= most for mine in own)
    assert 0 < nodes - len(every) <= most
    again = partition.assign(graph, clients, np.random.default_rng(seed))
    assert all(np.array_equal(*pair) for pair in zip(own, again, strict=True))


def test_pieces_are_dealt_in_turn_past_a_full_bucket_and_split_where_none_has_room() -> None:
    parts = np.split(np.arange(30), np.cumsum([8, 8, 8])[:3])  # 8, 8, 8 and 6: shares of 10, 2 either way
    found = dealt(parts, 3, 10, 12)
    assert sizes(found) == [10, 12, 8]  # six fit nowhere: two fill the first bucket, then four fit
    found = dealt(np.split(np.arange(12), [5, 9, 11]), 2, 6, 7)
    assert [[len(piece) for piece in bucket] for bucket in found] == [[5, 2], [4, 1]]
    found = dealt(np.split(np.arange(10), [5, 8]), 2, 5, 5)
    assert [[len(piece) for piece in bucket] for bucket in found] == [[5], [3, 2]]  # the first one's turn, but full


def test_communities_stay_whole_where_they_fit() -> None:
    own = Buckets(slack=2).assign(cliques(10, 10, 10, 10), 3, np.random.default_rng(0))
    assert {int(node) // 10 for mine in own for node in mine[:8]} <= {0, 1, 2, 3}
    most = [int(np.bincount(mine // 10).max()) for mine in own]
    assert min(most) >= 8  # ten nodes are cut at share - slack = 8
    sizes_of_cut = [len(mine) for mine in Buckets(slack=2).assign(cliques(30, 6, 2, 2), 3, np.random.default_rng(0))]
    assert sizes_of_cut == [10, 8, 12]  # of 8, 8, 8 and 6, then 6, 2 and 2; the first bucket is nobody's
    exact = Buckets(slack=0).assign(cliques(10, 10, 10, 10), 3, np.random.default_rng(0))
    assert sorted(len(set((mine // 10).tolist())) for mine in exact) == [1, 1, 1]


def test_a_share_must_be_more_than_the_slack() -> None:
    graph = drawn(60, 3, 0)
    with pytest.raises(UserError, match=r"data\.partition\.slack: 5 clients and a test set have 10 nodes.*smaller"):
        Buckets().assign(graph, 5, np.random.default_rng(0))
    with pytest.raises(ValueError, match="greater than or equal to 0"):
        TypeAdapter(Buckets).validate_python({"slack": -1})
