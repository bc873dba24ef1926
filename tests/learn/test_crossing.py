"""Links between clients, scored by the server with both ends' embeddings."""

import numpy as np
import pytest
import small_points
import torch
from metrics_by_name import built
from sklearn.metrics import average_precision_score

from fedsim.core.errors import ScenarioError
from fedsim.data.graph import Graph, graph_of
from fedsim.data.time.temporal import Overview
from fedsim.learner.scoring.splits import across as crossing


def world(nodes=60, clients=3, seed=0):
    rng = np.random.default_rng(seed)
    ends = rng.integers(0, nodes, (2, 150))
    ends = ends[:, ends[0] != ends[1]]
    edges = torch.from_numpy(np.concatenate([ends, ends[::-1]], axis=1))
    snapshot = graph_of(torch.zeros(nodes, 1), edges, torch.zeros(nodes, dtype=torch.long))
    snapshot = Graph(**{**snapshot, "changed": torch.ones(nodes, dtype=torch.bool)})
    owner = rng.integers(-1, clients, nodes)
    return Overview([snapshot, snapshot], [owner, owner]), edges, owner


def scored(overview, owner, output, period=1):
    """The union of two periods' graphs, clients one after the other; embeddings by global number."""
    node = torch.cat([torch.from_numpy(np.flatnonzero(owner == client)) for client in range(3)])
    graph = Graph(node=node.repeat(2), period=torch.tensor([0, 1]).repeat_interleave(len(node)))
    rows = torch.cat([torch.zeros(len(node), output.shape[1]), output[node]])
    return crossing.scores(rows, graph, overview, period, 5, built("average_precision", "accuracy"))


def test_every_cut_edge_is_asked_once_and_random_embeddings_find_half():
    overview, edges, owner = world()
    values, weight = scored(overview, owner, torch.randn(60, 8, generator=torch.Generator().manual_seed(1)))
    (source, target), owners = edges, torch.from_numpy(owner)
    cut = (owners[source] != owners[target]) & (owners[source] >= 0) & (owners[target] >= 0)
    assert weight == 2 * len({tuple(sorted(pair)) for pair in edges[:, cut].T.tolist()})
    assert 0.35 < values["average_precision"] < 0.65


def test_the_scores_are_those_of_the_pairs_that_are_asked(monkeypatch):
    overview, _, owner = world(seed=3)
    output = torch.randn(60, 4, generator=torch.Generator().manual_seed(2))
    seen = []
    across = crossing.pairs.across
    monkeypatch.setattr(crossing.pairs, "across", lambda *given: seen.append(across(*given)) or seen[-1])
    values, weight = scored(overview, owner, output)
    pairs, there = seen[0]
    products = (output[pairs[0]] * output[pairs[1]]).sum(1)
    assert weight == len(there)
    assert abs(values["average_precision"] - average_precision_score(there, products)) < 1e-6
    assert abs(values["accuracy"] - float(((products > 0) == there).float().mean())) < 1e-6


def test_pairs_are_the_same_each_time_and_there_are_none_without_owners():
    overview, _, owner = world(seed=4)
    output = torch.randn(60, 4, generator=torch.Generator().manual_seed(2))
    assert scored(overview, owner, output) == scored(overview, owner, output)
    nothing, weight = scored(overview, np.zeros(60, dtype=np.int64) - 1, output)
    assert (nothing, weight) == ({}, 0)


DYNAMIC = {
    "data__dataset": {"name": "drifting", "nodes": 120, "edges": 360, "classes": 3, "snapshots": 4, "features": 4},
    "data__stream": {"name": "snapshots", "steps": 4, "every": "1 updates", "scored": "links"},
    "task": "link_prediction",
    "model": {"name": "roland", "hidden": 4, "norm": "sum"},
    "algorithm": {"name": "dg_colearn", "rounds": 1},
    "protocol": {"name": "sync", "rounds": 2, "participation": 1.0},
}
MEASURE = {"metrics": ["average_precision", "mrr"], "splits": ["test", "across"]}


def test_a_run_has_rows_of_the_server_for_what_the_cut_took(tmp_path):
    small_points.run_in(tmp_path / "point", **DYNAMIC, measure=MEASURE)
    scores = small_points.table(tmp_path / "point", "scores")
    rows = [row for row in scores if row["split"] == "across"]
    assert {row["client"] for row in rows} == {-1}
    assert {row["metric"] for row in rows} == {"average_precision"}
    assert {row["period"] for row in rows} == {0, 1}
    assert all(0 < row["value"] <= 1 and row["weight"] > 0 for row in rows)
    assert {row["client"] for row in scores if row["split"] == "test"} == {*range(-1, 5)}


def test_the_summary_needs_a_split_of_clients(tmp_path):
    with pytest.raises(ScenarioError, match=r"measure\.splits: 'across' has no score per client"):
        small_points.run_in(tmp_path / "point", **DYNAMIC, measure={"metrics": ["auc"], "splits": ["across"]})


def test_nothing_is_between_clients_where_nodes_are_classified(tmp_path):
    with pytest.raises(ScenarioError, match=r"measure\.splits: 'across' scores links between clients"):
        small_points.run_in(tmp_path / "point", measure={"splits": ["across"]})
