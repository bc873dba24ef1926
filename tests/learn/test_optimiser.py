"""Our optimisers against torch's, each client of a cohort by itself."""

import pytest
import torch

from fedsim.learn.optimiser import SGD, Adam, build

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
