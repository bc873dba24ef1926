"""FedDGL and FedProto on snapshots of a graph that drifts, with weights that evolve, under every protocol."""

import math

import pytest
import small_points
from test_contract import PROTOCOLS, TOPOLOGIES

ALGORITHMS = {
    "feddgl": {"name": "feddgl", "epochs": 3, "topk": 0.5},
    "feddgl by margins": {"name": "feddgl", "epochs": 3, "prototypes": "margin", "weigh": "softmax", "reduce": "sum"},
    "fed_proto": {"name": "fed_proto", "average": True},
}
DRIFTING = {"name": "drifting", "nodes": 150, "edges": 200, "classes": 4, "features": 8, "snapshots": 5}
STREAM = {"name": "snapshots", "steps": 5, "scored": "split", "every": "1 updates"}


@pytest.mark.long
@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_it_runs_to_its_end_and_its_scores_are_numbers(algorithm, protocol, tmp_path):
    row = small_points.run_in(
        tmp_path / "run",
        algorithm=ALGORITHMS[algorithm],
        protocol=PROTOCOLS[protocol],
        network__topology=TOPOLOGIES.get(protocol, {"name": "star"}),
        model={"name": "evolve_gcn_o", "hidden": 6, "unroll": 2},
        data__dataset={**DRIFTING, "removal": 0.5},
        data__stream=STREAM,
        clients__count=4,
        clients__speed="1 GFLOP/s",
        training={"optimiser": "adam", "lr": 0.02, "local_steps": 2, "weight_decay": 1e-4},
    )
    scores = small_points.table(tmp_path / "run", "scores")
    assert {score["model"] for score in scores} == {"global", "local"}
    assert all(math.isfinite(score["value"]) and 0 <= score["value"] <= 1 for score in scores)
    assert max(score["seen"] for score in scores) > (0 if protocol.startswith("one_shot") else 1)
    assert (row["bytes_up"] == 0) is (protocol == "isolated")
