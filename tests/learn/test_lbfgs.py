"""The batched L-BFGS on problems like those it is for, against torch's own."""

import pytest
import torch

from fedsim.learn import lbfgs, prototypes

CLASSES, FEATURES = 6, 60


def problems(count, seed):
    """Networks' gradients to be matched, in double precision: the objective, the true vectors, the first guesses."""
    generator = torch.Generator().manual_seed(seed)
    network = prototypes.encoder(FEATURES, CLASSES, seed, "cpu")
    x = torch.rand(count, FEATURES, generator=generator)
    labels = torch.arange(count) % CLASSES
    sent = prototypes.gradients(network, x, labels)
    double = {key: value.double() for key, value in network.items()}
    wanted = {key: torch.stack([one[key] for one in sent]).double() for key in sent[0]}
    norms = torch.stack([value.square().flatten(1).sum(1) for value in wanted.values()]).sum(0)

    def objective(guess, rows):
        own = {key: value[rows] for key, value in wanted.items()}
        return prototypes.mismatch(double, own, norms[rows], guess, labels[rows])

    return objective, x.double(), torch.randn(count, FEATURES, generator=generator, dtype=torch.double)


class Counted:
    """An objective that counts how often each problem was evaluated."""

    def __init__(self, objective, count):
        self.objective, self.calls = objective, torch.zeros(count, dtype=torch.long)

    def __call__(self, x, rows):
        self.calls[rows] += 1
        return self.objective(x, rows)


def theirs(objective, row, start):
    """Torch's result for one problem, its last value and how many evaluations it took to 1e-8."""
    x = start[row : row + 1].clone().requires_grad_(True)
    optimiser = torch.optim.LBFGS(
        [x], lr=1.0, history_size=100, max_iter=20, tolerance_grad=1e-7, tolerance_change=1e-9
    )
    values = []

    def closure():
        optimiser.zero_grad()
        value = objective(x, torch.tensor([row])).sum()
        value.backward()
        values.append(float(value.detach()))
        return value

    for _ in range(15):
        optimiser.step(closure)
    return x.detach(), values


def test_matching_takes_about_as_many_evaluations_as_with_torchs_own():
    count = 8
    objective, truth, start = problems(count, 3)
    counted = Counted(objective, count)
    found, value = lbfgs.minimise(counted, start, lbfgs.Rules(300))
    near = ((found - truth).norm(dim=1) / truth.norm(dim=1) < 1e-2).tolist()
    torchs = [theirs(objective, row, start) for row in range(count)]
    near_too = [bool((x - truth[row]).norm() / truth[row].norm() < 1e-2) for row, (x, _) in enumerate(torchs)]
    assert sum(near) >= sum(near_too) >= 6
    for row, (_, values) in enumerate(torchs):
        if near[row] and near_too[row]:
            needed = next(i for i, v in enumerate(values, 1) if v <= max(float(value[row]), 1e-8))
            assert int(counted.calls[row]) <= 2 * needed + 20


def test_rows_do_not_see_each_other():
    objective, _, start = problems(5, 4)
    together, _ = lbfgs.minimise(objective, start, lbfgs.Rules(40, hope=10**6))
    for row in range(5):
        alone, _ = lbfgs.minimise(
            lambda x, _, row=row: objective(x, torch.tensor([row])), start[row : row + 1], lbfgs.Rules(40, hope=10**6)
        )
        torch.testing.assert_close(alone[0], together[row], atol=1e-5, rtol=1e-5)


def test_a_short_memory_still_finds_the_bottom():
    generator = torch.Generator().manual_seed(0)
    a = torch.randn(3, 6, 6, generator=generator, dtype=torch.double)
    h, c = a @ a.mT + torch.eye(6), torch.randn(3, 6, generator=generator, dtype=torch.double)

    def objective(x, rows):
        return 0.5 * torch.einsum("bi,bij,bj->b", x, h[rows], x) - (c[rows] * x).sum(1)

    found, value = lbfgs.minimise(objective, torch.zeros(3, 6, dtype=torch.double), lbfgs.Rules(500, history=4))
    bottom = torch.linalg.solve(h, c)
    torch.testing.assert_close(found, bottom, atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(value, -0.5 * (c * bottom).sum(1), atol=1e-7, rtol=1e-7)


def test_it_stops_where_there_is_nothing_to_gain():
    counted = Counted(lambda x, rows: x.square().sum(1), 2)
    start = torch.tensor([[0.0, 0.0], [3.0, -4.0]], dtype=torch.double)
    found, value = lbfgs.minimise(counted, start, lbfgs.Rules(1000))
    assert float(found.abs().max()) < 1e-6
    assert float(value.max()) < 1e-12
    assert int(counted.calls.max()) < 20


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_a_row_that_is_not_finite_ends_and_its_best_point_is_kept(bad):
    def objective(x, rows):
        value = x.square().sum(1)
        return torch.where((rows == 1) & (x.norm(dim=1) < 2), torch.full_like(value, bad), value)

    start = torch.tensor([[3.0, -4.0], [3.0, -4.0]], dtype=torch.double)
    found, value = lbfgs.minimise(objective, start, lbfgs.Rules(50))
    assert float(value[0]) < 1e-10
    assert torch.isfinite(found).all()
    assert 4 <= float(value[1]) <= 25
