"""L-BFGS for many small independent problems at once, without a line search.

Each row of x (B, F) is its own problem with its own history; the rows advance together, so that a hundred problems
cost little more than one.  Step lengths, the curvature test and the first, scaled step are those of
`torch.optim.LBFGS` with `line_search_fn=None`; the direction is the compact form of the two-loop recursion (Byrd,
Nocedal and Schnabel, Mathematical Programming 1994, Theorem 2.2), a few batched products.  Problems without a
curvature that L-BFGS can follow diverge; they are stopped, not repaired.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

Objective = Callable[[Tensor, Tensor], Tensor]  # x (b, F) and the numbers of their problems (b,) → (b,)


@dataclass(frozen=True)
class Rules:
    """When a row stops, and how much it remembers."""

    iterations: int  # at most
    lr: float = 1.0  # step length after the first
    history: int = 100  # pairs of steps and gradient changes
    gradient: float = 1e-7  # largest entry of the gradient that counts as none
    change: float = 1e-12  # change of the objective that counts as none
    patience: int = 3  # iterations in a row without change
    hope: int = 60  # iterations in a row in which the best objective has not fallen by a hundredth


def minimise(objective: Objective, start: Tensor, rules: Rules) -> tuple[Tensor, Tensor]:
    """Return each row's best x (B, F) and its objective (B,), infinite for a row that was never finite.

    A row stops when its gradient or its change vanishes, when it is beyond hope, or when it is no longer finite.
    """
    best_x, best = start.detach().clone(), start.new_full((len(start),), torch.inf)
    rows = torch.arange(len(start), device=start.device)
    x = start.detach().clone()
    value, gradient = _evaluate(objective, x, rows)
    best[rows] = value
    still = hopeless = torch.zeros_like(rows)
    memory = _Memory(x, rules.history)
    step = -gradient * (rules.lr * (1 / gradient.abs().sum(1, keepdim=True)).clamp(max=1))
    for _ in range(rules.iterations):
        x = x + step
        new_value, new_gradient = _evaluate(objective, x, rows)
        still = torch.where((new_value - value).abs() < rules.change, still + 1, 0)
        hopeless = torch.where(new_value < 0.99 * best[rows], 0, hopeless + 1)
        better = new_value < best[rows]
        best_x[rows[better]], best[rows[better]] = x[better], new_value[better]
        memory.add(step, new_gradient - gradient)
        value, gradient = new_value, new_gradient
        go = torch.isfinite(value) & torch.isfinite(gradient).all(1) & (gradient.abs().amax(1) > rules.gradient)
        go &= (still < rules.patience) & (hopeless < rules.hope)
        if not bool(go.all()):
            if not bool(go.any()):
                break
            x, value, gradient, rows, still, hopeless = (
                part[go] for part in (x, value, gradient, rows, still, hopeless)
            )
            memory.keep(go)
        step = -rules.lr * memory.scaled(gradient)
    return best_x, best


def _evaluate(objective: Objective, x: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
    variable = x.detach().requires_grad_(True)
    with torch.enable_grad():
        value = objective(variable, rows)
        (gradient,) = torch.autograd.grad(value.sum(), variable)
    return value.detach(), gradient


class _Memory:
    """The latest steps s and gradient changes y of each row, and the products among them."""

    def __init__(self, like: Tensor, history: int) -> None:
        rows, features = like.shape
        self._history = history
        self._s = like.new_zeros(rows, 0, features)
        self._y = like.new_zeros(rows, 0, features)
        self._sy = like.new_zeros(rows, 0, 0)
        self._yy = like.new_zeros(rows, 0, 0)
        self._gamma = like.new_ones(rows, 1)

    def add(self, s: Tensor, y: Tensor) -> None:
        """Remember a pair (b, F) each; one without positive curvature counts as zero and drops out."""
        curvature = (s * y).sum(1, keepdim=True)
        good = curvature > 1e-10
        self._gamma = torch.where(good, curvature / (y * y).sum(1, keepdim=True).clamp(min=1e-300), self._gamma)
        s, y = torch.where(good, s, 0).unsqueeze(1), torch.where(good, y, 0).unsqueeze(1)
        if self._s.shape[1] == self._history:
            self._s, self._y = self._s[:, 1:], self._y[:, 1:]
            self._sy, self._yy = self._sy[:, 1:, 1:], self._yy[:, 1:, 1:]
        corner = torch.where(good, curvature, 1.0).unsqueeze(2)  # one on the diagonal keeps a dropped pair solvable
        self._sy = _bordered(self._sy, self._s @ y.mT, s @ self._y.mT, corner)
        self._yy = _bordered(self._yy, self._y @ y.mT, y @ self._y.mT, y @ y.mT)
        self._s, self._y = torch.cat([self._s, s], 1), torch.cat([self._y, y], 1)

    def keep(self, rows: Tensor) -> None:
        """Forget all but these rows."""
        self._s, self._y, self._sy, self._yy = self._s[rows], self._y[rows], self._sy[rows], self._yy[rows]
        self._gamma = self._gamma[rows]

    def scaled(self, gradient: Tensor) -> Tensor:
        """Return the inverse Hessian's estimate times the gradient (b, F)."""
        g, gamma = gradient.unsqueeze(2), self._gamma.unsqueeze(2)
        upper = torch.triu(self._sy)
        u = torch.linalg.solve_triangular(upper, self._s @ g, upper=True)
        inner = self._sy.diagonal(dim1=1, dim2=2).unsqueeze(2) * u + gamma * (self._yy @ u - self._y @ g)
        w = torch.linalg.solve_triangular(upper.mT, inner, upper=False)
        direction: Tensor = gamma * g + self._s.mT @ w - gamma * (self._y.mT @ u)
        return direction.squeeze(2)


def _bordered(square: Tensor, column: Tensor, row: Tensor, corner: Tensor) -> Tensor:
    """Return a matrix (b, m, m) with one more column, row and corner."""
    return torch.cat([torch.cat([square, column], 2), torch.cat([row, corner], 2)], 1)
