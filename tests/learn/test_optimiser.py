"""Our optimisers against torch's, each client of a cohort by itself."""

import pytest
import torch

from fedsim.learn.engine.optimiser import SGD, Adam, build, clipped, over_steps

SHAPES = [(4, 3), (3,)]
THEIRS = {
    "adam": lambda p, wd, m: torch.optim.Adam(p, lr=0.02, weight_decay=wd),
    "sgd": lambda p, wd, m: torch.optim.SGD(p, lr=0.02, weight_decay=wd, momentum=m),
}
CASES = [("adam", 0.0, 0.0), ("adam", 0.1, 0.0), ("sgd", 0.0, 0.0), ("sgd", 0.1, 0.0), ("sgd", 0.1, 0.9)]


def pull(client, step, leaf):
    """A gradient that depends on where the parameters are, so that errors would grow."""
    noise = torch.randn(leaf.shape, generator=torch.Generator().manual_seed(1000 * client + step))
    return 0.3 * leaf + noise * (1 + client)


class Torch:
    """One client with an optimiser of torch."""

    def __init__(self, name, decay, momentum, client):
        generator = torch.Generator().manual_seed(client)
        self.params = [torch.nn.Parameter(torch.randn(s, generator=generator)) for s in SHAPES]
        self.start = [p.detach().clone() for p in self.params]
        self.optimiser, self.client, self.steps = THEIRS[name](self.params, decay, momentum), client, 0

    def step(self):
        for p in self.params:
            p.grad = pull(self.client, self.steps, p.detach())
        self.optimiser.step()
        self.steps += 1


def advance(ours, params, state, clients, taken):
    """One step of ours for these clients, who have taken so many steps."""
    grads = [torch.stack([pull(k, taken[k], leaf[place]) for place, k in enumerate(clients)]) for leaf in params]
    ours.apply(params, grads, state)
    for k in clients:
        taken[k] += 1


@pytest.mark.parametrize(("name", "decay", "momentum"), CASES)
def test_many_steps_of_a_cohort(name, decay, momentum):
    theirs = [Torch(name, decay, momentum, k) for k in range(3)]
    params = [torch.stack([one.start[i] for one in theirs]) for i in range(2)]
    ours, taken = build(name, 0.02, decay, momentum), [0] * 3
    state = ours.start({"w": params[0], "b": params[1]}, 3)
    for step in range(200):
        advance(ours, params, state, [0, 1, 2], taken)
        for one in theirs:
            one.step()
        if step in (0, 1, 10, 199):
            for k, one in enumerate(theirs):
                for mine, other in zip(params, one.params, strict=True):
                    torch.testing.assert_close(mine[k], other.detach(), atol=2e-5, rtol=2e-5)


def test_the_scenarios_names():
    assert build("adam", 0.1, 0.2, 0.0) == Adam(0.1, 0.2)
    assert build("sgd", 0.1, 0.2, 0.3) == SGD(0.1, 0.2, 0.3)
    assert "first" not in SGD(0.1).start({"w": torch.zeros(1, 2)}, 1)  # no momentum, nothing to remember


@pytest.mark.parametrize(("name", "decay", "momentum"), CASES)
@pytest.mark.parametrize("lr", [0.02, 1e-6])
def test_the_learning_rate_falls_as_torchs_cosine_does(name, decay, momentum, lr):
    steps, theirs = 10, Torch(name, decay, momentum, 0)
    theirs.optimiser.param_groups[0]["lr"] = lr
    falling = torch.optim.lr_scheduler.CosineAnnealingLR(theirs.optimiser, steps, eta_min=min(1e-5, lr))
    params = [leaf.unsqueeze(0).clone() for leaf in theirs.start]
    own = over_steps(build(name, lr, decay, momentum), "cosine", steps)
    state = own[0].start({"w": params[0], "b": params[1]}, 1)
    for step in range(steps):
        assert own[step].lr == pytest.approx(falling.get_last_lr()[0])
        own[step].apply(params, [pull(0, step, leaf[0]).unsqueeze(0) for leaf in params], state)
        theirs.step()
        falling.step()
    for mine, other in zip(params, theirs.params, strict=True):
        torch.testing.assert_close(mine[0], other.detach(), atol=1e-5, rtol=1e-5)


def test_a_constant_rate_is_the_optimiser_itself():
    adam = Adam(0.1, 0.2)
    assert over_steps(adam, "constant", 3) == [adam] * 3
    assert over_steps(adam, "cosine", 1) == [adam]


@pytest.mark.parametrize("limit", [0.5, 3.0, 1e6])
def test_gradients_are_clipped_by_each_clients_own_norm(limit):
    g = torch.Generator().manual_seed(0)
    grads = [torch.randn(3, *shape, generator=g) * torch.tensor([0.01, 1.0, 50.0]).view(-1, *[1] * len(shape))
             for shape in [*SHAPES, ()]]  # fmt: skip
    found = clipped(grads, limit)
    for k in range(3):
        own = [torch.nn.Parameter(torch.zeros_like(grad[k])) for grad in grads]
        for one, grad in zip(own, grads, strict=True):
            one.grad = grad[k].clone()
        torch.nn.utils.clip_grad_norm_(own, limit)
        for mine, one in zip(found, own, strict=True):
            torch.testing.assert_close(mine[k], one.grad)
