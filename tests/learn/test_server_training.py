"""Training on the server against torch's own optimisers; nothing handed in is changed, and steps can be cut in two."""

import pytest
import torch
from learnlab import drawn, drawn_task, largest_gap

from fedsim.learn.engine import tree
from fedsim.learn.engine.optimiser import SGD, Adam, descend, in_training
from fedsim.learn.models.gcn import GCN


def parts(dropout=0.0):
    task, graph = drawn_task(GCN(hidden=5, dropout=dropout)), drawn(20, 1)

    def loss(params, step):
        return task.loss(params, in_training(graph, 7, step))

    return task, loss


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [(Adam(0.01, 4e-4), lambda p: torch.optim.Adam(p, lr=0.01, weight_decay=4e-4)),
     (SGD(0.2, 0.0, 0.9), lambda p: torch.optim.SGD(p, lr=0.2, momentum=0.9))],
    ids=["adam", "sgd"],
)  # fmt: skip
def test_it_takes_the_steps_of_torch(ours, theirs):
    task, loss = parts(dropout=0.5)
    start = task.init()
    trained, _ = descend(start, loss, ours, 6)
    own = tree.transform(lambda leaf: leaf.clone().unsqueeze(0).requires_grad_(True), start)
    optimiser = theirs(list(tree.leaves(own)))
    for step in range(6):
        optimiser.zero_grad()
        loss(own, step).sum().backward()
        optimiser.step()
    assert largest_gap(trained, tree.at(tree.transform(torch.detach, own), 0)) < 1e-5
    assert largest_gap(trained, start) > 0.01


def test_steps_can_be_cut_in_two_and_nothing_handed_in_is_changed():
    task, loss = parts(dropout=0.5)
    start, adam = task.init(), Adam(0.01, 4e-4)
    before = tree.transform(torch.clone, start)
    whole, _ = descend(start, loss, adam, 5)
    half, state = descend(start, loss, adam, 2)
    kept = tree.transform(torch.clone, state)
    rest, _ = descend(half, lambda params, step: loss(params, step + 2), adam, 3, state)
    assert largest_gap(rest, whole) == 0
    assert largest_gap(start, before) == 0
    assert largest_gap(state, kept) == 0
    begun, _ = descend(half, lambda params, step: loss(params, step + 2), adam, 3)
    assert largest_gap(begun, whole) > 1e-4  # the optimiser's state matters


def test_what_the_loss_does_not_touch_stays():
    start = {"used": torch.ones(3), "idle": torch.ones(2)}
    trained, _ = descend(start, lambda p, _: p["used"].square().sum(), SGD(0.1, 0.0, 0.0), 2)
    assert trained["idle"].tolist() == [1, 1]
    assert trained["used"].tolist() == pytest.approx([0.64] * 3)


def test_what_is_dropped_hangs_on_the_seed_and_the_step():
    task = drawn_task()
    graph = drawn(20, 1)
    params = tree.stack([task.init()])
    outputs = [task.forward(params, in_training(graph, seed, step)) for seed, step in ((1, 0), (1, 0), (1, 1), (2, 0))]
    assert torch.equal(outputs[0], outputs[1])
    assert not torch.equal(outputs[0], outputs[2])
    assert not torch.equal(outputs[0], outputs[3])
    assert "seed" not in graph
