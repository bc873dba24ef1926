"""The algorithms that come with fedsim are tried too; test_contract.py runs whole points of each."""

import pytest

from fedsim.scenario.part import Part
from fedsim.scenario.parts import find
from fedsim.trial import command, promises, protocols, resumed
from fedsim.trial.stage import accepted
from fedsim.trial.trial import Trial

ALGORITHMS = [name for name in find.names("algorithm") if find.find("algorithm", Part(name=name), name).learns]
# What makes a trial short; an algorithm that is not here is tried with its defaults.
CHEAPER = {
    "power": ["rebuild_steps=8"],
    "fed_dslr": ["structure_steps=6"],
    "fedsage_plus": ["generator_epochs=2", "encoder=6", "latent=5", "narrow=6", "wide=8"],
    "fed_pub": ["proxy_blocks=1"],
    "feddgl": ["epochs=4"],
    "ghost": ["repeats=1", "server_steps=2"],
    "target": ["rounds=2", "inner_steps=1", "batch=8", "warm_up=1", "student_steps=1", "noise=4"],
    "lander": ["rounds=3", "inner_steps=1", "batch=8", "warm_up=2", "student_steps=1", "anchor_size=5"],
    "oasis": ["codes=5", "server_epochs=2", "teacher_steps=5"],
    "fens": ["aggregator_rounds=2", "width=6"],
    "fed_sd2c": ["latent=4", "width=6", "latent_steps=3", "server_epochs=3"],
    "fed_nova": ["least=1"],
    "o_pfgl": ["surrogate_steps=60", "first_steps=20", "check=10"],
    "fed_tad": ["nodes=12", "iterations=1", "model_steps=2", "walk=2"],
    "fed_cvae": ["hidden=8", "latent=4", "server_steps=3"],
}
POINTS = (resumed.check, protocols.check)


def test_every_option_is_of_an_algorithm():
    assert {*CHEAPER} <= {*ALGORITHMS}


@pytest.mark.long
@pytest.mark.parametrize("name", ALGORITHMS)
def test_no_promise_is_broken(name, monkeypatch):
    kept = [promise for promise in promises.PROMISES if promise.check not in POINTS]
    monkeypatch.setattr(promises, "PROMISES", kept)
    part = command.named([name, *CHEAPER.get(name, ())])
    sections = [*promises.tried(Trial(accepted(part), command.built(part)))]
    assert len(sections) == 1 + len(kept)
    assert [finding for _, findings in sections for finding in findings if finding.kind != "note"] == []
