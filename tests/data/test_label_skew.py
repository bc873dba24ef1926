import logging
import re
from typing import Any

import numpy as np
import pytest
import torch
from drawn_graphs import drawn, graphs
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter

from fedsim.core.errors import ScenarioError, UserError
from fedsim.data.graph import Graph, graph_of
from fedsim.data.partitions.label_skew import LabelSkew


def even(classes: int, each: int) -> Graph:
    """A graph without edges, of equally large classes."""
    y = torch.arange(classes).repeat(each)
    return graph_of(torch.zeros(len(y), 1), torch.zeros(2, 0), y)


def major_share(labels: np.ndarray, majors: int) -> float:
    return float(np.sort(np.bincount(labels))[-majors:].sum() / len(labels))


@pytest.mark.parametrize(("majors", "share"), [(2, 0.8), (3, 0.8), (1, 0.6)])
def test_the_share_is_met_where_there_are_enough_of_each_label(majors: int, share: float) -> None:
    # 5 clients of 100 out of 20 labels of 500: no label can run out
    graph = even(20, 500)
    for mine in LabelSkew(majors=majors, share=share).assign(graph, 100, np.random.default_rng(0))[:5]:
        assert len(mine) == 100
        assert major_share(graph["y"].numpy()[mine], majors) == pytest.approx(share, abs=0.01)


@given(
    graph=graphs,
    clients=st.integers(1, 9),
    majors=st.integers(1, 4),
    share=st.floats(0, 1),
    seed=st.integers(0, 99),
)
@settings(max_examples=80, deadline=None)
def test_clients_are_disjoint_and_equally_large(
    graph: Graph, clients: int, majors: int, share: float, seed: int
) -> None:
    partition, nodes = LabelSkew(majors=majors, share=share), len(graph["y"])

    def assign() -> list[np.ndarray]:
        return partition.assign(graph, clients, np.random.default_rng(seed))

    if clients > nodes:
        with pytest.raises(ScenarioError, match=r"clients\.count"):
            assign()
    elif len(graph["y"].unique()) <= majors:
        with pytest.raises(UserError, match=r"data\.partition\.majors"):
            assign()
    else:
        own = assign()
        assert [len(mine) for mine in own] == [nodes // clients] * clients
        every = np.concatenate(own)
        assert len(np.unique(every)) == len(every)
        assert all((np.diff(mine) > 0).all() for mine in own)
        assert all(np.array_equal(*pair) for pair in zip(own, assign(), strict=True))


def test_what_runs_out_is_filled_up_and_the_share_reached_is_reported(caplog: pytest.LogCaptureFixture) -> None:
    # Labels of 90 and 10 nodes and one client of all 100, whose major label may be either
    y = torch.tensor([0] * 90 + [1] * 10)
    graph = graph_of(torch.zeros(100, 1), torch.zeros(2, 0), y)
    with caplog.at_level(logging.INFO, logger="fedsim.data.partitions.label_skew"):
        (mine,) = LabelSkew(majors=1).assign(graph, 1, np.random.default_rng(0))
    assert len(mine) == 100
    message = re.search(r"client 0: labels \[(\d)\] have ([\d.]+) %", caplog.text)
    assert message
    assert message[2] == ("90.0" if message[1] == "0" else "10.0")


def test_every_label_is_a_major_one_of_somebody() -> None:
    graph = even(6, 100)
    labels = graph["y"].numpy()
    own = LabelSkew().assign(graph, 30, np.random.default_rng(2))
    favourites = {int(np.bincount(labels[mine]).argmax()) for mine in own}
    assert favourites == set(range(6))


def test_without_classes_the_label_is_whether_there_is_an_edge() -> None:
    graph = drawn(200, 1, 0, edges=60)
    linked = np.bincount(graph["edges"][0].numpy(), minlength=200) > 0
    assert 60 < linked.sum() < 140
    (first, *_) = LabelSkew(majors=1, by="edge").assign(graph, 8, np.random.default_rng(0))
    assert max(linked[first].mean(), 1 - linked[first].mean()) == pytest.approx(0.8, abs=0.021)
    with pytest.raises(UserError, match=r"data\.partition\.majors: 1 major labels of a graph that has 1.*by: edge"):
        LabelSkew(majors=1).assign(graph, 8, np.random.default_rng(0))
    with pytest.raises(UserError, match=r"data\.partition\.majors: 2 major labels of a graph that has 2"):
        LabelSkew(by="edge").assign(graph, 8, np.random.default_rng(0))


def test_where_every_node_has_an_edge_those_with_one_fill_every_client() -> None:
    ring = torch.stack([torch.arange(20), (torch.arange(20) + 1) % 20])
    graph = graph_of(torch.zeros(20, 1), torch.cat([ring, ring.flip(0)], dim=1), torch.zeros(20))
    own = LabelSkew(majors=1, by="edge").assign(graph, 4, np.random.default_rng(0))
    assert np.sort(np.concatenate(own)).tolist() == list(range(20))


def test_nodes_without_an_edge_in_their_client_can_be_left_out() -> None:
    graph = drawn(60, 4, 1, edges=100)
    source, target = graph["edges"].numpy()
    whole, linked = (LabelSkew(linked=on).assign(graph, 3, np.random.default_rng(4)) for on in (False, True))
    for mine, kept in zip(whole, linked, strict=True):
        inner = source[np.isin(source, mine) & np.isin(target, mine)]
        assert kept.tolist() == sorted(set(inner.tolist()))
    with pytest.raises(UserError, match=r"data\.partition\.linked: client 0 has no edge"):
        LabelSkew(linked=True).assign(even(4, 9), 3, np.random.default_rng(0))


@pytest.mark.parametrize("anew", [False, True])
def test_snapshots_are_covered_once_or_each_by_itself(anew: Any) -> None:
    first, last = drawn(40, 3, 7), drawn(40, 3, 7)
    first["arrived"], last["arrived"] = torch.arange(40) < 30, torch.ones(40, dtype=torch.bool)
    own = LabelSkew(each_snapshot=anew).follow([first, last], 3, np.random.default_rng(0))
    assert all(mine.max() < 30 for mine in own[0])
    assert [len(mine) for mine in own[1]] == [13] * 3
    if anew:
        assert [len(mine) for mine in own[0]] == [10] * 3
    else:
        assert all(np.isin(before, after).all() for before, after in zip(*own, strict=True))


def test_what_is_set_aside_is_nobodys_and_clients_share_the_rest() -> None:
    graph = even(8, 100)
    own = LabelSkew(held=0.3).assign(graph, 4, np.random.default_rng(1))
    every = np.concatenate(own)
    assert [len(mine) for mine in own] == [140] * 4  # 560 // 4
    assert len(np.unique(every)) == 560
    aside = np.setdiff1d(np.arange(800), every)
    assert np.bincount(graph["y"].numpy()[aside]).min() > 10  # drawn of all labels
    assert not np.array_equal(aside, np.arange(240))
    assert major_share(graph["y"].numpy()[own[0]], 2) == pytest.approx(0.8, abs=0.01)
    other = LabelSkew(held=0.3).assign(graph, 4, np.random.default_rng(2))
    assert not np.array_equal(np.concatenate(other), every)


def test_setting_nothing_aside_draws_what_was_drawn_before_one_could() -> None:
    own = LabelSkew(held=0.0).assign(drawn(18, 4, 2), 3, np.random.default_rng(5))
    assert [mine.tolist() for mine in own] == [[5, 8, 10, 12, 14, 17], [1, 4, 6, 7, 13, 15], [0, 2, 3, 9, 11, 16]]


def test_what_is_set_aside_can_neither_be_all_nor_be_drawn_anew() -> None:
    with pytest.raises(ValueError, match="less than 1"):
        TypeAdapter(LabelSkew).validate_python({"held": 1.0})
    with pytest.raises(ValueError, match="held: nodes set aside must stay the same"):
        LabelSkew(held=0.3, each_snapshot=True)
    with pytest.raises(ScenarioError, match=r"clients\.count.*graph of 5 nodes"):
        LabelSkew(held=0.5).assign(even(2, 5), 6, np.random.default_rng(0))
