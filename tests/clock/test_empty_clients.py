"""Clients whose share of a small graph holds no node for a while: a point of them ends as any other."""

import pytest
import small_points

pytestmark = pytest.mark.long

DATA = {"name": "synthetic", "nodes": 60, "classes": 4, "features": 5, "degree": 4.0}
ALGORITHMS = [
    {"name": "power", "rebuild_steps": 1}, "fed_pub", {"name": "fed_sd2c", "latent_steps": 1, "server_epochs": 1},
    "fgssl", "fed_tad", "fed_ego", "fedavg",
]  # fmt: skip


@pytest.mark.parametrize("algorithm", ALGORITHMS, ids=lambda part: part["name"] if isinstance(part, dict) else part)
def test_clients_without_nodes_are_asked_like_others(algorithm, tmp_path):
    protocol = {"name": "sync", "rounds": 1, "participation": 1.0}
    row = small_points.run_in(
        tmp_path / "point", algorithm=algorithm, data__dataset=DATA, clients__count=30, protocol=protocol
    )
    assert row["status"] == "done"
