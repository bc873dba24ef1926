"""DG-CoLearn: what clients end up with completes the sums of the whole graph; who is sent what, and when."""

from dataclasses import replace

import pytest
import torch
from exchanging import GRAPH, LINEAR, Driven, adjacency

from algorithms.dg_colearn import DGCoLearn
from fedsim.learn import affected, tree
from fedsim.learn.models.roland import Roland

EXCHANGE = {"embed", "correct"}


def roland(norm="sum", **options):
    return Roland(hidden=3, norm=norm, **{**LINEAR, **options})


def gaps(driven, t, norm, exchange="exact"):
    """The largest errors of A X and of the goal for A² X at affected vertices, as clients can complete them."""
    a, local = adjacency(driven, t, norm)
    x = driven.snapshots[t]["x"]
    goal = a @ a @ x
    if exchange == "paper":
        goal = goal - (local - torch.diag(local.diagonal())) @ ((a - local) @ x)
    worst = [0.0, 0.0]
    for client, memory in enumerate(driven.memories):
        near = affected.near(memory["graph"], 2) if driven.algorithm.retrain == "incremental" else slice(None)
        own = memory["graph"]["vertex"][near]
        first, far = (driven.told(client, key, t) for key in ("delta1", "far"))
        seconds = local @ local @ x + local @ first + far
        if len(own):
            worst[0] = max(worst[0], float((local @ x + first - a @ x)[own].abs().max()))
            worst[1] = max(worst[1], float((seconds - goal)[own].abs().max()))
    return worst


@pytest.mark.parametrize("privacy", ["paper", "strict"])
@pytest.mark.parametrize("norm", ["sum", "mean", "sym"])
@pytest.mark.parametrize("retrain", ["incremental", "full"])
def test_clients_can_complete_both_sums_for_all_affected_vertices(privacy, norm, retrain):
    driven = Driven(DGCoLearn(privacy=privacy, retrain=retrain), roland(norm))
    for t in range(len(driven.snapshots)):
        assert driven.round(t)[-1] == "correct"
        assert max(gaps(driven, t, norm)) < 1e-9, t
        assert driven.round(t) == ["train"]
    sizes = [len(upload["ids"]) for t, step, _, _, upload in driven.messages if step == "embed" and t > 0]
    assert (sum(sizes) < 0.8 * 3 * 4 * 60 / 3) == (retrain == "incremental" or privacy == "paper")
