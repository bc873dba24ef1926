"""L-BFGS for many small independent problems at once, without a line search.

Each row of x (B, F) is its own problem with its own history; the rows advance together, so that a hundred problems
cost little more than one.  Step lengths, the curvature test and the first, scaled step are those of
`torch.optim.LBFGS` with `line_search_fn=None` (Nocedal and Wright, Numerical Optimization, Alg. 7.4).
"""

from collections.abc import Callable

import torch
from torch import Tensor

Objective = Callable[[Tensor], Tensor]  # (B, F) → (B,)


def minimise(
    objective: Objective,
    start: Tensor,
    *,
    iterations: int,
    lr: float = 1.0,
    history: int = 100,
    gradient_tolerance: float = 1e-7,
    change: float = 1e-12,
    patience: int = 3,
) -> tuple[Tensor, Tensor]:
    """Return the last x (B, F) and its objective (B,).

    A row stops where its largest gradient is within the tolerance, where its objective has changed by less than
    `change` for `patience` iterations in a row, or where it is no longer finite; then it is left as it is.
    """
    x = start.detach().clone()
    value, gradient = _evaluate(objective, x)
    rows = len(x)
    active = gradient.abs().amax(1) > gradient_tolerance
    still = torch.zeros(rows, dtype=torch.long, device=x.device)
    steps: list[Tensor] = []
    changes: list[Tensor] = []
    inverse: list[Tensor] = []
    diagonal = torch.ones(rows, 1, dtype=x.dtype, device=x.device)
    direction = -gradient
    length = lr * (1 / gradient.abs().sum(1, keepdim=True)).clamp(max=1)
    for _ in range(iterations):
        if not bool(active.any()):
            break
        step = torch.where(active.unsqueeze(1), direction * length, torch.zeros_like(x))
        x = x + step
        new_value, new_gradient = _evaluate(objective, x)
        still = torch.where((new_value - value).abs() < change, still + 1, torch.zeros_like(still))
        difference = new_gradient - gradient
        curvature = (difference * step).sum(1, keepdim=True)
        good = curvature > 1e-10
        safe = torch.where(good, curvature, torch.ones_like(curvature))
        diagonal = torch.where(good, curvature / (difference * difference).sum(1, keepdim=True).clamp(min=1e-300), diagonal)
        steps.append(torch.where(good, step, torch.zeros_like(step)))
        changes.append(torch.where(good, difference, torch.zeros_like(step)))
        inverse.append(torch.where(good, 1 / safe, torch.zeros_like(safe)))
        if len(steps) > history:
            del steps[0], changes[0], inverse[0]
        value, gradient = new_value, new_gradient
        finite = torch.isfinite(value) & torch.isfinite(gradient).all(1)
        active = active & finite & (gradient.abs().amax(1) > gradient_tolerance) & (still < patience)
        direction = _direction(gradient, steps, changes, inverse, diagonal)
        length = torch.full_like(length, lr)
    return x, value


def _evaluate(objective: Objective, x: Tensor) -> tuple[Tensor, Tensor]:
    variable = x.detach().requires_grad_(True)
    with torch.enable_grad():
        value = objective(variable)
        (gradient,) = torch.autograd.grad(value.sum(), variable)
    return value.detach(), gradient


def _direction(
    gradient: Tensor, steps: list[Tensor], changes: list[Tensor], inverse: list[Tensor], diagonal: Tensor
) -> Tensor:
    """The two-loop recursion; a pair that failed the curvature test is zero and drops out."""
    direction = -gradient
    shares = []
    for step, difference, rho in zip(reversed(steps), reversed(changes), reversed(inverse), strict=True):
        share = rho * (step * direction).sum(1, keepdim=True)
        direction = direction - share * difference
        shares.append(share)
    direction = direction * diagonal
    for step, difference, rho, share in zip(steps, changes, inverse, reversed(shares), strict=True):
        direction = direction + step * (share - rho * (difference * direction).sum(1, keepdim=True))
    return direction
