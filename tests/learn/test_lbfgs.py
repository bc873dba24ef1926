"""The batched L-BFGS on problems like those it is for, against torch's own."""

import pytest
import torch
from slopes import with_slopes

from fedsim.learn.continual import lbfgs, prototypes
from fedsim.learn.continual.matching import Matching

CLASSES, FEATURES = 6, 60


def problems(count, seed):
    """Gradients to be matched, in double precision: the objective of some rows, true vectors, first guesses."""
    generator = torch.Generator().manual_seed(seed)
    network = prototypes.encoder(FEATURES, CLASSES, seed, "cpu")
    x = torch.rand(count, FEATURES, generator=generator)
    labels = torch.arange(count) % CLASSES
    sent = prototypes.gradients(network, x, labels)
    double = {key: value.double() for key, value in network.items()}
    wanted = {key: torch.stack([one[key] for one in sent]).double() for key in sent[0]}
    start = torch.randn(count, FEATURES, generator=generator, dtype=torch.double)

    def matching(*rows):
        return Matching(double, {key: value[list(rows)] for key, value in wanted.items()}, labels[list(rows)])

    return matching, x.double(), start


class Counted:
    """An objective that counts how often each problem was evaluated."""

    def __init__(self, objective, count):
        self.objective, self.calls = objective, torch.zeros(count, dtype=torch.long)

    def __call__(self, x, rows):
        self.calls[list(rows)] += 1
        return self.objective(x, rows)


def theirs(matching, row, start):
    """Torch's result for one problem, its last value and how many evaluations it took to 1e-8."""
    x = start[row : row + 1].clone().requires_grad_(True)
    optimiser = torch.optim.LBFGS(
        [x], lr=1.0, history_size=100, max_iter=20, tolerance_grad=1e-7, tolerance_change=1e-9
    )
    objective, values = matching(row), []

    def closure():
        value, x.grad = objective(x.detach(), [0])
        values.append(float(value))
        return value.sum()

    for _ in range(15):
        optimiser.step(closure)
    return x.detach(), values


def test_matching_takes_about_as_many_evaluations_as_with_torchs_own():
    count = 8
    matching, truth, start = problems(count, 3)
    counted = Counted(matching(*range(count)), count)
    found, value = lbfgs.minimise(counted, start, 300)
    near = ((found - truth).norm(dim=1) / truth.norm(dim=1) < 1e-2).tolist()
    torchs = [theirs(matching, row, start) for row in range(count)]
    near_too = [bool((x - truth[row]).norm() / truth[row].norm() < 1e-2) for row, (x, _) in enumerate(torchs)]
    assert sum(near) >= sum(near_too) >= 6
    for row, (_, values) in enumerate(torchs):
        if near[row] and near_too[row]:
            needed = next(i for i, v in enumerate(values, 1) if v <= max(float(value[row]), 1e-8))
            assert int(counted.calls[row]) <= 2 * needed + 20


def test_rows_do_not_see_each_other():
    matching, _, start = problems(5, 4)
    together, _ = lbfgs.minimise(matching(*range(5)), start, 40, hope=10**6)
    for row in range(5):
        alone, _ = lbfgs.minimise(matching(row), start[row : row + 1], 40, hope=10**6)
        torch.testing.assert_close(alone[0], together[row], atol=1e-5, rtol=1e-5)


def test_a_short_memory_still_finds_the_bottom():
    generator = torch.Generator().manual_seed(0)
    a = torch.randn(3, 6, 6, generator=generator, dtype=torch.double)
    h, c = a @ a.mT + torch.eye(6), torch.randn(3, 6, generator=generator, dtype=torch.double)

    @with_slopes
    def objective(x, rows):
        return 0.5 * torch.einsum("bi,bij,bj->b", x, h[rows], x) - (c[rows] * x).sum(1)

    found, value = lbfgs.minimise(objective, torch.zeros(3, 6, dtype=torch.double), 500, history=4)
    bottom = torch.linalg.solve(h, c)
    torch.testing.assert_close(found, bottom, atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(value, -0.5 * (c * bottom).sum(1), atol=1e-7, rtol=1e-7)


def test_it_stops_where_there_is_nothing_to_gain():
    counted = Counted(with_slopes(lambda x, rows: x.square().sum(1)), 2)
    start = torch.tensor([[0.0, 0.0], [3.0, -4.0]], dtype=torch.double)
    found, value = lbfgs.minimise(counted, start, 1000)
    assert float(found.abs().max()) < 1e-6
    assert float(value.max()) < 1e-12
    assert int(counted.calls.max()) < 20


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_a_row_that_is_not_finite_ends_and_its_best_point_is_kept(bad):
    @with_slopes
    def objective(x, rows):
        value = x.square().sum(1)
        return torch.where((rows == 1) & (x.norm(dim=1) < 2), torch.full_like(value, bad), value)

    start = torch.tensor([[3.0, -4.0], [3.0, -4.0]], dtype=torch.double)
    found, value = lbfgs.minimise(objective, start, 50)
    assert float(value[0]) < 1e-10
    assert torch.isfinite(found).all()
    assert 4 <= float(value[1]) <= 25


def test_rows_that_end_at_different_times_find_what_they_find_alone():
    """Rows end after 3 to some 60 iterations; what takes an ended one's place is another problem, with its history."""
    matching, _, start = problems(9, 5)
    start[2] = problems(9, 5)[1][2]  # begins at its end
    together, least = lbfgs.minimise(matching(*range(9)), start, 400)
    for row in range(9):
        alone, value = lbfgs.minimise(matching(row), start[row : row + 1], 400)
        torch.testing.assert_close(alone[0], together[row], atol=1e-4, rtol=1e-4)
        torch.testing.assert_close(value[0], least[row], atol=1e-8, rtol=1e-2)


@pytest.mark.parametrize("history", [3, 40])
def test_longer_histories_than_there_is_room_for_at_first_are_kept_whole(history, monkeypatch):
    """Ten unknowns with condition 10^4: the path of a memory that grows, and moves on, is that of one large enough."""
    drawn = torch.Generator().manual_seed(0)
    q = torch.linalg.qr(torch.randn(10, 10, generator=drawn, dtype=torch.double))[0]
    h = q @ torch.diag(torch.logspace(0, 4, 10, dtype=torch.double)) @ q.T

    @with_slopes
    def objective(x, rows):
        return 0.5 * ((x @ h) * x).sum(1)

    start = torch.randn(2, 10, generator=drawn, dtype=torch.double)
    found = []
    for room in (2, 1000):
        monkeypatch.setattr(lbfgs, "ROOM", room)
        found.append(lbfgs.minimise(objective, start, 25, history=history, hope=10**6))
    torch.testing.assert_close(found[0], found[1], rtol=1e-6, atol=1e-9)
