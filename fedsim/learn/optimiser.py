"""Adam and SGD on stacked parameters: one update for a whole cohort, each client with its own state.

State is {"steps": (K,) float32, "first": tree, "second": tree} for Adam and {"steps", "first"} for SGD with momentum;
a client's part of it stays in its memory between rounds.  Weight decay is L2, added to the gradient.
Gradients may be clipped by each client's own norm, and the learning rate may fall over a job's steps.  No AMSGrad.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from fedsim.learn import ops, tree

State = dict[str, Any]
Schedule = Literal["constant", "cosine"]
LOWEST = 1e-5  # end of the cosine schedule
RUN = 2**13  # numbers in a run of clients with equal steps from which torch's fused Adam is faster


@dataclass(frozen=True)
class Adam:
    """Adam (Kingma and Ba, ICLR 2015) with bias correction by each client's own number of steps."""

    lr: float
    weight_decay: float = 0.0
    beta1: float = 0.9
    beta2: float = 0.999
    eps: float = 1e-8

    def start(self, params: tree.Tree, clients: int) -> State:
        """Return the state of clients that have not trained yet."""
        some = next(tree.leaves(params))
        steps = torch.zeros(clients, device=some.device)
        return {"steps": steps, "first": tree.zeros_like(params), "second": tree.zeros_like(params)}

    @torch.no_grad()
    def apply(self, params: Sequence[Tensor], grads: Sequence[Tensor], state: State) -> None:
        """Change params, each (K, …), and the state in place."""
        first, second = list(tree.leaves(state["first"])), list(tree.leaves(state["second"]))
        state["steps"] += 1
        runs = _runs(state["steps"])
        dense = all(leaf.is_contiguous() for leaf in (*params, *first, *second))
        if runs is not None and dense and sum(param.numel() for param in params) >= RUN * (len(runs) - 1):
            ours = (params, [grad.contiguous() for grad in grads], first, second)
            self._fused([_cut(leaves, runs) for leaves in ours], state["steps"], runs)
            return
        if self.weight_decay:
            grads = torch._foreach_add(list(grads), list(params), alpha=self.weight_decay)
        torch._foreach_lerp_(first, list(grads), 1 - self.beta1)
        torch._foreach_mul_(second, self.beta2)
        torch._foreach_addcmul_(second, list(grads), list(grads), 1 - self.beta2)
        steps = state["steps"].double()
        size = (self.lr / (1 - self.beta1**steps)).float()
        root = ops.root(1 - self.beta2**steps).float()
        shapes = [(-1,) + (1,) * (param.dim() - 1) for param in params]
        change = torch._foreach_rsqrt(second)
        torch._foreach_reciprocal_(change)  # rounded alike everywhere, see `ops.root`
        torch._foreach_div_(change, [root.view(shape) for shape in shapes])
        torch._foreach_add_(change, self.eps)
        change = torch._foreach_div(first, change)
        torch._foreach_mul_(change, [size.view(shape) for shape in shapes])
        torch._foreach_sub_(list(params), change)

    def _fused(self, parts: Sequence[list[Tensor]], steps: Tensor, runs: Sequence[int]) -> None:
        """Do the same with params, grads and both moments, split into runs, in a single pass over memory.

        torch's kernel ignores strides: all of them must be contiguous.
        """
        params, grads, first, second = parts
        taken = [run[0] for run in steps.split(list(runs))] * (len(params) // len(runs))  # type: ignore[no-untyped-call]
        torch._fused_adam_(
            params, grads, first, second, [], taken, lr=self.lr, beta1=self.beta1, beta2=self.beta2,
            weight_decay=self.weight_decay, eps=self.eps, amsgrad=False, maximize=False,
        )  # fmt: skip


def _runs(steps: Tensor) -> list[int] | None:
    """Return the lengths of the runs of equal numbers of steps, or None if reading them would stall a GPU."""
    if steps.device.type != "cpu":
        return None
    taken = steps.numpy()
    ends = [*(np.flatnonzero(taken[1:] != taken[:-1]) + 1).tolist(), len(taken)]
    return [end - begin for begin, end in pairwise([0, *ends])]


def _cut(leaves: Sequence[Tensor], runs: Sequence[int]) -> list[Tensor]:
    return [part for leaf in leaves for part in leaf.split(list(runs))]  # type: ignore[no-untyped-call]


@dataclass(frozen=True)
class SGD:
    """Stochastic gradient descent with heavy-ball momentum."""

    lr: float
    weight_decay: float = 0.0
    momentum: float = 0.0

    def start(self, params: tree.Tree, clients: int) -> State:
        """Return the state of clients that have not trained yet."""
        some = next(tree.leaves(params))
        state: State = {"steps": torch.zeros(clients, device=some.device)}
        return {**state, "first": tree.zeros_like(params)} if self.momentum else state

    @torch.no_grad()
    def apply(self, params: Sequence[Tensor], grads: Sequence[Tensor], state: State) -> None:
        """Change params, each (K, …), and the state in place."""
        state["steps"] += 1
        if self.weight_decay:
            grads = torch._foreach_add(list(grads), list(params), alpha=self.weight_decay)
        if self.momentum:
            first = list(tree.leaves(state["first"]))
            torch._foreach_mul_(first, self.momentum)
            torch._foreach_add_(first, list(grads))
            grads = first
        torch._foreach_add_(list(params), list(grads), alpha=-self.lr)


Optimiser = Adam | SGD


def build(name: str, lr: float, weight_decay: float, momentum: float) -> Optimiser:
    """Return the optimiser that a scenario's `training` section names."""
    if name == "adam":
        return Adam(lr, weight_decay)
    return SGD(lr, weight_decay, momentum)


def over_steps(optimiser: Optimiser, schedule: Schedule, steps: int) -> list[Optimiser]:
    """Return the optimiser of each of a job's steps, equal except for the learning rate; every job starts over.

    `cosine` falls from the optimiser's rate at the first step along half a cosine that would reach 1e-5 one step after
    the last (Loshchilov and Hutter, ICLR 2017, Eq. 5, without restarts); a rate below 1e-5 stays as it is.
    """
    if schedule == "constant":
        return [optimiser] * steps
    span = max(0.0, optimiser.lr - LOWEST)
    rates = [optimiser.lr - span * (1 - math.cos(math.pi * step / steps)) / 2 for step in range(steps)]
    return [replace(optimiser, lr=rate) for rate in rates]


@torch.no_grad()
def clipped(grads: Sequence[Tensor], limit: float) -> list[Tensor]:
    """Return gradients, each (K, …), scaled down so that no client's norm over all of its own exceeds the limit.

    By limit / (norm + 1e-6) where that is below 1 (Pascanu, Mikolov and Bengio, ICML 2013).
    """
    squares = torch.stack([grad.reshape(len(grad), -1).square().sum(1) for grad in grads])
    factor = (limit / (ops.root(squares.sum(0)) + 1e-6)).clamp(max=1.0)
    return [grad * factor.view(-1, *[1] * (grad.dim() - 1)) for grad in grads]
