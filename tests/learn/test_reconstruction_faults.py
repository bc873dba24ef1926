"""Reconstructions that fail: begun again from another draw, at last marked bad, and skipped by POWER."""

import logging

import pytest
import torch
from contexts import within

from algorithms.power import Power
from fedsim.learn.algorithm import Reply
from fedsim.learn.continual import lbfgs, prototypes
from fedsim.learn.models.gat import GAT
from fedsim.learn.task import bind as bind_task
from fedsim.learn.tasks.node_classification import NodeClassification

FEATURES, CLASSES = 40, 6
SPOILS = {"not finite": torch.nan, "too long": 1e9}


def sent_by(algorithm_seed=0, count=4):
    network = prototypes.encoder(FEATURES, CLASSES, algorithm_seed, "cpu")
    x = torch.rand(count, FEATURES, generator=torch.Generator().manual_seed(1))
    return network, x, prototypes.gradients(network, x, torch.arange(count))


class Faulty:
    """The optimiser, save that the first rows of its first calls come back spoilt: so many, call by call."""

    def __init__(self, value, rows):
        self.value, self.rows, self.starts = value, list(rows), []
        self.minimise = lbfgs.minimise

    def __call__(self, objective, start, iterations, **how):
        x, miss = self.minimise(objective, start, iterations, **how)
        self.starts.append(start.clone())
        x[: self.rows.pop(0)] = self.value
        return x, miss


@pytest.mark.parametrize("value", SPOILS.values(), ids=SPOILS)
def test_a_spoilt_row_is_begun_again_from_new_draws(monkeypatch, value):
    faulty = Faulty(value, [1, 0])
    monkeypatch.setattr(lbfgs, "minimise", faulty)
    network, x, sent = sent_by()
    built = prototypes.rebuild(network, sent, torch.Generator().manual_seed(0), steps=100, restarts=5)
    assert built.restarts == len(faulty.starts[1])
    assert built.restarts % 5 == 0
    assert not (torch.cdist(faulty.starts[0], faulty.starts[1]) == 0).any()
    assert built.good.all()
    assert float((built.x[0] - x[0]).norm() / x[0].norm()) < 1e-2


@pytest.mark.parametrize("value", SPOILS.values(), ids=SPOILS)
@pytest.mark.parametrize("restarts", [0, 2])
def test_where_every_restart_is_spoilt_too_it_is_marked_bad(monkeypatch, value, restarts):
    monkeypatch.setattr(lbfgs, "minimise", Faulty(value, [1, restarts]))
    network, _, sent = sent_by(count=1)
    built = prototypes.rebuild(network, sent, torch.Generator().manual_seed(0), steps=100, restarts=restarts)
    assert built.good.tolist() == [False]
    assert built.restarts == restarts


def replies_of(algorithm, state):
    _, x, _ = sent_by()
    sent = prototypes.gradients(state["encoder"], x, torch.arange(4))
    both = [{"gradients": one, "count": 5} for one in sent]
    return [Reply(0, 0, {}, {"prototypes": both, "period": "0"})]


@pytest.mark.parametrize("preset", ["paper", "official"])
def test_power_skips_what_could_not_be_rebuilt_and_says_so(monkeypatch, caplog, preset):
    monkeypatch.setattr(lbfgs, "minimise", Faulty(torch.nan, [1]))
    task = bind_task(NodeClassification(), GAT(hidden=8), FEATURES, CLASSES, 0, "cpu")
    algorithm = within(Power(preset=preset, restarts=0), task)
    state = algorithm.start()
    with caplog.at_level(logging.WARNING, "algorithms.power"):
        replies = replies_of(algorithm, state)
        new = algorithm.extend_buffer(algorithm.record_trajectories(state, replies), replies)
    if preset == "paper":
        assert (new["y"], new["skipped"], len(new["x"])) == ([1, 2, 3], 1, 3)
        assert "1 skipped" in caplog.text
    else:  # the published code keeps what diverged
        assert (new["y"], new["skipped"], len(new["x"])) == ([0, 1, 2, 3], 0, 4)
        assert "skipped" not in caplog.text
    assert new["known"] == {0: 0}  # what was met is noted all the same
    assert new["met"][0][1].gt(0).tolist() == [True] * 4 + [False] * 2
