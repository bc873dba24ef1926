from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
import torch
from drawn_graphs import drawn, graphs, names_to_streams, same
from hypothesis import given, settings
from hypothesis import strategies as st

from fedsim.data.datasets.planetoid import Planetoid
from fedsim.data.graph import Graph, classes_of, graph_of
from fedsim.data.graphs.split import SplitOptions, floor_share, official, split, split_all
from fedsim.data.partition import cut
from fedsim.data.partitions.openfgl_louvain import OpenfglLouvain

percent = st.integers(0, 100)


@given(graph=graphs, train=percent, val=percent, seed=st.integers(0, 99))
@settings(deadline=None)
def test_masks_are_disjoint_and_count_as_the_floors_say(graph: Graph, train: int, val: int, seed: int) -> None:
    val = min(val, 100 - train)
    done = split(graph, train / 100, val / 100, np.random.default_rng(seed))
    assert torch.equal(done["train"].int() + done["val"].int() + done["test"].int(), torch.ones(len(done["y"])).int())
    for label in sorted(set(graph["y"].tolist())):
        n = int((graph["y"] == label).sum())
        first, second = int(Fraction(train, 100) * n), int(Fraction(train + val, 100) * n)
        counts = [int((done[name] & (graph["y"] == label)).sum()) for name in ("train", "val", "test")]
        assert counts == [first, second - first, n - second]


@given(train=st.sampled_from([0.2, 0.48, 0.5, 0.6]), n=st.integers(0, 20000))
@settings(deadline=None)
def test_floors_are_the_benchmarks_at_its_own_shares(train: float, n: int) -> None:
    val = {0.2: 0.4, 0.48: 0.32, 0.5: 0.25, 0.6: 0.2}[train]
    assert floor_share(train, n) == int(train * n)
    assert floor_share(train + val, n) == int((train + val) * n)


def test_a_sum_of_shares_just_below_a_whole_number_counts_as_it() -> None:
    assert 0.7 + 0.1 < 0.8
    assert floor_share(0.7 + 0.1, 10) == 8


@given(graph=graphs, seed=st.integers(0, 99))
@settings(deadline=None, max_examples=30)
def test_a_client_can_be_divided_whatever_its_classes(graph: Graph, seed: int) -> None:
    graph["y"][:2] = -1
    (done,) = split_all([graph], SplitOptions(0.2, 0.4, by="client"), names_to_streams(seed))
    n = int((graph["y"] >= 0).sum())
    counts = [int(done[name].sum()) for name in ("train", "val", "test")]
    assert counts == [n * 2 // 10, n * 6 // 10 - n * 2 // 10, n - n * 6 // 10]
    assert not (done["train"] | done["val"] | done["test"])[:2].any()
    assert (done["train"].int() + done["val"].int() + done["test"].int()).max() <= 1


def test_a_rare_class_can_train_only_where_classes_do_not_matter() -> None:
    graph = graph_of(torch.ones(10, 1), torch.zeros(2, 0), torch.arange(10) % 5)
    assert split(graph, 0.2, 0.4, np.random.default_rng(0))["train"].sum() == 0
    drawn_ones = [split(graph, 0.2, 0.4, np.random.default_rng(seed), by="client")["train"] for seed in range(20)]
    assert all(train.sum() == 2 for train in drawn_ones)
    assert torch.stack(drawn_ones).any(0).all()


def test_unlabelled_nodes_are_in_no_mask() -> None:
    graph = graph_of(torch.ones(4, 1), torch.zeros(2, 0), torch.tensor([-1, 0, 0, -1]))
    done = split(graph, 0.5, 0.0, np.random.default_rng(0))
    assert (done["train"] | done["val"] | done["test"]).tolist() == [False, True, True, False]


def test_a_graph_without_nodes_splits_into_nothing() -> None:
    empty = graph_of(torch.ones(0, 1), torch.zeros(2, 0), torch.zeros(0))
    assert split(empty, 0.2, 0.4, np.random.default_rng(0))["train"].shape == (0,)
    assert classes_of([empty]) == 0


def test_a_split_leaves_everything_but_the_masks_alone() -> None:
    graph = drawn(30, 3, 1)
    done = split(graph, 0.2, 0.4, np.random.default_rng(0))
    assert done["x"] is graph["x"]
    assert done["edges"] is graph["edges"]
    assert not graph["test"].any()


def test_a_clients_split_depends_on_the_seed_and_its_number_alone() -> None:
    some = [drawn(40, 3, seed) for seed in range(3)]
    options = SplitOptions(0.3, 0.3)
    all_three = split_all(some, options, names_to_streams(5))
    assert same(all_three[1], split_all([some[2], some[1]], options, names_to_streams(5))[1])
    assert not same(all_three[1], split_all(some, options, names_to_streams(6))[1])


def test_the_official_split_ignores_the_runs_seed() -> None:
    some = [drawn(40, 4, seed) for seed in range(3)]
    one, other = (split_all(some, SplitOptions(numpy_seed=2025), names_to_streams(seed)) for seed in (1, 2))
    assert all(same(*pair) for pair in zip(one, other, strict=True))


def test_the_official_recipe_draws_one_stream_client_by_client() -> None:
    some = [drawn(40, 4, seed) for seed in range(2)]
    done, orders = official(some, 0.2, 0.4, 2, 7)
    stream = np.random.RandomState(7)
    for graph, order in zip(done, orders, strict=True):
        for label in range(4):
            members = [int(v) for v in np.flatnonzero(graph["y"] == label)]
            stream.shuffle(members)
            assert graph["train"][members[: int(0.2 * len(members))]].all()
        groups = [[0, 1], [2, 3]]
        stream.shuffle(groups)
        assert [[0, 1], [2, 3]].index(groups[0]) == order[0]


@pytest.mark.data
def test_the_official_orders_of_cora_are_recovered(data_root: Path, cached_home: Path) -> None:
    pytest.importorskip("sknetwork", reason="scikit-network is not installed")
    cora = Planetoid("Cora").load(data_root, 0)
    parts = cut(cora, OpenfglLouvain().assign(cora, 3, np.random.default_rng(0)))
    done, orders = official(parts, 0.2, 0.4, 2, 2025)
    # Group g holds the classes {2g, 2g + 1}: {4,5} -> {2,3} -> {0,1} twice, then {2,3} -> {0,1} -> {4,5}.
    assert orders == [[2, 1, 0], [2, 1, 0], [1, 0, 2]]
    assert [int(part["train"].sum()) for part in done] == [
        sum(int(0.2 * n) for n in np.bincount(part["y"])) for part in parts
    ]
