"""Prototypes sent as gradients: what is sent, what it gives away, and how it is rebuilt (power.md 2.5, 3, 3.1)."""

import pytest
import torch
from learnlab import inverted
from slopes import with_slopes

from fedsim.data.graph import graph_of, sparse_if_worth
from fedsim.learn.continual import lbfgs, prototypes
from fedsim.learn.continual.matching import Matching

pytestmark = pytest.mark.long

KEYS = ["w1", "b1", "w2", "b2", "w3", "b3", "w4", "b4"]


def means_like_cora(count, features=200, seed=0):
    """Means of sparse binary rows, as Cora's class prototypes are."""
    g = torch.Generator().manual_seed(seed)
    return torch.stack([(torch.rand(30, features, generator=g) < 0.013).float().mean(0) for _ in range(count)])


def sent_for(x, classes, seed=0):
    network = prototypes.encoder(x.shape[1], classes, seed, "cpu")
    labels = torch.arange(len(x)) % classes
    return network, labels, prototypes.gradients(network, x, labels)


def test_the_encoder_has_the_shapes_and_the_size_of_the_paper():
    network = prototypes.encoder(1433, 6, 0, "cpu")
    assert [tuple(network[key].shape) for key in KEYS] == [
        (128, 1433), (128,), (128, 128), (128,), (64, 128), (64,), (6, 64), (6,),
    ]  # fmt: skip
    assert sum(value.numel() for value in network.values()) == 208_710


def test_what_is_sent_are_the_gradients_of_the_cross_entropy():
    x = means_like_cora(6)
    network, labels, sent = sent_for(x, 6)
    for row in range(6):
        leaves = {key: value.clone().requires_grad_(True) for key, value in network.items()}
        h = x[row : row + 1]
        for i in (1, 2, 3):
            h = torch.relu(h @ leaves[f"w{i}"].T + leaves[f"b{i}"])
        loss = torch.nn.functional.cross_entropy(h @ leaves["w4"].T + leaves["b4"], labels[row : row + 1])
        for key, expected in zip(leaves, torch.autograd.grad(loss, list(leaves.values())), strict=True):
            assert torch.allclose(sent[row][key], expected, atol=1e-7), key


def test_the_class_shows_in_the_one_negative_entry_of_the_last_bias():
    _, labels, sent = sent_for(torch.randn(40, 30), 7)
    assert [prototypes.label_of(one) for one in sent] == labels.tolist()
    with pytest.raises(ValueError, match="negative"):
        prototypes.label_of({**sent[0], "b4": sent[0]["b4"].abs()})


def test_the_prototype_follows_from_its_gradients_in_closed_form():
    x = means_like_cora(12)
    _, _, sent = sent_for(x, 6)
    for row, one in zip(x, sent, strict=True):
        assert float((inverted(one) - row).norm() / row.norm()) < 1e-6


@pytest.mark.parametrize("x", [means_like_cora(24), torch.rand(24, 64, generator=torch.Generator().manual_seed(1))])
def test_lbfgs_finds_the_prototype_within_a_hundredth_in_nine_of_ten_draws(x):
    network, _, sent = sent_for(x, 6)
    built = prototypes.rebuild(network, sent, torch.Generator().manual_seed(0), steps=300, restarts=5)
    error = (built.x - x).norm(dim=1) / x.norm(dim=1)
    assert float((error < 1e-2).float().mean()) >= 0.9
    assert float(built.good.float().mean()) >= 0.9
    inverse = torch.stack([inverted(one) for one in sent])
    assert float(((built.x - inverse).norm(dim=1) / inverse.norm(dim=1) < 1e-2).float().mean()) >= 0.9


def test_what_cannot_be_matched_is_begun_again_and_then_marked_bad():
    x = means_like_cora(3)
    network, _, sent = sent_for(x, 6)
    impossible = {key: value.clone() for key, value in sent[1].items()}
    impossible["w1"] = torch.randn(128, 200, generator=torch.Generator().manual_seed(2))
    both = [sent[0], impossible, sent[2]]
    built = prototypes.rebuild(network, both, torch.Generator().manual_seed(0), steps=300, restarts=3)
    assert built.good.tolist() == [True, False, True]
    assert built.restarts >= 3
    assert prototypes.rebuild(network, both, torch.Generator().manual_seed(0), steps=300, restarts=0).restarts == 0


def test_restarts_never_make_a_prototype_worse():
    x = torch.rand(40, 64, generator=torch.Generator().manual_seed(1))
    network, _, sent = sent_for(x, 6)
    once = prototypes.rebuild(network, sent, torch.Generator().manual_seed(3), steps=300, restarts=0)
    again = prototypes.rebuild(network, sent, torch.Generator().manual_seed(3), steps=300, restarts=5)
    double, wanted = (
        {k: v.double() for k, v in network.items()},
        {k: torch.stack([o[k] for o in sent]).double() for k in sent[0]},
    )
    matching = Matching(double, wanted, torch.arange(40) % 6)
    miss = [matching(b.x.double(), list(range(40)))[0] for b in (once, again)]
    assert bool((miss[1] <= miss[0] + 1e-9).all())
    assert float(miss[1].max()) < float(miss[0].max())
    assert again.restarts % 5 == 0 < again.restarts


@pytest.mark.parametrize("sparse", [False, True])
def test_class_means_are_those_of_the_training_nodes(sparse):
    g = torch.Generator().manual_seed(0)
    dense = torch.randn(30, 80, generator=g) * (torch.rand(30, 80, generator=g) < 0.1)
    y, train = torch.randint(5, (30,), generator=g), torch.rand(30, generator=g) < 0.5
    train &= y != 2
    none = torch.zeros(2, 0, dtype=torch.long)
    graph = graph_of(sparse_if_worth(dense) if sparse else dense, none, y, train)
    present, means, counts = prototypes.of_classes(graph, 5)
    assert 2 not in present.tolist()
    for label, mean, count in zip(present.tolist(), means, counts.tolist(), strict=True):
        rows = dense[train & (y == label)]
        assert count == len(rows)
        assert torch.allclose(mean, rows.mean(0), atol=1e-6)


def test_lbfgs_reaches_the_closed_form_of_quadratics_each_with_its_own_history():
    g = torch.Generator().manual_seed(0)
    a = torch.randn(5, 12, 12, generator=g, dtype=torch.double)
    h = a @ a.mT + 0.5 * torch.eye(12, dtype=torch.double)
    c = torch.randn(5, 12, generator=g, dtype=torch.double)

    @with_slopes
    def objective(x, rows):
        return 0.5 * torch.einsum("bi,bij,bj->b", x, h[rows], x) - (c[rows] * x).sum(1)

    x, value = lbfgs.minimise(objective, torch.zeros(5, 12, dtype=torch.double), 500)
    expected = torch.linalg.solve(h, c)
    assert torch.allclose(x, expected, atol=1e-4)
    alone, _ = lbfgs.minimise(lambda x, _: objective(x, [3]), torch.zeros(1, 12, dtype=torch.double), 500)
    assert torch.allclose(alone[0], x[3], atol=1e-6)
    assert bool(torch.isfinite(value).all())


def test_lbfgs_takes_the_steps_of_torchs_own():
    g = torch.Generator().manual_seed(1)
    a = torch.randn(8, 8, generator=g, dtype=torch.double)
    h = a @ a.T + torch.eye(8, dtype=torch.double)
    c = torch.randn(8, generator=g, dtype=torch.double)
    for steps in (1, 2, 5, 9):
        x, _ = lbfgs.minimise(
            with_slopes(lambda x, _: 0.5 * torch.einsum("bi,ij,bj->b", x, h, x) - x @ c),
            torch.ones(1, 8, dtype=torch.double), steps, hope=10**6,
        )  # fmt: skip
        theirs = torch.ones(8, dtype=torch.double, requires_grad=True)
        optimiser = torch.optim.LBFGS(
            [theirs], lr=1.0, max_iter=steps, max_eval=10**6, history_size=100, tolerance_grad=0, tolerance_change=0
        )

        def closure(theirs=theirs, optimiser=optimiser):
            optimiser.zero_grad()
            loss = 0.5 * theirs @ h @ theirs - c @ theirs
            loss.backward()
            return loss

        optimiser.step(closure)
        value = lambda v: float(0.5 * v @ h @ v - c @ v)  # noqa: E731
        # ours is the best point of the path, theirs the last: equal where the last is the best
        assert value(x[0]) <= value(theirs.detach()) + 1e-9
        if steps in (1, 2):
            assert torch.allclose(x[0], theirs.detach(), atol=1e-9)
