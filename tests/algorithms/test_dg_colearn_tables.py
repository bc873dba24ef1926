"""The published tables' scenarios of DG-CoLearn: who has how many clients, and exchanges at a snapshot's end."""

from pathlib import Path

import pytest
import torch

from fedsim.data.graph import csr, graph_of
from fedsim.learn.continual.snapshots import dressed
from fedsim.scenario.parts import find
from fedsim.scenario.text import yaml_file

SCENARIOS = Path(__file__).parents[2] / "scenarios"
IDENTITY = torch.arange(4), torch.arange(3), torch.ones(3), (3, 3)  # rows' starts, columns, values, shape
SMALL = (
    "grid.seed=[0]",
    "grid.data.dataset=[{name: drifting, nodes: 120, edges: 400, growth: 0.2, snapshots: 5}]",
    "data.partition={name: colearn, per_client: 200}",
    "data.stream={name: snapshots, steps: 5, every: 2 updates}",
    "protocol.rounds=5",
    "training.local_steps=1",
    "vary.model=[gcrn_gru]",
)


@pytest.mark.parametrize("table", ["dgcolearn_table1", "dgcolearn_table2"])
def test_only_the_central_baselines_have_one_client(table):
    scenario, _ = yaml_file.load(SCENARIOS / f"{table}.yaml")
    central, shared = set(), set()
    for point in scenario.points():
        algorithm, count = point.scenario.algorithm, point.scenario.clients.count
        kinds = central if count == 1 else shared
        kinds.add((algorithm.options.get("exchange"), algorithm.options.get("retrain"), point.scenario.model.name))
    models = {name for _, _, name in central}
    assert central == {("none", "full", name) for name in models}
    assert {"roland", "evolve_gcn_h", "evolve_gcn_o", "gcrn_gru"} == models
    assert {name for _, _, name in shared} == {"roland"}
    exchanges = {exchange for exchange, _, _ in shared}
    assert exchanges - {None} == {"exact", "paper", "none", "full_graph", "fedgcn"}


def test_sums_take_the_place_of_sparse_features():
    graph = graph_of(csr(*IDENTITY), torch.tensor([[0, 1], [1, 0]]), torch.zeros(3, dtype=torch.long))
    graph["node"] = torch.tensor([4, 7, 9])
    told = {"x": (torch.tensor([7]), torch.tensor([[0.5, 0.25, 0.0]]))}
    seen = dressed({"received": told}, graph)
    assert seen["x"].tolist() == [[1, 0, 0], [0.5, 0.25, 0.0], [0, 0, 1]]
    assert graph["x"].to_dense().tolist() == torch.eye(3).tolist()  # the client's own features stay


@pytest.mark.parametrize("file", ["dgcolearn_same_pairs", "dgcolearn_methods"])
def test_everybody_has_the_same_depth_width_dropout_and_length_of_embeddings(file):
    scenario, _ = yaml_file.load(SCENARIOS / f"{file}.yaml")
    terms, compared = set(), set()
    for point in scenario.points():
        model = find.build("model", point.scenario.model)
        terms.add((model.hidden, model.layers, model.dropout, model.unit))
        compared.add(point.scenario.data.stream.options["compared"])
    assert terms == {(16, 2, 0.0, True)}
    assert compared == ({10} if file == "dgcolearn_same_pairs" else {None})
