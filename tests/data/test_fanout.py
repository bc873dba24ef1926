"""At most so many neighbours of a node."""

import numpy as np
import pytest
import torch
from drawn_graphs import drawn, graphs
from hypothesis import given, settings
from hypothesis import strategies as st

from fedsim.data.graph import Graph, Period, induced
from fedsim.data.graphs import sparsity as fanout


def pairs(graph: Graph) -> set[tuple[int, int]]:
    return set(map(tuple, graph["edges"].T.tolist()))


def one_by_one(graph: Graph, most: int, key: int) -> set[tuple[int, int]]:
    edges = graph["edges"].numpy()
    low = edges[:, edges[0] < edges[1]]
    order = np.argsort(fanout._places(graph, low, key), kind="stable")
    room, kept = np.full(len(graph["y"]), most), set()
    for a, b in low[:, order].T.tolist():
        if room[a] and room[b]:
            room[[a, b]] -= 1
            kept |= {(a, b), (b, a)}
    return kept


@given(graph=graphs, most=st.integers(1, 7), key=st.integers(0, 2**62))
@settings(max_examples=40, deadline=None)
def test_edges_are_kept_as_if_one_by_one(graph: Graph, most: int, key: int) -> None:
    few = fanout.fewer_neighbours(graph, most, key)
    assert pairs(few) == one_by_one(graph, most, key)
    assert few["edges"].shape[1] == len(pairs(few))
    assert int(torch.bincount(few["edges"][0], minlength=1).max()) <= most
    assert few["x"] is graph["x"]


def test_another_key_keeps_others_and_room_enough_keeps_all() -> None:
    graph = drawn(40, 2, 3, edges=200)
    found = [pairs(fanout.fewer_neighbours(graph, 2, key)) for key in (5, 5, 6)]
    assert found[0] == found[1] != found[2]
    assert pairs(fanout.fewer_neighbours(graph, 40, 5)) == pairs(graph)


def test_an_edge_keeps_its_place_as_the_graph_grows() -> None:
    whole = drawn(60, 2, 4, edges=250)
    whole["node"] = torch.arange(60)
    early = induced(whole, np.arange(2, 60))  # local numbers differ, numbers in the whole graph do not
    few = {name: fanout.fewer_neighbours(graph, 2, 9) for name, graph in (("early", early), ("whole", whole))}
    late = {(a, b) for a, b in pairs(few["whole"]) if a >= 2 and b >= 2}
    before = {(a + 2, b + 2) for a, b in pairs(few["early"])}
    assert len(late & before) > 0.75 * len(before)


def test_graphs_that_share_their_edges_go_on_doing_so() -> None:
    first, second = drawn(30, 2, 1, edges=90), drawn(30, 2, 2, edges=90)
    again = Graph(**{**second, "val": ~second["val"]})
    few = fanout.fewer_each([Period(0, first, (second,)), Period(1, again)], 2, 7)
    assert few[0].ahead[0]["edges"] is few[1].graph["edges"]
    assert few[1].graph["val"].all()
    assert pairs(few[0].graph) != pairs(few[1].graph)
    assert [one.number for one in few] == [0, 1]


@pytest.mark.parametrize("edges", [0, 1])
def test_hardly_any_edges(edges: int) -> None:
    graph = drawn(5, 2, 11, edges=edges)
    assert pairs(fanout.fewer_neighbours(graph, 1, 0)) == pairs(graph)
