"""FedOpt: its three optimisers by hand, FedAvg as a limit, and what it does to learning on skewed labels."""

import math

import pytest
import torch
from camps import community, gap, rounds
from contexts import within
from learnlab import drawn_task
from pydantic import TypeAdapter

from algorithms.fed_opt import FedOpt
from algorithms.fedavg import FedAvg
from fedsim.learn.engine import tree
from fedsim.learn.models.gcn import GCN

ASKED = [[0, 1, 2], [0, 2], [1]]


def made(of=FedOpt, **options):
    task = drawn_task(GCN(hidden=8, dropout=0.0), 20, 4)
    return within(of(**options), task, local_steps=3, momentum=0.0)


def graphs():
    return {c: community([0, 1, 2, 3] if c else [3, 0, 1, 2], c, n=24 + 8 * c) for c in range(3)}


def by_hand(server, changes, lr=0.1, b1=0.9, b2=0.99, tau=1e-3):
    """One coordinate that starts at 0, after updates of these sizes."""
    w, m, v = 0.0, 0.0, tau**2
    for change in changes:
        m = b1 * m + (1 - b1) * change
        square = change**2
        v = {
            "adagrad": v + square,
            "yogi": v - (1 - b2) * square * math.copysign(1.0, v - square),
            "adam": b2 * v + (1 - b2) * square,
        }[server]
        w += lr * m / (math.sqrt(v) + tau)
    return w


@pytest.mark.parametrize(
    ("server", "given", "b1"),
    [("adam", None, 0.9), ("yogi", None, 0.9), ("adagrad", None, 0.0), ("adagrad", 0.5, 0.5), ("adam", 0.0, 0.0)],
)
def test_three_updates_by_hand(server, given, b1, monkeypatch):
    changes = iter([0.5, -0.2, 1e-5])
    algorithm = made(server=server, server_lr=0.1, beta_1=given)
    monkeypatch.setattr(FedOpt, "aggregate", lambda self, replies: {"w": torch.tensor([next(changes)])})
    state = {"model": {"w": torch.zeros(1)}, "mean": {"w": torch.zeros(1)}, "squares": {"w": torch.full((1,), 1e-6)}}
    for _ in range(3):
        state = algorithm.update(state, [], "train")
    assert state["model"]["w"].item() == pytest.approx(by_hand(server, [0.5, -0.2, 1e-5], b1=b1), rel=1e-5)


def test_with_a_large_tau_and_no_momentum_it_is_fedavg():
    """η m / (√v + τ) is Δ where η = 2τ, τ is far above all updates and β₁ is 0: √v is τ then."""
    plain, _, _ = rounds(made(FedAvg), graphs(), ASKED)
    found, _, _ = rounds(made(server="adagrad", server_lr=2e4, tau=1e4, beta_1=0.0), graphs(), ASKED)
    assert gap(found["model"], plain["model"]) < 1e-3
    adaptive, _, _ = rounds(made(), graphs(), ASKED)
    assert gap(adaptive["model"], plain["model"]) > 1e-2


def test_moments_start_as_printed():
    state = made(tau=0.1).start()
    assert gap(state["mean"], tree.scale(state["model"], 0.0)) == 0
    assert all(leaf.numpy() == pytest.approx(0.01) for leaf in tree.leaves(state["squares"]))


@pytest.mark.parametrize("options", [{"server_lr": 0}, {"tau": -1}, {"beta_1": 1}, {"beta_2": 1.5}, {"tau": math.inf}])
def test_constants_out_of_range_are_refused(options):
    with pytest.raises(ValueError, match=next(iter(options))):
        TypeAdapter(FedOpt).validate_python(options)
