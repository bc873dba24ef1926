"""What a round asks of a GPU, counted on the pretended one: operations, copies, and numbers for which the host waits.

Each of these costs the same however small it is, so none may come once a client where a cohort is trained at once.
"""

from pathlib import Path

import pytest
import small_points
from pretended_gpu import pretended_gpu
from small_points import SYNC

from fedsim.core.record import Recorder
from fedsim.point.build.assemble import build

WARM, ROUNDS = 3, 4
SEEDS = "fedsim.learn.engine.optimiser.in_training"  # of dropout, one for each client and step, in one copy
WEIGHTS = "fedsim.learn.engine.rows._product"  # of the clients in the mean
FINITE = "fedsim.learn.engine.rows.finite"  # whether the uploads of a cohort can be averaged


def counts(clients, participation=1.0, warm=WARM, **changes):
    """Return operations a round, and copies and reads by the function that asked for them, in all rounds counted."""
    plain = {
        "clients__count": clients,
        "data__dataset": {"name": "synthetic", "nodes": 20 * clients},
        "data__stream": "static",
        "device": "cuda",
        "measure__every": "1000 updates",
        "protocol": {**SYNC, "rounds": warm + ROUNDS + 1, "participation": participation},
        "training__local_steps": 1,
    }
    scenario = small_points.scenario(**{**plain, **changes})
    with pretended_gpu() as gpu:
        world = build(scenario, Path(__file__).parents[1], Recorder()).world

        def run(until):
            while world.server.version < until:
                world.env.step()

        run(warm)
        before = gpu.operations
        gpu.copies.clear()
        gpu.reads.clear()
        run(warm + ROUNDS)
    return (gpu.operations - before) / ROUNDS, dict(gpu.copies), dict(gpu.reads)


def test_a_plain_round_copies_seeds_and_weights_and_reads_one_number():
    operations, copies, reads = counts(8)
    assert (copies, reads) == ({SEEDS: ROUNDS, WEIGHTS: ROUNDS}, {FINITE: ROUNDS})
    assert counts(24) == (operations, copies, reads)
    assert 100 < operations < 250


def test_local_steps_copy_their_seeds_alone():
    _, copies, reads = counts(8, training__local_steps=3)
    assert (copies, reads) == ({SEEDS: 3 * ROUNDS, WEIGHTS: ROUNDS}, {FINITE: ROUNDS})


@pytest.mark.parametrize("clients", [16, 64])
def test_a_new_cohort_of_clients_that_were_met_is_joined_in_a_few_copies(clients):
    _, copies, reads = counts(clients, participation=0.25, warm=32)
    assert sum(copies.values()) <= 16 * ROUNDS
    assert reads == {FINITE: ROUNDS}


def test_a_module_reads_a_seed_for_each_client_and_one_number_for_all():
    module = {"name": "torch_geometric.nn.GIN", "hidden_channels": 8, "num_layers": 2}
    _, copies, reads = counts(6, model=module)
    assert copies == {SEEDS: 6 * ROUNDS, "fedsim.learn.engine.tree.share": 2 * ROUNDS}  # of parameters, of buffers
    assert reads == {
        "fedsim.learner.client.is_finite": ROUNDS,
        "fedsim.learn.modules.resident._seeded": 6 * ROUNDS,
    }
