"""EvolveGCN in a federation: its weights take one step a period, whoever is asked when, in every Dyn baseline."""

import pytest
import torch
from contexts import within
from vanishing import HIDDEN, bound, stream, through

from algorithms.d_fedgnn import DFedGNN
from algorithms.dg_colearn import DGCoLearn
from algorithms.fed_ergnn import FedERGNN
from algorithms.fed_proto import FedProto
from algorithms.fedavg import FedAvg
from algorithms.feddgl import FedDGL
from algorithms.local import Local
from fedsim.learn.algorithm import Job, Reply
from fedsim.learn.engine import tree
from fedsim.learn.engine.cohort import JobQueue
from fedsim.learn.engine.optimiser import Adam
from fedsim.learn.engine.training import Trainer
from fedsim.learn.evolution import evolving
from fedsim.learn.models.evolve_gcn_h import EvolveGCNH
from fedsim.learn.models.evolve_gcn_o import EvolveGCNO
from fedsim.learn.models.gcn import GCN

EVOLVING = EvolveGCNO(hidden=HIDDEN)
DYN = {
    "FedAvg": FedAvg(), "FedProto": FedProto(average=True), "FedProto alone": FedProto(), "Local": Local(),
    "FedDGL": FedDGL(epochs=2), "FedDGL, the mean": FedDGL(epochs=2, use_pa=False), "D-FedGNN": DFedGNN(),
}  # fmt: skip


def same(one, other):
    return all(torch.allclose(a, b, atol=1e-6) for a, b in zip(tree.leaves(one), tree.leaves(other), strict=True))


def turned(model, params, graph):
    return tree.at(model.turn(tree.stack([params]), graph), 0)


def idle(algorithm, streams, periods, rounds=1):
    """Run rounds in which nobody trains (a learning rate of zero), in these periods of the streams."""
    cut = [[own[period] for period in periods] for own in streams]
    return through(algorithm, cut, rounds=rounds, steps=1, lr=0.0)


@pytest.mark.parametrize("model", [EVOLVING, EvolveGCNH(hidden=HIDDEN)], ids=["O", "H"])
@pytest.mark.parametrize("name", DYN)
def test_the_weights_take_one_step_a_period_by_the_graph_of_the_last(name, model):
    own = [stream(0, 0, periods=3)]
    algorithm = evolving(bound(DYN[name], model))
    start = algorithm.task.init()
    once = turned(model, start, own[0][0])
    twice = turned(model, once, own[0][1])
    assert not same(start, once)
    for periods, expected in (((0,), start), ((0, 1), once), ((0, 1, 2), twice)):
        state, memories, _ = idle(algorithm, own, periods, rounds=3)
        assert same(memories[0]["local"], expected)
        assert same(algorithm.personal(state, 0, memories[0]), expected)


def test_who_is_asked_later_in_a_period_does_not_turn_the_model_again():
    algorithm = evolving(bound(FedAvg(), EVOLVING))
    own = [stream(client, 0) for client in range(2)]
    state, memories, _ = idle(algorithm, own, (0,))
    jobs = JobQueue(algorithm, Trainer(Adam(0.0), 1))
    for client in range(2):  # one round each, one after the other, in the second period
        download = algorithm.download(state, client, "train")
        job = Job(client, "train", 1, download, own[client][1], dict(memories[client]), client)
        upload = jobs.submit(job).value()
        assert upload["turned"] == 1
        state = algorithm.update(state, [Reply(client, 0, download, upload)], "train")
        assert state["turned"] == 1
    assert same(state["model"], turned(EVOLVING, algorithm.task.init(), own[0][0]))


def test_models_of_fixed_weights_travel_without_a_period():
    algorithm = evolving(bound(FedAvg(), GCN(hidden=HIDDEN)))
    state, memories, history = idle(algorithm, [stream(0, 0)], (0, 1))
    assert set(state) == {"model"}
    assert set(algorithm.download(state, 0, "train")) == {"model"}
    assert set(history[0][0].upload) == {"update", "samples"}
    assert set(memories[0]) <= {"local", "model"} | {key for key in memories[0] if "model" in key}


@pytest.mark.parametrize("kind", [FedERGNN, DGCoLearn])
def test_who_works_in_its_own_way_is_left_alone(kind):
    algorithm = within(kind(), bound(FedAvg(), EVOLVING).task)
    assert evolving(algorithm) is algorithm


def test_feddgl_is_scored_by_the_mixed_model():
    own = [stream(client, 0, periods=1) for client in range(2)]
    algorithm = bound(FedDGL(epochs=2))
    state, memories, _ = through(algorithm, own, rounds=2)
    assert same(algorithm.personal(state, 0, memories[0]), algorithm.predictor(state, 0, memories[0]))
    assert not same(algorithm.personal(state, 0, memories[0]), memories[0]["local"])
