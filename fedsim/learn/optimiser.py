"""Adam and SGD on stacked parameters: one update for a whole cohort, each client with its own state.

State is {"steps": (K,) float32, "first": tree, "second": tree} for Adam and {"steps", "first"} for SGD with momentum;
a client's part of it stays in its memory between rounds.  Weight decay is L2, added to the gradient (power.md 1.7).
No schedules, no AMSGrad, no clipping.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from fedsim.learn import tree

State = dict[str, Any]
RUN = 2**13  # numbers of clients of equally many steps from which torch's fused Adam is faster than a chain


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
        root = (1 - self.beta2**steps).sqrt().float()
        denominators = torch._foreach_sqrt(second)
        for param, mean, denominator in zip(params, first, denominators, strict=True):
            shape = (-1,) + (1,) * (param.dim() - 1)
            denominator.div_(root.view(shape)).add_(self.eps)
            param.sub_(mean.div(denominator).mul_(size.view(shape)))

    def _fused(self, parts: Sequence[list[Tensor]], steps: Tensor, runs: Sequence[int]) -> None:
        """Do the same to params, grads and both moments, cut into runs, reading and writing everything only once.

        torch's kernel does not look at strides: all of them must be contiguous.
        """
        params, grads, first, second = parts
        taken = [run[0] for run in steps.split(list(runs))] * (len(params) // len(runs))  # type: ignore[no-untyped-call]
        torch._fused_adam_(
            params, grads, first, second, [], taken, lr=self.lr, beta1=self.beta1, beta2=self.beta2,
            weight_decay=self.weight_decay, eps=self.eps, amsgrad=False, maximize=False,
        )  # fmt: skip


def _runs(steps: Tensor) -> list[int] | None:
    """Return the lengths of the runs of equal numbers of steps, or None where to ask would make a GPU wait."""
    if steps.device.type != "cpu":
        return None
    lengths: list[int] = torch.unique_consecutive(steps, return_counts=True)[1].tolist()
    return lengths


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
