"""Where a function forgets a device, a point on the pretended GPU shows it."""

import pytest
import torch
from forgotten_device import forgotten, mentions
from gpu_points import FEW, LINKS, TWICE, learned
from pretended_gpu import MixedError, pretended_gpu

from algorithms.fed_tad import FedTAD
from fedsim.data import graph
from fedsim.learn.engine import ops
from fedsim.learn.pairs import links
from fedsim.learn.task import Task
from fedsim.learner.gaussian_mechanism import GaussianMechanism
from fedsim.learner.scoring.scoring import Scoring
from fedsim.point.build import prepared

TAD = {"name": "fed_tad", "nodes": 12, "iterations": 1, "model_steps": 2, "walk": 2}
FUNCTIONS = {
    "the model": (Task.drawn, FEW),
    "data": (graph.to_device, FEW),
    "dropout": (ops.dropout, {**FEW, "model": {"name": "gcn", "hidden": 4, "dropout": 0.5}}),
    "subgraphs": (graph.induced, {**TWICE, "algorithm": {"name": "dg_colearn", "rounds": 2, "exchange": "none"}}),
    "links": (links._derive, LINKS),
    "noise": (GaussianMechanism.release, {**FEW, "privacy": {"clip": 0.5, "noise": 0.3}}),
    "what a server draws": (FedTAD.distil, {**FEW, "algorithm": TAD}),
    "scores": (Scoring._score_rows, FEW),
}


@pytest.fixture(autouse=True)
def anew():
    """Data that a forgetful function has made are for no other test."""
    prepared.periods_of.cache_clear()
    yield
    prepared.periods_of.cache_clear()


@pytest.mark.parametrize("name", FUNCTIONS)
def test_it_shows(name):
    function, changes = FUNCTIONS[name]
    assert mentions(function) > 0
    with forgotten(function), pretended_gpu(), pytest.raises((MixedError, TypeError), match=r"cuda|device"):
        learned("cuda", **changes)
    with forgotten(function):
        learned("cpu", **changes)  # where nothing can be mixed it does as before


def one(x):
    return x.to("cpu") + x.new_zeros(3, device=x.device).to(x.device).cpu()


def test_mentions_are_taken_out_one_by_one():
    assert mentions(one) == 3
    with pretended_gpu():
        x = torch.ones(3, device="cuda")
        assert one(x).tolist() == [1, 1, 1]
        for number in (0, 1):  # each of which the other makes up for
            with forgotten(one, number):
                assert one(x).tolist() == [1, 1, 1]
        with forgotten(one, 2), pytest.raises(MixedError):
            one(x)
