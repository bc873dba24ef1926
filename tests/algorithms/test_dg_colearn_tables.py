"""The published tables' scenarios of DG-CoLearn: who has how many clients, and exchanges at a snapshot's end."""

from pathlib import Path

import pytest
import small_points
import torch

from fedsim import scenario_file
from fedsim.data.graph import csr, graph_of
from fedsim.learn.snapshots import dressed
from fedsim.record import Recorder
from fedsim.run import build

SCENARIOS = Path(__file__).parents[2] / "scenarios"
IDENTITY = torch.arange(4), torch.arange(3), torch.ones(3), (3, 3)  # rows' starts, columns, values, shape
SMALL = (
    "grid.seed=[0]",
    "grid.data.dataset=[{name: drifting, vertices: 120, edges: 400, growth: 0.2, snapshots: 5}]",
    "data.partition={name: colearn, per_client: 200}",
    "data.stream={name: snapshots, steps: 5, every: 2 updates}",
    "protocol.rounds=5",
    "training.local_steps=1",
    "vary.model=[gcrn_gru]",
)


@pytest.mark.parametrize("table", ["dgcolearn_table1", "dgcolearn_table2"])
def test_only_the_central_baselines_have_one_client(table):
    scenario, _ = scenario_file.load(SCENARIOS / f"{table}.yaml")
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


@pytest.mark.parametrize("exchange", ["exact", "paper", "layerwise", "fedgcn"])
@pytest.mark.parametrize("privacy", ["paper", "strict"])
def test_an_exchange_that_a_new_snapshot_has_overtaken_brings_no_rows(exchange, privacy, tmp_path):
    told = f"{{name: dg_colearn, exchange: {exchange}, retrain: incremental, schedule: 2, privacy: {privacy}}}"
    scenario, _ = scenario_file.load(SCENARIOS / "dgcolearn_table2.yaml", [*SMALL, f"vary.algorithm=[{told}]"])
    (point,) = (p for p in scenario.points() if p.scenario.algorithm.options.get("schedule") == 2)
    recorder = Recorder()
    world, _, done = build(point.scenario, tmp_path, recorder)
    world.env.run(until=done)
    world.end()
    sent = [row for row in small_points.rows(recorder, "transfers") if row["kind"] == "embed" and row["dst"] < 0]
    by_version = {number: {row["nbytes"] for row in sent if row["version"] == number} for number in range(1, 6)}
    # snapshots come with every second update, so before the exchange that follows it
    assert len(by_version[2] | by_version[4]) == 1  # nothing but names, from everybody
    for number in (1, 3, 5):
        assert max(by_version[number]) > 2 * max(by_version[2])


def test_sums_take_the_place_of_sparse_features():
    graph = graph_of(csr(*IDENTITY), torch.tensor([[0, 1], [1, 0]]), torch.zeros(3, dtype=torch.long))
    graph["vertex"] = torch.tensor([4, 7, 9])
    told = {"x": (torch.tensor([7]), torch.tensor([[0.5, 0.25, 0.0]]))}
    seen = dressed({"told": told}, graph)
    assert seen["x"].tolist() == [[1, 0, 0], [0.5, 0.25, 0.0], [0, 0, 1]]
    assert graph["x"].to_dense().tolist() == torch.eye(3).tolist()  # the client's own features stay
