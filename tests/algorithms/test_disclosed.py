"""What an algorithm says that others can read of a client is what its uploads hold."""

from typing import get_args

import pytest
import small_points
import torch
from small_points import CHEAPER
from test_contract import ALGORITHMS, tensors

from algorithms.fedavg import FedAvg
from algorithms.fedprox import FedProx
from fedsim.core.record import Recorder
from fedsim.learn.engine.cohort import JobPromise
from fedsim.learn.replies import Disclosed, Readable
from fedsim.point.build.assemble import build
from fedsim.scenario.part import Part
from fedsim.scenario.parts import find

NUMBERED = {"data__stream": {"name": "static", "numbered": True}}  # a stream whose cut edges are known
CUT = {  # what is exchanged over cut edges, which CHEAPER leaves out
    "llcg": NUMBERED,
    "fed_gcn": NUMBERED,
    "dg_colearn": {**NUMBERED, "model": {"name": "roland", "hidden": 6, "layers": 2, "dropout": 0}},
}


def said(name):
    return find.find("algorithm", Part(name=name), name).discloses


def uploads(name, folder, patch):
    """Return the uploads of a small run with its jobs, and the shapes of the model's matrices."""
    seen, fill = [], JobPromise.fill

    def see(self, upload):
        seen.append((self.job, upload))
        fill(self, upload)

    patch.setattr(JobPromise, "fill", see)
    options = {} if name in CUT else CHEAPER.get(name, {})
    sync = {"name": "sync", "rounds": 4, "participation": 1.0}
    scenario = small_points.scenario(algorithm={"name": name, **options}, protocol=sync, **CUT.get(name, {}))
    built = build(scenario, folder, Recorder())
    built.world.env.run(until=built.done)
    return seen, {tuple(each.shape) for each in tensors(built.learner.algorithm.task.init()) if each.ndim == 2}


@pytest.mark.parametrize("name", find.names("algorithm"))
def test_every_shipped_algorithm_says_what_others_can_read(name):
    assert isinstance(said(name), Disclosed)
    assert {*said(name).server, *said(name).clients} <= {*get_args(Readable)}
    assert {*said(name).clients} <= {*said(name).server}, "what reaches other clients goes through the server"


@pytest.mark.parametrize("name", [name for name in ALGORITHMS if name != "local"])
def test_what_it_says_of_models_and_features_is_so(name, tmp_path, monkeypatch):
    seen, matrices = uploads(name, tmp_path, monkeypatch)
    held = set()
    for job, upload in seen:
        arrays = [each for each in tensors(upload) if each.ndim == 2]
        held |= {"updates" for each in arrays if tuple(each.shape) in matrices}
        own = job.data["x"].double()
        wide = [each.double() for each in arrays if each.is_floating_point() and each.shape[1] == own.shape[1]]
        held |= {"features" for each in wide if len(own) and len(each) and torch.cdist(each, own).min() < 1e-9}
    assert seen
    assert held <= {*said(name).server}
    assert ("updates" in held) == ("updates" in said(name).server)
    assert "features" in held or name != "llcg"


def test_who_sends_something_else_says_so_again():
    class Mine(FedAvg):
        def work(self, job):
            return super().work(job)

    assert Mine().discloses is None
    assert FedProx().discloses is FedAvg().discloses
