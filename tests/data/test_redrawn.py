"""Label skew that is drawn anew until every client has something (ghost's and FedTAD's partition)."""

import numpy as np
import pytest
import torch
from drawn_graphs import drawn
from hypothesis import given, settings
from hypothesis import strategies as st

from fedsim.core.errors import ScenarioError
from fedsim.data.graph import Graph, graph_of
from fedsim.data.partitions.dirichlet import Dirichlet


def published(alpha: float) -> Dirichlet:
    return Dirichlet(alpha=alpha, least=5, capped=True, tries=10_000)


def even(classes: int, each: int) -> Graph:
    y = torch.arange(classes).repeat(each)
    return graph_of(torch.zeros(len(y), 1), torch.zeros(2, 0), y)


@pytest.mark.parametrize("alpha", [0.05, 0.01])
@given(graph=st.builds(drawn, nodes=st.integers(80, 300), classes=st.integers(5, 9), seed=st.integers(0, 999)))
@settings(max_examples=15, deadline=None)
def test_every_class_is_dealt_whole_and_nobody_has_less_than_five(alpha: float, graph: Graph) -> None:
    own = published(alpha).assign(graph, 4, np.random.default_rng(1))
    assert np.sort(np.concatenate(own)).tolist() == list(range(len(graph["y"])))
    assert min(map(len, own)) >= 5
    assert all((np.diff(mine) > 0).all() for mine in own)
    again = published(alpha).assign(graph, 4, np.random.default_rng(1))
    assert all(np.array_equal(*pair) for pair in zip(own, again, strict=True))
    other = published(alpha).assign(graph, 4, np.random.default_rng(2))
    assert any(len(one) != len(two) or (one != two).any() for one, two in zip(own, other, strict=True))


@pytest.mark.parametrize("alpha", [0.05, 0.01])
def test_who_is_full_gets_no_further_class(alpha: float) -> None:
    graph = even(8, 50)  # full is 100: what a client holds before its last class is below that
    labels = graph["y"].numpy()
    for seed in range(20):
        for mine in published(alpha).assign(graph, 4, np.random.default_rng(seed)):
            counts = np.bincount(labels[mine], minlength=8)
            assert counts[: counts.nonzero()[0][-1]].sum() < 100
    free = Dirichlet(alpha=alpha, least=1, tries=10_000)
    most = [max(map(len, free.assign(graph, 4, np.random.default_rng(seed)))) for seed in range(20)]
    assert max(most) >= 150


def test_a_class_is_shuffled_before_it_is_dealt() -> None:
    own = Dirichlet(alpha=100.0, least=5, tries=10).assign(even(1, 200), 2, np.random.default_rng(0))
    assert min(mine.max() for mine in own) > 180
    assert max(mine.min() for mine in own) < 20


def test_what_cannot_be_drawn_is_refused_with_the_mend() -> None:
    told = r"data\.partition\.tries: in 50 tries no draw of alpha 0\.01 .* 8 clients 5 of 60 nodes in 2 classes"
    with pytest.raises(ScenarioError, match=told):
        Dirichlet(alpha=0.01, least=5, capped=True, tries=50).assign(even(2, 30), 8, np.random.default_rng(0))
    with pytest.raises(ValueError, match=r"capped: .* needs tries"):
        Dirichlet(capped=True)


def test_without_tries_the_rule_is_as_before() -> None:
    graph = even(3, 40)
    plain = Dirichlet(alpha=0.05, least=5).assign(graph, 3, np.random.default_rng(7))
    rng, owner = np.random.default_rng(7), np.empty(120, dtype=np.int64)
    for label in range(3):
        members = rng.permutation(np.flatnonzero(graph["y"].numpy() == label))
        ends = np.round(np.cumsum(rng.dirichlet(np.full(3, 0.05))) * 40)
        owner[members] = np.minimum(np.searchsorted(ends, np.arange(40), side="right"), 2)
    enough = [client for client in range(3) if (owner == client).sum() >= 5]
    assert enough
    if len(enough) == 3:
        assert all(np.array_equal(plain[k], np.flatnonzero(owner == k)) for k in range(3))
    else:
        assert all(len(mine) >= 5 for mine in plain)
