"""Adam and SGD on stacked parameters: one update for a whole cohort, each client with its own state.

A state is {"steps": (K,) float32, "first": tree, "second": tree} for Adam and {"steps", "first"} for SGD with
momentum.  Weight decay is L2, added to the gradient.  No AMSGrad.

Between rounds a client's memory holds a `KeptState`, which never changes its value, so that an older memory
still holds what it held.  Either it is a place in the state that its last cohort was trained with, or a row
of a `Shelf`, which it owns and gives back when nobody holds it any more.  A cohort that trains again as it is
keeps its state as it is; where cohorts mix, clients move onto the shelf, so that a cohort costs one call for
each tensor.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby, pairwise
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
import torch
from torch import Tensor

from fedsim.core.arrays import Ints
from fedsim.data.graph import Graph
from fedsim.learn.engine import layout, ops, rows, tree

if TYPE_CHECKING:
    from fedsim.learn.engine.torch_optimiser import TorchOptimiser

OptimiserState = dict[str, Any]
StepLoss = Callable[[Any, int], Tensor]
Schedule = Literal["constant", "cosine"]
LOWEST = 1e-5  # end of the cosine schedule
FEWEST = 16  # rows that a shelf begins with
RUN = 2**13  # numbers in a run of clients with equal steps from which torch's fused Adam is faster


@dataclass(frozen=True)
class Adam:
    """Adam (Kingma and Ba, ICLR 2015) with bias correction by each client's own number of steps."""

    lr: float
    weight_decay: float = 0.0
    beta1: float = 0.9
    beta2: float = 0.999
    eps: float = 1e-8

    def start(self, params: tree.Tree, clients: int) -> OptimiserState:
        """Return the state of clients that have not trained yet."""
        steps = torch.zeros(clients, device=next(tree.leaves(params)).device)
        return {"steps": steps, "first": tree.zeros_like(params), "second": tree.zeros_like(params)}

    @torch.no_grad()
    def apply(self, params: Sequence[Tensor], grads: Sequence[Tensor], state: OptimiserState) -> None:
        """Change params, each (K, …), and the state in place."""
        first, second = list(tree.leaves(state["first"])), list(tree.leaves(state["second"]))
        state["steps"] += 1
        runs = _runs(state["steps"])
        dense = all(leaf.is_contiguous() for leaf in (*params, *first, *second))
        if runs is not None and dense and sum(param.numel() for param in params) >= RUN * (len(runs) - 1):
            parts = [list(params), [grad.contiguous() for grad in grads], first, second]
            taken = [run[0] for run in state["steps"].split(runs)] * len(params)
            if len(runs) > 1:
                parts = [[part for leaf in leaves for part in leaf.split(runs)] for leaves in parts]  # type: ignore[no-untyped-call]
            torch._fused_adam_(  # in one pass over memory; it ignores strides, so that all must be contiguous
                parts[0], parts[1], parts[2], parts[3], [], taken, lr=self.lr, beta1=self.beta1, beta2=self.beta2,
                weight_decay=self.weight_decay, eps=self.eps, amsgrad=False, maximize=False,
            )  # fmt: skip
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


def _runs(steps: Tensor) -> list[int] | None:
    """Return the lengths of the runs of equal numbers of steps, or None if reading them would stall a GPU."""
    if steps.device.type != "cpu":
        return None
    taken = steps.numpy()
    ends = [*(np.flatnonzero(taken[1:] != taken[:-1]) + 1).tolist(), len(taken)]
    return [end - begin for begin, end in pairwise([0, *ends])]


@dataclass(frozen=True)
class SGD:
    """Stochastic gradient descent with heavy-ball momentum."""

    lr: float
    weight_decay: float = 0.0
    momentum: float = 0.0

    def start(self, params: tree.Tree, clients: int) -> OptimiserState:
        """Return the state of clients that have not trained yet."""
        state: OptimiserState = {"steps": torch.zeros(clients, device=next(tree.leaves(params)).device)}
        return {**state, "first": tree.zeros_like(params)} if self.momentum else state

    @torch.no_grad()
    def apply(self, params: Sequence[Tensor], grads: Sequence[Tensor], state: OptimiserState) -> None:
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


Optimiser: TypeAlias = "Adam | SGD | TorchOptimiser"


def build(name: str, lr: float, weight_decay: float, momentum: float) -> Optimiser:
    """Return the optimiser that a scenario's `training` section names."""
    return Adam(lr, weight_decay) if name == "adam" else SGD(lr, weight_decay, momentum)


def over_steps(optimiser: Optimiser, schedule: Schedule, steps: int) -> list[Optimiser]:
    """Return the optimiser of each of a job's steps, equal except for the learning rate; every job starts over.

    `cosine` falls from the optimiser's rate at the first step along half a cosine that would reach 1e-5 one
    step after the last (Loshchilov and Hutter, ICLR 2017, Eq. 5, without restarts); a rate below 1e-5 stays
    as it is.
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


@dataclass(slots=True, eq=False, repr=False)
class KeptState:
    """One client's optimiser state: a place in a cohort's state, which is never changed, or its row of a shelf."""

    source: "OptimiserState | Shelf"
    place: int

    @property
    def joined(self) -> OptimiserState:
        """The joined states that this one is a row of."""
        return self.source.state if isinstance(self.source, Shelf) else self.source

    def __repr__(self) -> str:
        """Return its steps, which stay the same wherever it lies."""
        return f"KeptState(steps={float(self.joined['steps'][self.place])})"

    def __del__(self) -> None:
        """Give the row back."""
        if isinstance(self.source, Shelf):
            self.source.free.append(self.place)

    def __deepcopy__(self, memo: object = None) -> "KeptState":
        """Return the same object: its value never changes, and a row has one owner."""
        return self

    __copy__ = __deepcopy__


@dataclass(eq=False)
class Shelf:
    """Rows of states of the same shapes; row 0 is the state of a client that has not trained yet."""

    state: OptimiserState  # every tensor (R, …)
    most: int  # rows that the memory bound allows
    free: list[int] = field(default_factory=list)

    @classmethod
    def of(cls, fresh: OptimiserState, budget: int) -> "Shelf":
        """Return a shelf that begins with one fresh state (1, …) and takes about `budget` bytes at most."""
        each = sum(leaf.numel() * leaf.element_size() for leaf in tree.leaves(fresh))
        return cls(fresh, max(1, budget // max(1, each)))

    def take(self, kept: Sequence[KeptState | None]) -> OptimiserState | None:
        """Return a copy of these states in order, None being a fresh one, or None where there is no room for them.

        Those that lie elsewhere move onto the shelf.
        """
        strangers: dict[int, list[KeptState]] = {}
        for one in kept:
            if one is not None and one.source is not self:
                strangers.setdefault(id(one.source), []).append(one)
        if not self._room(sum(map(len, strangers.values())) + len(kept)):  # the new states need as many again
            return None
        for moving in strangers.values():
            places = self._write(rows.gather([(moving[0].joined, [one.place for one in moving])]), len(moving))
            for one, place in zip(moving, places, strict=True):
                if isinstance(one.source, Shelf):
                    one.source.free.append(one.place)
                one.source, one.place = self, place
        index = torch.tensor([0 if one is None else one.place for one in kept], device=self.state["steps"].device)
        return tree.transform(lambda leaf: leaf.index_select(0, index), self.state)  # type: ignore[no-any-return]

    def put(self, state: OptimiserState, clients: int) -> list[KeptState]:
        """Store the states of a cohort (K, …) that were taken before; each is held as long as its KeptState."""
        self._room(clients)
        return [KeptState(self, place) for place in self._write(state, clients)]

    def _write(self, state: OptimiserState, clients: int) -> list[int]:
        places = [self.free.pop() for _ in range(clients)]
        index = torch.tensor(places, device=self.state["steps"].device)
        tree.transform(lambda leaf, new: leaf.index_copy_(0, index, new), self.state, state)
        return places

    def _room(self, count: int) -> bool:
        """Return whether that many rows are free, after adding some if the memory bound allows."""
        have = len(self.state["steps"])
        lacking = count - len(self.free)
        if lacking <= 0:
            return True
        if have + lacking > self.most:
            return False
        grown = min(self.most, max(have + lacking, 2 * have, FEWEST))
        more = tree.transform(lambda leaf: leaf.new_empty(grown - have, *leaf.shape[1:]), self.state)
        self.state = tree.transform(lambda leaf, new: torch.cat([leaf, new]), self.state, more)
        self.free.extend(range(have, grown))
        return True


def gathered(kept: Sequence[KeptState]) -> OptimiserState:
    """Return a copy of these states, in order, from wherever they lie."""
    runs = [list(run) for _, run in groupby(kept, lambda one: id(one.source))]
    joined: OptimiserState = rows.gather([(run[0].joined, [one.place for one in run]) for run in runs])
    return tree.transform(torch.clone, joined) if len(runs) == 1 else joined


def same_cohort(kept: Sequence[KeptState | None]) -> bool:
    """Return whether these are all states of one cohort, in its order."""
    source = kept[0] and kept[0].source
    if not isinstance(source, dict) or len(source["steps"]) != len(kept):
        return False
    return all(one is not None and one.source is source and one.place == k for k, one in enumerate(kept))


def descend(
    start: tree.Tree, loss: StepLoss, optimiser: Optimiser, steps: int, state: OptimiserState | None = None
) -> tuple[tree.Tree, OptimiserState]:
    """Return parameters after so many steps, and the optimiser's state, to be passed in again to continue.

    `loss` takes the parameters with a leading client axis of one, and the number of the step from 0; it
    returns one number, () or (1,).  A parameter that it does not depend on has the gradient zero.  `state`
    None begins anew.
    """
    params = tree.transform(lambda leaf: leaf.detach().unsqueeze(0).clone(), start)
    moments = optimiser.start(params, 1) if state is None else tree.transform(torch.clone, state)
    leaves = [leaf.requires_grad_(True) for leaf in tree.leaves(params)]
    for step in range(steps):
        grads = torch.autograd.grad(loss(params, step).sum(), leaves, materialize_grads=True)
        optimiser.apply(leaves, list(grads), moments)
    return tree.at(tree.transform(torch.detach, params), 0), moments


def slopes(start: tree.Tree, function: Callable[[tree.Tree], Tensor]) -> tree.Tree:
    """Return the gradient of a function of one set of parameters, stacked; zero where there is none."""
    params = tree.transform(lambda leaf: leaf.detach().clone().unsqueeze(0).requires_grad_(True), start)
    grads = torch.autograd.grad(function(params), list(tree.leaves(params)), materialize_grads=True)
    return tree.filled(start, (grad.squeeze(0) for grad in grads))


def in_training(graph: Graph, seed: int | Sequence[int] | Ints, step: int, use: int = 0) -> Graph:
    """Return the graph in training mode: what a step drops is drawn from the seed and the step's number.

    A union of K graphs takes K seeds.  Graphs that a step uses beside its data have other numbers of the `use`.
    """
    layout.of(graph)  # derived once, on the graph that is kept, for all steps
    seeds = ops.seed_steps(np.atleast_1d(np.asarray(seed, dtype=np.int64)), step, use)
    return Graph(**{**graph, "seed": torch.from_numpy(seeds).to(graph["y"].device)})
