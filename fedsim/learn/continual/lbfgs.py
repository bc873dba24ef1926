"""L-BFGS for many small independent problems at once, without a line search.

Each row of x (B, F) is its own problem with its own history; the rows advance together, so that ten problems
cost little more than one.  Step lengths, the curvature test and the first, scaled step are those of
`torch.optim.LBFGS` with `line_search_fn=None`; the direction is the compact form of the two-loop recursion
(Byrd, Nocedal and Schnabel, Mathematical Programming 1994, Theorem 2.2), a few batched products.  Problems
without a curvature that L-BFGS can follow diverge; they are stopped, not repaired.

All of it is on the host, where an iteration of a few rows takes less than a millisecond.  A vector stands on
the left of its matrix in every product, (1, m) by (m, n): the other way round MKL takes four times as long.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

# x (b, F) and the numbers of their problems → values (b,) and gradients (b, F).  Numbers begin as 0, 1, …; whenever a
# problem has ended, the last one of the list takes its place.
Objective = Callable[[Tensor, Sequence[int]], tuple[Tensor, Tensor]]

LEAST_GRADIENT = 1e-7  # largest entry of the gradient that counts as none
LEAST_CURVATURE = 1e-10  # product of a step and the change of its gradient that counts
LEAST_CHANGE = 1e-12  # change of the objective that counts as none
PATIENCE = 3  # iterations in a row without change
ROOM = 64  # pairs that memory is taken for at first


def minimise(
    objective: Objective, start: Tensor, iterations: int, *, history: int = 100, hope: int = 60
) -> tuple[Tensor, Tensor]:
    """Return each row's best x (B, F) and its objective (B,), infinite for a row that was never finite.

    A row stops when its gradient or its change vanishes, when its best objective has not fallen by a hundredth in
    `hope` iterations in a row, or when it is no longer finite.  `history` pairs of steps and gradient changes are kept.
    """
    found, least = start.clone(), torch.full_like(start[:, 0], torch.inf)
    _descend(objective, start, iterations, _Memory(start, history), hope, found, least)
    return found, least


@torch.inference_mode()  # what it is handed to write into are no inference tensors, so that they can be learned from
def _descend(
    objective: Objective, start: Tensor, iterations: int, memory: "_Memory", hope: int, found: Tensor, least: Tensor
) -> None:
    rows = list(range(len(start)))  # the problems that go on; place i in every other array is that of rows[i]
    x, best_x = start.clone(), start.clone()
    value, gradient = objective(x, rows)
    values, best = value.tolist(), [number if math.isfinite(number) else math.inf for number in value.tolist()]
    still, hopeless = [0] * len(rows), [0] * len(rows)
    step = -gradient * (1 / gradient.abs().sum(1, keepdim=True)).clamp(max=1)
    for _ in range(iterations):
        x += step
        value, new_gradient = objective(x, rows)
        memory.add(step, new_gradient - gradient)
        gradient, before, values = new_gradient, values, value.tolist()
        steepest = gradient.abs().amax(1).tolist()
        better = [new < old for new, old in zip(values, best, strict=True)]
        if all(better):
            best_x.copy_(x)
        elif any(better):
            torch.where(torch.tensor(better).unsqueeze(1), x, best_x, out=best_x)
        for i in range(len(rows) - 1, -1, -1):  # from the last, so that what takes an ended one's place was looked at
            still[i] = still[i] + 1 if abs(values[i] - before[i]) < LEAST_CHANGE else 0
            hopeless[i] = 0 if values[i] < 0.99 * best[i] else hopeless[i] + 1
            best[i] = values[i] if better[i] else best[i]
            finite = math.isfinite(values[i]) and math.isfinite(steepest[i])
            if finite and steepest[i] > LEAST_GRADIENT and still[i] < PATIENCE and hopeless[i] < hope:
                continue
            found[rows[i]], least[rows[i]] = best_x[i], best[i]
            for held in (rows, values, best, still, hopeless):
                _close(held, i)
            for part in (x, best_x, gradient, *memory.parts):
                part[i] = part[len(rows)]
        if not rows:
            break
        x, best_x, gradient = x[: len(rows)], best_x[: len(rows)], gradient[: len(rows)]
        step = -memory.scaled(gradient)
    for i, row in enumerate(rows):
        found[row], least[row] = best_x[i], best[i]


def _close(held: list[Any], place: int) -> None:
    """Take one out, and put the last one in its place."""
    held[place] = held[-1]
    held.pop()


class _Memory:
    """The latest steps s and gradient changes y of each row, and the products among them.

    Arrays have room for more pairs than there are; those that count are `first` to `last`.
    """

    def __init__(self, like: Tensor, history: int) -> None:
        rows, width = like.shape
        self._history, self._first, self._last = history, 0, 0
        room = min(ROOM, 2 * history)
        self._pairs = like.new_empty(rows, room, 2, width)  # s and y
        self._inverse = like.new_zeros(rows, room, room)  # of R, the upper triangle of sᵢ · yⱼ
        self._yy = like.new_zeros(rows, room, room)
        self._diagonal = like.new_ones(rows, room)  # of R
        self._gamma = like.new_ones(rows, 1)

    @property
    def parts(self) -> tuple[Tensor, ...]:
        """All arrays, whose first axis is that of the rows."""
        return self._pairs, self._inverse, self._yy, self._diagonal, self._gamma

    def add(self, s: Tensor, y: Tensor) -> None:
        """Remember a pair (b, F) each; one without positive curvature counts as zero and drops out."""
        if self._last == self._pairs.shape[1]:
            self._make_room()
        b, held, at = len(s), slice(self._first, self._last), self._last
        curvature, square = (s * y).sum(1, keepdim=True), (y * y).sum(1, keepdim=True)
        gamma = self._gamma[:b]
        if all(each > LEAST_CURVATURE for each in curvature[:, 0].tolist()):
            torch.div(curvature, square.clamp(min=1e-300), out=gamma)
        else:
            good = curvature > LEAST_CURVATURE
            s, y, square = torch.where(good, s, 0), torch.where(good, y, 0), torch.where(good, square, 0)
            curvature = torch.where(good, curvature, 1.0)  # one on the diagonal keeps a dropped pair solvable
            gamma.copy_(torch.where(good, curvature / square.clamp(min=1e-300), gamma))
        products = torch.bmm(y.unsqueeze(1), self._flat(b, held).mT).view(b, -1, 2)
        column = torch.bmm(products[:, :, 0].unsqueeze(1), self._inverse[:b, held, held].mT)
        torch.div(column.squeeze(1), -curvature, out=self._inverse[:b, held, at])
        self._inverse[:b, at, at] = 1 / curvature[:, 0]
        self._yy[:b, held, at] = self._yy[:b, at, held] = products[:, :, 1]
        self._yy[:b, at, at] = square[:, 0]
        self._diagonal[:b, at] = curvature[:, 0]
        torch.stack([s, y], 1, out=self._pairs[:b, at])
        self._last += 1
        self._first = max(self._first, self._last - self._history)

    def scaled(self, gradient: Tensor) -> Tensor:
        """Return the inverse Hessian's estimate times the gradient (b, F)."""
        b, held = len(gradient), slice(self._first, self._last)
        gamma, inverse, pairs = self._gamma[:b], self._inverse[:b, held, held], self._flat(b, held)
        products = torch.bmm(gradient.unsqueeze(1), pairs.mT).view(b, -1, 2)
        u = torch.bmm(products[:, :, 0].unsqueeze(1), inverse.mT)
        inner = torch.bmm(u, self._yy[:b, held, held]).squeeze(1).sub_(products[:, :, 1]).mul_(gamma)
        inner.addcmul_(self._diagonal[:b, held], u.squeeze(1))
        w = torch.bmm(inner.unsqueeze(1), inverse)
        shares = torch.stack([w.squeeze(1), u.squeeze(1) * -gamma], 2).view(b, 1, -1)
        return torch.baddbmm((gamma * gradient).unsqueeze(1), shares, pairs).squeeze(1)

    def _flat(self, b: int, held: slice) -> Tensor:
        """Return s and y of the pairs held, in turn: (b, 2 m, F)."""
        return self._pairs[:b, held].flatten(1, 2)

    def _make_room(self) -> None:
        """Move the pairs that count to the beginning of larger arrays, as far as there can be more of them."""
        count, held = self._last - self._first, slice(self._first, self._last)
        room = min(2 * self._history, 2 * self._pairs.shape[1])
        pairs, inverse, yy, diagonal, _ = self.parts
        rows, width = len(pairs), pairs.shape[3]
        self._pairs = pairs.new_empty(rows, room, 2, width)
        self._inverse, self._yy = inverse.new_zeros(rows, room, room), yy.new_zeros(rows, room, room)
        self._diagonal = diagonal.new_ones(rows, room)
        self._pairs[:, :count], self._diagonal[:, :count] = pairs[:, held], diagonal[:, held]
        self._inverse[:, :count, :count], self._yy[:, :count, :count] = inverse[:, held, held], yy[:, held, held]
        self._first, self._last = 0, count
