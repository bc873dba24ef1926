"""Optimisers of torch.optim, one client at a time: the same steps as the class itself, and which are refused."""

from copy import deepcopy

import pytest
import torch
from torch import nn

from fedsim.core.errors import UserError
from fedsim.learn.engine import tree
from fedsim.learn.engine.optimiser import KeptState, over_steps
from fedsim.learn.engine.torch_optimiser import torch_optimiser

OPTIONS = {
    "AdamW": {"betas": [0.8, 0.99], "amsgrad": True},
    "SGD": {"momentum": 0.9, "nesterov": True},
    "NAdam": {}, "RAdam": {}, "Adamax": {}, "Adagrad": {"lr_decay": 0.1}, "Adadelta": {"rho": 0.8}, "ASGD": {},
    "RMSprop": {"momentum": 0.5, "centered": True}, "Rprop": {"etas": [0.4, 1.3]}, "Adafactor": {},
}  # fmt: skip
DECAYED = {*OPTIONS} - {"Rprop"}


def start() -> dict[str, torch.Tensor]:
    drawn = torch.Generator().manual_seed(1)
    return {"w": torch.randn(4, 3, generator=drawn), "b": torch.randn(3, generator=drawn), "s": torch.tensor(0.5)}


def gradient(step: int, like: torch.Tensor) -> torch.Tensor:
    return torch.randn(like.shape, generator=torch.Generator().manual_seed(step + like.numel()))


@pytest.mark.parametrize("name", OPTIONS)
@pytest.mark.parametrize("schedule", ["constant", "cosine"])
def test_steps_over_two_jobs_are_those_of_the_class_itself(name, schedule):
    decay, steps = 0.01 if name in DECAYED else 0.0, 3
    ours = over_steps(torch_optimiser(f"torch.optim.{name}", 0.1, decay, OPTIONS[name]), schedule, steps)
    params = {key: value.unsqueeze(0).clone() for key, value in start().items()}
    state = ours[0].start(params, 1)
    owned = [nn.Parameter(value) for value in start().values()]
    given = {"weight_decay": decay} if name in DECAYED else {}
    real = getattr(torch.optim, name)(owned, lr=0.1, **OPTIONS[name], **given)
    for number in range(2 * steps):
        if number == steps:  # as between two jobs, where the first one's memory must not change
            kept = KeptState(state, 0)
            before, state = deepcopy(kept.joined), tree.transform(torch.clone, kept.joined)
        grads = [gradient(number, one) for one in owned]
        ours[number % steps].apply([*params.values()], [grad.unsqueeze(0) for grad in grads], state)
        real.param_groups[0]["lr"] = ours[number % steps].lr
        for one, grad in zip(owned, grads, strict=True):
            one.grad = grad.clone()
        real.step()
    assert all(torch.equal(mine[0], one) for mine, one in zip(params.values(), owned, strict=True))
    assert repr(kept) == f"KeptState(steps={float(steps)})"
    pairs = zip(tree.leaves(before), tree.leaves(kept.joined), strict=True)
    assert all(torch.equal(one, other) for one, other in pairs)


@pytest.mark.parametrize(
    ("name", "decay", "options", "message"),
    [
        ("torch.optim.LBFGS", 0.0, {}, "LBFGS evaluates the loss itself, .*take another, such as torch.optim.AdamW"),
        ("torch.optim.SparseAdam", 0.0, {}, "SparseAdam cannot be used here: .*dense gradients.*take another"),
        ("torch.optim.AdmaW", 0.0, {}, "'torch.optim.AdmaW' is no class of torch.optim; did you mean 'AdamW'"),
        ("torch.optim.Optimizer", 0.0, {}, "is no class of torch.optim"),
        ("torch.optim.lr_scheduler", 0.0, {}, "is no class of torch.optim"),
        ("torch.optim.AdamW", 0.0, {"beta": 0.9}, "^beta: torch.optim.AdamW has no such option; did you mean 'betas'"),
        ("torch.optim.AdamW", 0.0, {"betas": "much"}, r"^betas: 'much' is not like .* default, \(0.9, 0.999\)"),
        ("torch.optim.AdamW", 0.0, {"betas": [0.9]}, r"^betas: \[0.9\] is not like"),
        ("torch.optim.AdamW", 0.0, {"betas": [2.0, 0.9]}, "AdamW cannot be used here: Invalid beta"),
        ("torch.optim.AdamW", 0.0, {"lr": 0.1}, "^lr: is a key of training"),
        ("torch.optim.AdamW", 0.0, {"maximize": True}, "^maximize: torch.optim.AdamW has no such option"),
        ("torch.optim.Rprop", 0.1, {}, "Rprop has no weight_decay: leave training.weight_decay out"),
    ],
)  # fmt: skip
def test_what_cannot_be_used_is_refused(name, decay, options, message):
    with pytest.raises(UserError, match=message):
        torch_optimiser(name, 0.1, decay, options)
