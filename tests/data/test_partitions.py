import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from drawn_graphs import drawn, graphs, same
from extras import METIS, OPENFGL, QUICK, each, present
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter

from fedsim.core.errors import ScenarioError, UserError
from fedsim.data.datasets.digits import Digits
from fedsim.data.datasets.planetoid import Planetoid
from fedsim.data.datasets.synthetic import Synthetic
from fedsim.data.graph import Graph, as_dense, graph_of, induced, sparse_if_worth, take_rows, under
from fedsim.data.graphs.communities import Communities
from fedsim.data.partition import Partition, cut, require, top_up
from fedsim.data.partitions.buckets import Buckets
from fedsim.data.partitions.dirichlet import Dirichlet
from fedsim.data.partitions.louvain import Louvain
from fedsim.data.partitions.metis import Metis
from fedsim.data.partitions.openfgl_louvain import OpenfglLouvain, _cut_long
from fedsim.data.partitions.random import Random

Made = Callable[[], Partition]
EVERY = each(Random, Louvain, QUICK, Metis, partial(Dirichlet, least=1), partial(Dirichlet, alpha=0.01, least=1))


@pytest.fixture(scope="module")
def digits() -> Graph:
    return Digits().load(Path(), 0)


@pytest.mark.parametrize("make", EVERY)
@given(graph=graphs, clients=st.integers(1, 12), seed=st.integers(0, 99))
@settings(max_examples=25, deadline=None)
def test_every_node_has_one_owner_and_no_client_is_empty(make: Made, graph: Graph, clients: int, seed: int) -> None:
    partition = make()
    if clients > len(graph["y"]):
        with pytest.raises(UserError, match=r"clients\.count"):
            partition.assign(graph, clients, np.random.default_rng(seed))
        return
    own = partition.assign(graph, clients, np.random.default_rng(seed))
    assert len(own) == clients
    assert all(len(mine) for mine in own)
    assert sorted(np.concatenate(own)) == list(range(len(graph["y"])))
    assert all(mine.dtype == np.int64 for mine in own)


@OPENFGL
@given(graph=graphs, clients=st.integers(1, 6), delta=st.integers(0, 3), scan=st.sampled_from(["argmin", "official"]))
@settings(max_examples=60, deadline=None)
def test_openfgl_covers_every_node_or_says_who_would_be_empty(
    graph: Graph, clients: int, delta: int, scan: Any
) -> None:
    partition, nodes = OpenfglLouvain(delta=delta, scan=scan), len(graph["y"])
    if nodes // clients <= delta:
        with pytest.raises(UserError, match=r"data\.partition\.delta|clients\.count"):
            partition.assign(graph, clients, np.random.default_rng(0))
        return
    groups = _cut_long(partition._communities(graph), nodes // clients - delta)
    assert max(map(len, groups)) <= nodes // clients - delta
    if all(partition._deal(groups, clients, nodes // clients)):
        own = partition.assign(graph, clients, np.random.default_rng(0))
        assert sorted(np.concatenate(own)) == list(range(nodes))
    else:
        with pytest.raises(UserError, match="without nodes"):
            partition.assign(graph, clients, np.random.default_rng(0))


@OPENFGL
def test_openfgl_takes_a_graph_without_edges() -> None:
    graph = drawn(12, 2, 0, edges=0)
    assert [len(mine) for mine in OpenfglLouvain(delta=1).assign(graph, 3, np.random.default_rng(0))] == [4, 4, 4]


@pytest.mark.parametrize("make", each(Random, Louvain, QUICK, Metis, Dirichlet, OpenfglLouvain))
def test_one_seed_gives_one_partition(make: Made, digits: Graph) -> None:
    first, again = (make().assign(digits, 9, np.random.default_rng(4)) for _ in range(2))
    assert all(np.array_equal(*pair) for pair in zip(first, again, strict=True))


@pytest.mark.parametrize("make", EVERY)
def test_more_clients_than_nodes_name_the_key(make: Made) -> None:
    with pytest.raises(ScenarioError, match=r"^clients\.count: 9 clients .* 8 nodes; take at most 8"):
        make().assign(drawn(8, 2, 0), 9, np.random.default_rng(0))


def test_as_many_clients_as_nodes_get_one_each() -> None:
    for partition in (*present(Random, Louvain, Metis), Dirichlet(least=1)):
        own = partition.assign(drawn(8, 2, 0), 8, np.random.default_rng(0))
        assert [len(mine) for mine in own] == [1] * 8


@given(graph=graphs, clients=st.integers(1, 5), seed=st.integers(0, 99), keep=st.integers(5, 60))
@settings(max_examples=60, deadline=None)
def test_cut_is_the_induced_subgraph_of_each(graph: Graph, clients: int, seed: int, keep: int) -> None:
    order = np.random.default_rng(seed).permutation(len(graph["y"]))[:keep]
    own = np.array_split(order, clients)
    for mine, part in zip(own, cut(graph, own), strict=True):
        assert same(part, induced(graph, mine))


def test_cut_keeps_the_order_given() -> None:
    path = graph_of(torch.arange(4.0)[:, None], torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]), torch.tensor([5, 6, 7, 8]))
    first, second = cut(path, [np.array([2, 1]), np.array([3])])
    assert first["y"].tolist() == [7, 6]
    assert first["edges"].tolist() == [[1, 0], [0, 1]]
    assert second["edges"].shape == (2, 0)


def test_cut_refuses_empty_clients_and_two_owners() -> None:
    graph = drawn(6, 2, 0)
    with pytest.raises(ValueError, match="client 1 has no node"):
        cut(graph, [np.array([0]), np.array([], dtype=np.int64)])
    with pytest.raises(ValueError, match="two owners"):
        cut(graph, [np.array([0, 1]), np.array([1])])


@given(graph=graphs, seed=st.integers(0, 99), length=st.integers(0, 60))
@settings(deadline=None)
def test_rows_and_subgraphs_of_sparse_features_equal_those_of_dense(graph: Graph, seed: int, length: int) -> None:
    rows = np.random.default_rng(seed).permutation(len(graph["y"]))[:length]
    dense = Graph(**{**graph, "x": graph["x"].to_dense()})
    assert torch.equal(take_rows(graph["x"], torch.from_numpy(rows)).to_dense(), dense["x"][rows])
    assert same(induced(graph, rows), induced(dense, rows))


@pytest.mark.parametrize("order", ["sd", "ds", "ss", "dd"])
def test_features_that_stand_below_one_another_may_be_sparse_and_dense(order):
    x = torch.eye(4)[:, :3]
    stacked = under([sparse_if_worth(x, below=1.0, wide=0) if kind == "s" else x for kind in order])
    assert torch.equal(as_dense(stacked), torch.cat([x, x]))
    assert (stacked.layout == torch.sparse_csr) == (order == "ss")


def test_louvain_keeps_more_edges_than_chance_and_balances(digits: Graph) -> None:
    def kept(partition: Partition) -> float:
        own = partition.assign(digits, 10, np.random.default_rng(0))
        assert max(map(len, own)) - min(map(len, own)) <= 1797 // 10
        return sum(part["edges"].shape[1] for part in cut(digits, own)) / digits["edges"].shape[1]

    assert kept(Random()) == pytest.approx(0.1, abs=0.03)
    assert all(kept(partition) > 0.7 for partition in present(Louvain, Metis))


def modularity(graph: Graph, member: np.ndarray, resolution: float) -> float:
    source, target = member[graph["edges"].numpy()]
    share = np.bincount(source) / len(source)  # of the ends of edges, by community
    return float((source == target).mean() - resolution * (share**2).sum())


@OPENFGL
@pytest.mark.parametrize("resolution", [1.0, 2.0])
@pytest.mark.parametrize("nodes", [None, 1000, 4000])
def test_both_packages_find_communities_as_good(digits: Graph, nodes: int | None, resolution: float) -> None:
    graph = Synthetic(nodes=nodes, degree=6.0, features=2).load(Path(), 0) if nodes else digits
    slow, quick = (
        [Communities(resolution, package).communities(graph, np.random.default_rng(seed)) for seed in range(3)]
        for package in ("python-louvain", "scikit-network")
    )
    reached, found = (np.mean([modularity(graph, one, resolution) for one in every]) for every in (slow, quick))
    assert found > reached - 0.01
    assert any(not np.array_equal(quick[0], other) for other in quick[1:])  # the order of visits follows the seed


@OPENFGL
def test_a_node_without_an_edge_is_its_own_community_in_both_packages() -> None:
    graph = graph_of(torch.ones(5, 1), torch.tensor([[1, 3], [3, 1]]), torch.zeros(5))
    for package in ("python-louvain", "scikit-network"):
        member = Communities(package=package).communities(graph, np.random.default_rng(0))
        assert member[1] == member[3]
        assert sorted(np.unique(member, return_counts=True)[1]) == [1, 1, 1, 2]
        assert set(member) == set(range(4))


def test_louvain_finds_two_cliques() -> None:
    clique = torch.combinations(torch.arange(6)).T
    one_way = torch.cat([clique, clique + 6], dim=1)
    graph = graph_of(torch.ones(12, 1), torch.cat([one_way, one_way.flip(0)], dim=1), torch.zeros(12))
    for partition in present(Louvain, Metis, OpenfglLouvain):
        own = (OpenfglLouvain(delta=0) if isinstance(partition, OpenfglLouvain) else partition).assign(
            graph, 2, np.random.default_rng(0)
        )
        assert sorted(sorted(mine.tolist()) for mine in own) == [list(range(6)), list(range(6, 12))]


def test_dirichlet_is_skewed_by_a_small_alpha_and_even_by_a_large_one(digits: Graph) -> None:
    def largest_share(alpha: float) -> float:
        own = Dirichlet(alpha=alpha).assign(digits, 5, np.random.default_rng(1))
        table = np.stack([np.bincount(digits["y"][mine], minlength=10) for mine in own])
        return float((table.max(axis=0) / table.sum(axis=0)).mean())

    assert largest_share(1000.0) < 0.25
    assert largest_share(0.05) > 0.75


@given(graph=graphs, alpha=st.floats(0.001, 100), least=st.integers(1, 6), clients=st.integers(1, 9))
@settings(deadline=None)
def test_dirichlet_gives_every_client_the_least(graph: Graph, alpha: float, least: int, clients: int) -> None:
    partition = Dirichlet(alpha=alpha, least=least)
    if least * clients > len(graph["y"]):
        with pytest.raises(UserError, match=r"clients\.count"):
            partition.assign(graph, clients, np.random.default_rng(0))
    else:
        assert min(map(len, partition.assign(graph, clients, np.random.default_rng(0)))) >= least


def test_top_up_takes_from_the_largest_only() -> None:
    owner = top_up(np.array([0] * 8 + [1] * 3), 3, 2, np.random.default_rng(0))
    assert np.bincount(owner).tolist() == [6, 3, 2]


def test_require_counts_the_least() -> None:
    require(20, 4, 5)
    with pytest.raises(UserError, match="at most 3 clients"):
        require(19, 4, 5)


@pytest.mark.parametrize("alpha", [0.0, -1.0, float("nan")])
def test_dirichlet_refuses_a_concentration_without_meaning(alpha: float) -> None:
    with pytest.raises(ValueError, match="alpha"):
        TypeAdapter(Dirichlet).validate_python({"alpha": alpha})


@OPENFGL
def test_openfgl_needs_shares_above_delta(digits: Graph) -> None:
    with pytest.raises(UserError, match=r"data\.partition\.delta: 100 clients have 17 nodes"):
        OpenfglLouvain().assign(digits, 100, np.random.default_rng(0))


@pytest.mark.parametrize(
    ("kind", "module", "extra"),
    [
        (Metis, "pymetis", "metis"),
        (OpenfglLouvain, "sknetwork.clustering", "openfgl"),
        (QUICK, "sknetwork.clustering", "openfgl"),
        (partial(Buckets, package="scikit-network"), "sknetwork.clustering", "openfgl"),
    ],
)
def test_a_partition_names_the_extra_when_its_package_is_missing(
    kind: Made, module: str, extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ValueError, match=rf'pip install "fedgraphsim\[{extra}\]".*, or take the partition \'louvain\''):
        kind()


def test_openfgl_deals_groups_by_hand() -> None:
    # Share 10, delta 2: the first client takes 8 and is not full; 8 + 5 and 8 + 4 reach 12, so both go elsewhere.
    groups = [list(range(8)), list(range(8, 13)), list(range(13, 17)), [17, 18, 19]]
    own = OpenfglLouvain(delta=2)._deal(groups, 2, 10)
    assert own == [[*range(8), 17, 18, 19], list(range(8, 17))]


def test_openfgl_scans_differ_where_a_group_fits_nowhere() -> None:
    # The original compares the size at the pointer that it has just moved, and then moves it to the loop's index.
    assert OpenfglLouvain(scan="argmin")._forced([3, 9, 1], 1) == 2
    assert OpenfglLouvain(scan="official")._forced([3, 9, 1], 1) == 1
    assert OpenfglLouvain(scan="official")._forced([9, 8, 3], 2) == 0


CORA = [[80, 175, 343, 110, 74, 62, 58], [180, 20, 25, 341, 115, 134, 85], [91, 22, 50, 367, 237, 102, 37]]
CITESEER = [[59, 87, 328, 172, 295, 163], [72, 239, 198, 263, 189, 153], [133, 264, 142, 266, 112, 192]]


@OPENFGL
@pytest.mark.data
@pytest.mark.parametrize("scan", ["argmin", "official"])
@pytest.mark.parametrize(("name", "table"), [("Cora", CORA), ("CiteSeer", CITESEER)], ids=["Cora", "CiteSeer"])
def test_openfgl_louvain_cuts_as_the_benchmark_did(
    data_root: Path, cached_home: Path, name: Any, table: list[list[int]], scan: Any
) -> None:
    if not (data_root / name / "raw").is_dir():
        pytest.skip(f"FEDSIM_DATA has no {name}")
    graph = Planetoid(name).load(data_root, 0)
    own = OpenfglLouvain(scan=scan).assign(graph, 3, np.random.default_rng(0))
    assert [np.bincount(graph["y"][mine], minlength=len(table[0])).tolist() for mine in own] == table


@METIS
@pytest.mark.data
def test_louvain_and_metis_cut_cora_into_compact_parts(data_root: Path, cached_home: Path) -> None:
    cora = Planetoid("Cora").load(data_root, 0)
    for partition in (Louvain(), Metis()):
        parts = cut(cora, partition.assign(cora, 10, np.random.default_rng(0)))
        assert sum(part["edges"].shape[1] for part in parts) > 0.8 * 10556
