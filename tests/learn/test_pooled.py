"""All clients' test nodes as one graph, asked of one model."""

import numpy as np
import pytest
import small_points
import torch

from fedsim.core.errors import ScenarioError
from fedsim.data.graph import graph_of, with_masks
from fedsim.data.graphs.split import pooled
from fedsim.data.partition import cut

ONCE = {"data__stream": "static", "protocol": {"name": "one_shot"}}
MEASURE = {"splits": ["pooled", "test"], "metrics": ["accuracy"]}


def both_ways(*pairs):
    ends = torch.tensor(pairs).T
    return torch.cat([ends, ends.flip(0)], dim=1)


def test_by_hand():
    # clients {4, 0, 2} and {1, 3, 5}, in that order; tested are 4 and 2, 1 and 5
    edges = both_ways((0, 1), (1, 2), (2, 4), (2, 5), (3, 4), (4, 5))
    whole = graph_of(torch.arange(6.0).unsqueeze(1), edges, torch.tensor([0, 1, 2, 0, 1, 2]))
    owned = [np.array([4, 0, 2]), np.array([1, 3, 5])]
    tested = [torch.tensor([True, False, True])] * 2
    graphs = [with_masks(g, ~m, torch.zeros_like(m), m) for g, m in zip(cut(whole, owned), tested, strict=True)]
    graph = pooled(whole, owned, graphs)
    assert graph["x"].squeeze(1).tolist() == [1, 2, 4, 5]
    assert graph["y"].tolist() == [1, 2, 1, 2]
    there = {tuple(sorted(pair)) for pair in graph["edges"].T.tolist()}
    assert there == {(0, 1), (1, 2), (1, 3), (2, 3)}  # 1-2, 2-4, 2-5, 4-5: only 2-4 is within a client
    assert graph["edges"].shape[1] == 8
    assert graph["test"].all()
    assert not graph["train"].any()
    trained = torch.cat([one["x"][one["train"]] for one in graphs]).squeeze(1)
    assert not set(trained.tolist()) & set(graph["x"].squeeze(1).tolist())


def scored(tmp_path, **changes):
    row = small_points.run_in(tmp_path / "point", **{**ONCE, "measure": MEASURE, **changes})
    return row, small_points.table(tmp_path / "point", "scores")


def test_a_run_scores_the_servers_model_on_it_and_may_tell_it_first(tmp_path):
    row, scores = scored(tmp_path)
    last = [one for one in scores if one["split"] == "pooled" and one["version"] == 1]
    assert {one["client"] for one in last} == set(range(5))
    assert {(one["value"], one["weight"]) for one in last} == {(row["score"], last[0]["weight"])}
    assert last[0]["weight"] == sum(one["weight"] for one in scores if one["split"] == "test" and one["version"] == 1)


def test_with_one_client_it_is_the_clients_own_test_without_other_neighbours(tmp_path):
    options = {"clients": {"count": 1, "speed": "1 GFLOP/s"}, "data__split": {"train": 0.01, "val": 0, "test": 0.99}}
    options["data__split"]["by"] = "client"
    _, scores = scored(tmp_path, **options)
    values = {one["split"]: (one["value"], one["weight"]) for one in scores if one["version"] == 1}
    assert values["pooled"][1] == values["test"][1] == 159
    assert abs(values["pooled"][0] - values["test"][0]) < 0.05  # one node less


@pytest.mark.parametrize(("algorithm", "one"), [("fed_pub", True), ("fedgta", True), ("local", False)])
def test_where_models_are_personal_it_is_asked_of_the_one_that_the_server_keeps(algorithm, one, tmp_path):
    options = {"name": algorithm, "proxy_blocks": 1} if algorithm == "fed_pub" else algorithm
    measure = {**MEASURE, "models": ["global", "local"]}
    training = {"optimiser": "adam", "lr": 0.05, "local_steps": 6}  # with fewer steps all models may answer alike
    _, scores = scored(tmp_path, algorithm=options, measure=measure, training=training)
    rows = [row for row in scores if row["split"] == "pooled" and row["time"] == scores[-1]["time"]]
    values = {model: {row["value"] for row in rows if row["model"] == model} for model in ("global", "local")}
    assert (len(values["global"]) == 1) == one
    assert len(values["local"]) > 1


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"data__stream": {"name": "class_incremental", "every": "1 updates"}}, "the stream 'static'"),
        ({"measure": {"splits": ["pooled"]}}, "cannot be the only split"),
        ({"data__split": {"train": 0.5, "val": 0.5, "test": 0}, "measure": {"splits": ["pooled", "val"]}}, "a share"),
    ],
)
def test_where_there_is_none_it_is_refused(changes, message, tmp_path):
    with pytest.raises(ScenarioError, match=rf"measure\.splits: 'pooled' .*{message}"):
        scored(tmp_path, **changes)
