"""What POWER's server is billed for rebuilding: a bound on what is computed, and the same whatever was sent."""

import pytest
import torch
from contexts import within
from learnlab import drawn_task

from algorithms.power import Power
from fedsim.learn.algorithm import Reply
from fedsim.learn.continual import prototypes
from fedsim.learn.engine import tree
from fedsim.learn.models.gat import GAT
from fedsim.learn.modules.operations import Operations

FEATURES, CLASSES = 40, 4


def sent_by(count, seed=0, scale=1.0):
    """Return Γ and the gradients of as many random prototypes."""
    network = prototypes.encoder(FEATURES, CLASSES, 0, "cpu")
    x = scale * torch.rand(count, FEATURES, generator=torch.Generator().manual_seed(seed))
    return network, prototypes.gradients(network, x, torch.arange(count) % CLASSES)


def unmatchable(sent):
    """Return gradients that no vector has, so that every attempt fails and every restart is taken."""
    return {**sent, "w1": torch.randn(sent["w1"].shape, generator=torch.Generator().manual_seed(2))}


@pytest.mark.parametrize(("steps", "most"), [(1, 21), (5, 101), (6, 106), (300, 400)])
def test_an_attempt_is_allowed_its_steps_or_a_hundred_and_one_a_step(steps, most):
    assert prototypes.evaluations(steps) == most
    assert prototypes.budget(3, steps, 0) == 3 * most
    assert prototypes.budget(3, steps, 5) == 6 * most  # one prototype in five restarted


@pytest.mark.parametrize(
    ("steps", "restarts"),
    [
        (1, 0),
        (2, 5),
        pytest.param(20, 3, marks=pytest.mark.long),
        pytest.param(300, 5, marks=pytest.mark.long),
        pytest.param(3, 40, marks=pytest.mark.long),
    ],
)
@pytest.mark.parametrize("spoil", [False, True])
def test_no_more_is_evaluated_than_the_budget_allows(steps, restarts, spoil):
    network, sent = sent_by(3)
    sent = [unmatchable(one) for one in sent] if spoil else sent
    built = prototypes.rebuild(network, sent, torch.Generator().manual_seed(1), steps=steps, restarts=restarts)
    assert 0 < built.evaluations <= prototypes.budget(3, steps, restarts)


@pytest.mark.long
@pytest.mark.parametrize("restarts", [0, 5])
def test_the_bill_covers_what_rebuilding_computes(restarts):
    network, sent = sent_by(4)
    with Operations() as counted:
        built = prototypes.rebuild(network, sent, torch.Generator().manual_seed(1), steps=300, restarts=restarts)
    billed = prototypes.rebuild_flops(network, 4, steps=300, restarts=restarts)
    assert 0.02 * billed < counted.total < billed
    assert built.evaluations * 6 * tree.count(network) < counted.total  # of second order: more than a gradient


def test_the_server_is_billed_by_the_number_of_prototypes_whatever_they_hold():
    task = drawn_task(GAT(hidden=8), FEATURES, CLASSES)

    def bill(algorithm, count, seed=0, scale=1.0):
        state = within(algorithm, task).start()
        sent = sent_by(count, seed, scale)[1] if count else []
        upload = {"update": tree.zeros_like(state["model"]), "samples": 3}
        if sent:
            upload |= {"prototypes": [{"gradients": one, "count": 2} for one in sent], "period": "0"}
        reply = Reply(0, 0, {"model": state["model"]}, upload)
        return within(algorithm, task).server_flops(state, [reply], "train")

    paper, official = Power(), Power(preset="official")
    assert bill(paper, 2) == bill(paper, 2, seed=5, scale=30.0)
    assert bill(paper, 4) - bill(paper, 2) == pytest.approx(bill(paper, 2) - bill(paper, 0), rel=0.02)
    assert bill(paper, 2) > 1.8 * bill(official, 2)  # the published code has no restarts
    assert bill(official, 2) > 1.5 * bill(Power(preset="official", rebuild_steps=100), 2)
