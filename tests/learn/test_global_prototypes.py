"""The server's prototypes: signs, margins, and what an order or a missing class changes."""

from dataclasses import replace

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from algorithms.feddgl import global_prototypes as server

CLIENTS, CLASSES, WIDTH = 10, 4, 16


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def pairs(seed=0, noise=0.6, classes=CLASSES):
    """Prototypes of ten clients, each class about a direction of its own, and their classes."""
    g = generator(seed)
    centre = F.normalize(torch.randn(classes, WIDTH, generator=g), dim=1)
    rows = centre.repeat(CLIENTS, 1) + noise * torch.randn(CLIENTS * classes, WIDTH, generator=g) / WIDTH**0.5
    return rows, torch.arange(classes).repeat(CLIENTS)


def trained(rows, labels, objective, *, epochs=60, batch=10, rate=0.5, seed=0, classes=CLASSES):
    net = server.drawn(classes, WIDTH, generator(9))
    timed = replace(objective, epochs=epochs, batch=batch, rate=rate)
    return server.fitted(net, rows, labels, timed, generator(seed))


def cosines(rows, labels, net):
    """The mean cosine of prototypes with the global ones of their own class, and of the others."""
    every = F.cosine_similarity(rows.unsqueeze(1), server.table_of(net).unsqueeze(0), dim=2)
    own = F.one_hot(labels, len(net["table"])).bool()
    return float(every[own].mean()), float(every[~own].mean())


@pytest.mark.parametrize("seed", [0, 1])
def test_the_corrected_sign_draws_prototypes_to_their_class_and_the_printed_one_drives_them_off(seed):
    rows, labels = pairs(seed)
    own, others = cosines(rows, labels, server.drawn(CLASSES, WIDTH, generator(9)))
    assert abs(own) < 0.4
    near = cosines(rows, labels, trained(rows, labels, server.Objective(sign=1.0)))
    far = cosines(rows, labels, trained(rows, labels, server.Objective(sign=-1.0)))
    assert near[0] > own
    assert near[1] < others
    assert near == pytest.approx((0.83, -0.27), abs=0.12)
    assert far == pytest.approx((-0.67, 0.21), abs=0.2)


def test_the_loss_of_cosines_is_the_printed_softmax():
    rows, labels = pairs(3)
    net = server.drawn(CLASSES, WIDTH, generator(1))
    table = server.table_of(net).numpy()
    p = rows.numpy()
    cosine = p @ table.T / np.linalg.norm(p, axis=1)[:, None] / np.linalg.norm(table, axis=1)
    for sign in (1.0, -1.0):
        d = np.exp(sign * cosine / 0.5)
        by_hand = -np.log(d[np.arange(len(p)), labels] / d.sum(1)).mean()
        loss = server.Objective(sign=sign, tau=0.5).loss(rows, labels, server.table_of(net), 0.0)
        assert float(loss) == pytest.approx(by_hand, rel=1e-5)


def test_the_margin_is_the_largest_distance_to_the_nearest_other_class_and_lengthens_the_own_one():
    rows = torch.tensor([[0.0, 0.0], [0.0, 2.0], [5.0, 1.0], [5.0, 13.0]])
    labels = torch.tensor([0, 0, 1, 3])  # means (0, 1), (5, 1), (5, 13): nearest others 5, 5 and 12 away
    assert server.margin_of(rows, labels) == pytest.approx(12.0)
    assert server.margin_of(1e3 * rows, labels) == 100.0
    assert server.margin_of(rows[:2], labels[:2]) == 0.0
    table = torch.tensor([[0.0, 1.0], [3.0, 1.0]])
    loss = server.Objective("margin").loss(torch.tensor([[0.0, 5.0]]), torch.tensor([0]), table, 2.0)
    assert float(loss) == pytest.approx(np.log(1 + np.exp(4 + 2 - 5)), rel=1e-4)


def test_margins_bring_the_global_prototypes_to_their_classes():
    rows, labels = pairs(2)
    rows = 3 * rows
    net = trained(rows, labels, server.Objective("margin"), rate=0.05)
    nearest = torch.cdist(rows, server.table_of(net)).argmin(1)
    assert torch.equal(nearest, labels)
    before = torch.cdist(rows, server.table_of(server.drawn(CLASSES, WIDTH, generator(9)))).argmin(1)
    assert not torch.equal(before, labels)


def test_plain_gradient_descent_in_one_batch():
    rows, labels = pairs(4)
    net, objective = server.drawn(CLASSES, WIDTH, generator(9)), server.Objective()
    twin = {name: leaf.clone().requires_grad_(True) for name, leaf in net.items()}
    optimiser = torch.optim.SGD(twin.values(), lr=0.3)
    for _ in range(5):
        optimiser.zero_grad()
        objective.loss(rows, labels, server.table_of(twin), 0.0).backward()
        optimiser.step()
    found = trained(rows, labels, objective, epochs=5, batch=1000, rate=0.3)
    for name, leaf in twin.items():
        torch.testing.assert_close(found[name], leaf.detach(), rtol=1e-4, atol=1e-6)


def test_batches_take_every_pair_once_a_pass_in_an_order_of_the_seed(monkeypatch):
    rows, labels = pairs(5)
    rows[:, 0] = torch.arange(len(rows))
    seen = []
    loss = server.Objective.loss

    def watched(self, some, *rest):
        seen.append(some[:, 0].int().tolist())
        return loss(self, some, *rest)

    monkeypatch.setattr(server.Objective, "loss", watched)
    one = trained(rows, labels, server.Objective(), epochs=2, batch=12)
    passes = [[row for few in part for row in few] for part in (seen[:4], seen[4:])]
    assert [len(some) for some in seen] == [12, 12, 12, 4] * 2
    assert [sorted(own) for own in passes] == [list(range(40))] * 2
    assert passes[0] != passes[1]
    again = trained(rows, labels, server.Objective(), epochs=2, batch=12)
    other = trained(rows, labels, server.Objective(), epochs=2, batch=12, seed=1)
    assert torch.equal(one["table"], again["table"])
    assert not torch.equal(one["table"], other["table"])


def test_nothing_is_learned_from_nobody():
    net = server.drawn(CLASSES, WIDTH, generator(9))
    found = trained(torch.zeros(0, WIDTH), torch.zeros(0, dtype=torch.long), server.Objective("margin"))
    assert all(torch.equal(found[name], net[name]) for name in net)


def test_operations_grow_with_the_batches():
    few, many = (server.operations(CLASSES, WIDTH, 40, 100, batch) for batch in (40, 10))
    assert many - few == 100 * 3 * 3 * 4.0 * CLASSES * WIDTH**2
