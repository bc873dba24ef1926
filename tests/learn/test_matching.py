"""The distance of an encoder's gradients from those received, and its slope, against outer products and autograd."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fedsim.learn.continual import lbfgs, prototypes
from fedsim.learn.continual.matching import Matching


def problems(count, features, classes, seed):
    """An encoder, the gradients that so many vectors send, their labels, and other vectors; in double precision."""
    drawn = torch.Generator().manual_seed(seed)
    network = {key: value.double() for key, value in prototypes.encoder(features, classes, seed, "cpu").items()}
    labels = torch.randint(classes, (count,), generator=drawn)
    sent = prototypes.gradients(network, torch.randn(count, features, generator=drawn).double(), labels)
    wanted = {key: torch.stack([one[key] for one in sent]) for key in sent[0]}
    return network, wanted, labels, torch.randn(count, features, generator=drawn, dtype=torch.double)


def by_definition(network, wanted, labels, x):
    """Σ ‖∇ − wanted‖² over all tensors, from the gradients written out: a scalar for each row."""
    rows = []
    for row, label in zip(x, labels, strict=True):
        leaves = {key: value.clone().requires_grad_(True) for key, value in network.items()}
        h = row
        for i in (1, 2, 3):
            h = torch.relu(leaves[f"w{i}"] @ h + leaves[f"b{i}"])
        loss = torch.nn.functional.cross_entropy((leaves["w4"] @ h + leaves["b4"])[None], label[None])
        rows.append(torch.autograd.grad(loss, list(leaves.values()), create_graph=True))
    return torch.stack(
        [
            sum((got - wanted[key][i]).square().sum() for key, got in zip(network, row, strict=True))
            for i, row in enumerate(rows)
        ]
    )


@given(st.integers(1, 6), st.integers(1, 40), st.integers(2, 7), st.integers(0, 10**6))
def test_value_and_slope_are_those_of_the_definition(count, features, classes, seed):
    network, wanted, labels, x = problems(count, features, classes, seed)
    value, slope = Matching(network, wanted, labels)(x, list(range(count)))
    variable = x.clone().requires_grad_(True)
    expected = by_definition(network, wanted, labels, variable)
    torch.testing.assert_close(value, expected.detach(), rtol=1e-9, atol=1e-12)
    torch.testing.assert_close(slope, torch.autograd.grad(expected.sum(), variable)[0], rtol=1e-8, atol=1e-12)


@pytest.mark.parametrize("left", [[0, 4, 2, 3], [0, 4, 2], [3, 1], [4]])
def test_problems_that_end_leave_the_others_as_they_were(left):
    network, wanted, labels, x = problems(5, 12, 4, 3)
    matching = Matching(network, wanted, labels)
    before, slopes = matching(x, list(range(5)))
    value, slope = matching(x[left], left)
    torch.testing.assert_close(value, before[left])
    torch.testing.assert_close(slope, slopes[left])


def test_what_is_wanted_is_not_written_into():
    network, wanted, labels, x = problems(3, 8, 3, 1)
    kept = {key: value.clone() for key, value in wanted.items()}
    lbfgs.minimise(Matching(network, wanted, labels), x, 20)
    assert all(torch.equal(value, kept[key]) for key, value in wanted.items())
