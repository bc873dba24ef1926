"""FedDGL on snapshots in which a class loses its edges: what distillation keeps, and what it never reads."""

import pytest
import torch
from vanishing import HIDDEN, bound, recall, stream, through

from algorithms.feddgl import FedDGL
from fedsim.data.graph import with_keys
from fedsim.learn.algorithm import Job
from fedsim.learn.engine import tree
from fedsim.learn.models.evolve_gcn_h import EvolveGCNH
from fedsim.learn.models.evolve_gcn_o import EvolveGCNO

pytestmark = pytest.mark.long

SEEDS, CLIENTS = range(4), 2
MODELS = {
    "evolve_gcn_o": EvolveGCNO(hidden=HIDDEN, unroll=2),
    "evolve_gcn_h": EvolveGCNH(hidden=HIDDEN),
}


def kept(seed, **options):
    """The recall of the class that has lost its edges, and of one that has not."""
    streams = [stream(client, seed) for client in range(CLIENTS)]
    algorithm = bound(FedDGL(epochs=5, batch=50, **{"trained": "present", **options}), seed=seed)
    state, memories, _ = through(algorithm, streams, rounds=10, lr=0.03, seed=seed)
    return [recall(algorithm, state, memories, streams, label) for label in (2, 0)]


@pytest.mark.long
def test_distillation_keeps_what_has_lost_its_edges():
    held = torch.tensor([kept(seed) for seed in SEEDS])
    forgotten = torch.tensor([kept(seed, use_kd=False) for seed in SEEDS])
    assert (held[:, 0] > forgotten[:, 0] + 0.1).all()
    assert float((held - forgotten)[:, 0].mean()) > 0.3
    assert float(held[:, 1].min()) > 0.9
    assert kept(0, use_kd=False, trained="all")[0] > forgotten[0, 0] + 0.25  # who is trained on is not forgotten


def test_sensitive_nodes_are_training_nodes_of_the_class_that_has_gone():
    streams = [stream(client, 0) for client in range(CLIENTS)]
    _, memories, _ = through(bound(FedDGL(epochs=2, topk=0.5, q=2.0)), streams, rounds=3)
    for client, own in enumerate(streams):
        held, now = memories[client]["held"], own[1]
        gone = int((now["train"] & (now["y"] == 2)).sum())
        assert 0 < len(held["y"]) <= -(-gone // 2)
        assert set(held["y"].tolist()) == {2}
        rows = (held["x"].unsqueeze(1) == now["x"]).all(2).nonzero()[:, 1]
        assert len(rows) == len(held["y"])
        assert now["train"][rows].all()
        torch.testing.assert_close(held["target"].norm(dim=1), torch.ones(len(rows)))


def test_the_teacher_is_the_mean_model_of_the_last_round_of_the_period_before():
    streams = [stream(client, 0) for client in range(CLIENTS)]
    algorithm = bound(FedDGL(epochs=2))
    before, _, _ = through(algorithm, [own[:1] for own in streams], rounds=3)
    _, memories, _ = through(algorithm, streams, rounds=3)
    held, old, now = memories[1]["held"], streams[1][0], streams[1][1]
    rows = (held["x"].unsqueeze(1) == now["x"]).all(2).nonzero()[:, 1]
    h = algorithm.task.embed(tree.stack([before["model"]]), old)[rows]
    torch.testing.assert_close(held["target"], h / h.norm(dim=1, keepdim=True), rtol=1e-4, atol=1e-5)


def mislabelled(own):
    """The same snapshots, with other labels wherever a node does not train."""
    return [with_keys(g, {"y": torch.where(g["train"], g["y"], (g["y"] + 1) % 3)}) for g in own]


@pytest.mark.parametrize("options", [{}, {"trained": "present"}, {"active": "changed"}])
def test_no_label_of_validation_or_test_is_ever_read(options):
    streams = [[with_keys(g, {"changed": g["y"] == 0}) for g in stream(client, 1)] for client in range(CLIENTS)]
    algorithm = bound(FedDGL(epochs=3, q=2.0, **options))
    true, memories, history = through(algorithm, streams, rounds=2)
    assert any(len(memory["held"]["y"]) for memory in memories.values())
    false, _, other = through(algorithm, [mislabelled(own) for own in streams], rounds=2)
    uploads = [[reply.upload for reply in replies] for replies in (*history, *other)]
    assert all(torch.equal(a, b) for a, b in zip(tree.leaves(true), tree.leaves(false), strict=True))
    half = len(uploads) // 2
    assert all(torch.equal(a, b) for a, b in zip(tree.leaves(uploads[:half]), tree.leaves(uploads[half:]), strict=True))


@pytest.mark.parametrize("name", MODELS)
def test_other_models_distil_as_well_and_all_at_once_as_one_by_one(name):
    streams = [stream(client, 0) for client in range(CLIENTS)]
    algorithm = bound(FedDGL(epochs=2), MODELS[name])
    state, memories, history = through(algorithm, streams, rounds=2)
    assert {row.upload["prototypes"].shape[1] for replies in history for row in replies} == {HIDDEN}
    assert all(memory["held"]["train"].any() for memory in memories.values())
    loop, _, _ = through(algorithm, streams, rounds=2, batch=False)
    for one, other in zip(tree.leaves(state["model"]), tree.leaves(loop["model"]), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-4)


def first_job(algorithm, own, period, memory):
    return Job(0, "train", period, algorithm.download(algorithm.start(), 0, "train"), own[period], memory, 0)


def test_what_is_billed_beside_training():
    own, algorithm = stream(0, 0), bound(FedDGL())
    job = first_job(algorithm, own, 0, {})
    assert (algorithm.effort(job), algorithm.extra_steps(job)) == (1.0, pytest.approx(1 / 3))
    assert bound(FedDGL(use_gp=False, use_pa=False)).extra_steps(job) == 0
    _, memories, _ = through(algorithm, [own[:1]], rounds=1)
    later = first_job(algorithm, own, 1, memories[0])
    later.download["prototypes"] = torch.zeros(3, HIDDEN)
    assert (algorithm.effort(later), algorithm.extra_steps(later)) == (2.0, pytest.approx(4 / 3))
    assert bound(FedDGL(active="changed")).effort(later) == 4.0
    assert bound(FedDGL(use_kd=False)).extra_steps(later) == pytest.approx(1 / 3)


def test_a_client_without_edges_goes_on_and_tells_of_nothing():
    own = stream(0, 0)
    own[1]["edges"] = own[1]["edges"][:, :0]
    algorithm = bound(FedDGL(epochs=2))
    state, memories, history = through(algorithm, [own, stream(1, 0)], rounds=2)
    assert len(memories[0]["held"]["y"]) > 0
    assert history[-1][0].upload["classes"].tolist() == []
    assert state["votes"][0] == pytest.approx(1e-6)
    assert all(bool(leaf.isfinite().all()) for leaf in tree.leaves(state["model"]))
