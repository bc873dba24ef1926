"""HierFAVG with one edge round and everybody is FedAvg, trained for real; so is one round of equal peers."""

import pytest
import small_points
import torch

from fedsim.core.record import Recorder
from fedsim.learn.engine import tree
from fedsim.point.build.assemble import build

pytestmark = pytest.mark.long

TREE = {"name": "tree", "edges": 2, "uplink": "50 Mbit/s", "downlink": "50 Mbit/s", "latency": "5 ms"}
EVERYBODY = {"rounds": 3, "participation": 1.0}


def trained(tmp_path, **changes):
    built = build(small_points.scenario(data__stream={"name": "static"}, **changes), tmp_path, Recorder())
    built.world.env.run(until=built.done)
    return built


def server_model(built):
    return built.world.server.state.value["model"]


@pytest.mark.parametrize("algorithm", ["fedavg", "fedprox"])
def test_two_tiers_are_plain_averaging(algorithm, tmp_path):
    flat = trained(tmp_path, algorithm=algorithm, protocol={"name": "sync", **EVERYBODY})
    tiers = trained(
        tmp_path, algorithm=algorithm, protocol={"name": "hierarchical", **EVERYBODY}, network__topology=TREE
    )
    pairs = zip(tree.leaves(server_model(flat)), tree.leaves(server_model(tiers)), strict=True)
    for one, other in pairs:
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-6)


def test_the_peer_that_is_last_has_the_mean_of_all_models(tmp_path):
    # it trains longest, so that everybody's share is there when it mixes
    peers = trained(
        tmp_path,
        protocol={"name": "gossip", "rounds": 1},
        network__topology={"name": "peers", "graph": "erdos_renyi", "p": 1.0},
        clients__speed="10 MFLOP/s",
        network__uplink="1 Gbit/s",
    )
    clients = peers.world.clients
    memories = [peers.learner.clients[client].memory for client in clients]
    mean = tree.mean([memory["local"] for memory in memories], [1.0] * len(clients))
    off = [
        max(
            float((one - other).abs().max())
            for one, other in zip(tree.leaves(state.value["model"]), tree.leaves(mean), strict=True)
        )
        for state in clients.states.values()
    ]
    assert min(off) < 1e-6
    assert max(off) < 1
