"""Train many fits in one computation: stacked parameters, joined graphs, one backward pass, one optimiser step.

Clients share no parameters, so the gradient of the sum of their losses holds each client's gradient in its
own slice.  Fits are grouped by loss, parameter shapes and given constants, and a group is split if it exceeds
the memory budget.  Training is full-batch: every step sees the whole graph, unless a run is built with a `step_data`
that takes a part of it (`learn/modules/batches.py`).
"""

from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from fedsim.core.arrays import Ints
from fedsim.core.errors import UserError
from fedsim.data.graph import Graph
from fedsim.learn import reported
from fedsim.learn.algorithm import Fit, Job
from fedsim.learn.engine import joining, layout, tree
from fedsim.learn.engine import optimiser as optimisers
from fedsim.learn.engine.optimiser import KeptState, Optimiser, OptimiserState, Schedule, Shelf, in_training
from fedsim.scenario.parts import source

if TYPE_CHECKING:
    from fedsim.learn.task import Task

JobFit = tuple[Job, Fit]
StepData = Callable[[Graph, Ints, int, int], Graph]  # of the graph, K seeds, the step and the number of its use
UNIONS_KEPT = 8  # unions of graphs kept, so that a recurring cohort is not joined again


@dataclass(eq=False)
class Trainer:
    """Train fits with one optimiser for a fixed number of steps.

    With `keep_state` each client's optimiser state is kept from job to job; about `budget` bytes are used at
    once.  `clip` bounds the norm of a client's gradient, after any correction; `schedule` is that of the
    learning rate.  With `reports` each job's memory keeps its first loss.  `step_bytes` tells what a step
    keeps beside nodes, None if nothing.  `step_data` returns the graph of a step, in training mode.
    """

    optimiser: Optimiser
    local_steps: int
    _: KW_ONLY
    keep_state: bool = True
    budget: int = 2**30
    clip: float | None = None
    schedule: Schedule = "constant"
    reports: bool = False
    step_bytes: Callable[[Graph], int] | None = None
    step_data: StepData = in_training

    def __post_init__(self) -> None:
        """Begin without anything kept."""
        self._of_step = optimisers.over_steps(self.optimiser, self.schedule, self.local_steps)
        self._shelves: dict[Any, Shelf] = {}  # by slot and shapes
        self._unions: OrderedDict[tuple[int, ...], tuple[list[Graph], Graph]] = OrderedDict()

    def step_flops(self, whole: float, task: "Task", graph: Graph) -> float:
        """Return the operations of one step on a client's graph, where a pass over all of it takes `whole`."""
        return whole

    def train(self, work: Sequence[JobFit]) -> list[tree.Tree]:
        """Return the trained parameters of each fit, in order, and leave optimiser state in the jobs' memories."""
        results: list[tree.Tree] = [None] * len(work)
        data = [job.data if fit.data is None else fit.data for job, fit in work]
        for group in self._groups(work, data):
            trained = self._train([work[i] for i in group], [data[i] for i in group])
            for index, params in zip(group, trained, strict=True):
                results[index] = params
        return results

    def _groups(self, work: Sequence[JobFit], data: Sequence[Graph]) -> list[list[int]]:
        """Return indexes of fits to train together, sorted by size to limit padding, within the budget."""
        alike: dict[Any, list[int]] = {}
        shapes, graphs = _Shapes(), list(map(layout.of, data))
        for index, (_, fit) in enumerate(work):
            kind: Any = index
            if not fit.each:
                trees = shapes.number(fit.start), shapes.number(fit.given)
                kind = fit.loss, fit.correct, fit.slot, fit.steps, trees
            alike.setdefault(kind, []).append(index)
        groups: list[list[int]] = []
        for members in alike.values():
            members.sort(key=lambda i: (graphs[i].nodes, work[i][0].client))
            room = -1
            for index in members:
                need = shapes.footprint(work[index][1], graphs[index])
                if self.step_bytes is not None:
                    need += self.step_bytes(data[index])
                if room < need:
                    groups.append([])
                    room = max(self.budget, need)
                groups[-1].append(index)
                room -= need
        return groups

    def _train(self, work: Sequence[JobFit], graphs: Sequence[Graph]) -> list[tree.Tree]:
        jobs, fits = [job for job, _ in work], [fit for _, fit in work]
        with torch.no_grad():
            starts = tree.stack([fit.start for fit in fits])
            params = tree.transform(lambda leaf: leaf.clone(memory_format=torch.contiguous_format), starts)
        leaves = list(tree.leaves(params))
        data = self._union(graphs)
        for leaf in leaves:
            leaf.requires_grad_(True)
        self._descend(jobs, fits, data, params, leaves)
        for leaf in leaves:
            leaf.requires_grad_(False)
        return tree.unstack(params, len(jobs))

    def _descend(
        self, jobs: Sequence[Job], fits: Sequence[Fit], data: Graph, params: tree.Tree, leaves: Sequence[Tensor]
    ) -> None:
        """Take the steps of fits of one loss: change the leaves of `params` in place, and keep optimiser states."""
        fit = fits[0]
        given = self._join([one.given for one in fits], data["y"].device)
        seeds = np.array([job.seed for job in jobs], dtype=np.int64)
        slot = fit.slot if self.keep_state else None
        state, shelf = self._state(jobs, slot, params)
        for step in range(self.local_steps)[slice(*fit.steps)]:
            use = iter(range(64))
            seeded = self.step_data(data, seeds, step, next(use))
            loss = fit.loss(params, seeded, seed_graphs(given, seeds, step, use))
            if loss.shape != seeds.shape:
                name, place = getattr(fit.loss, "__qualname__", "the loss"), source.line_of(fit.loss)
                wanted = f"a vector of {len(seeds)}, one for each client, not the shape {tuple(loss.shape)}"
                raise UserError(f"{name} must return {wanted} ({place})")
            if self.reports:
                reported.note(jobs, loss)
            grads = self._gradients(loss, leaves)
            if fit.correct is not None:
                grads = corrected(fit.correct, params, grads, given)
            grads = grads if self.clip is None else optimisers.clipped(grads, self.clip)
            self._of_step[step].apply(leaves, grads, state)
        if slot is not None:
            kept = [KeptState(state, k) for k in range(len(jobs))] if shelf is None else shelf.put(state, len(jobs))
            for job, one in zip(jobs, kept, strict=True):
                job.memory[f"optimiser.{slot}"] = one

    def _gradients(self, loss: Tensor, leaves: Sequence[Tensor]) -> list[Tensor]:
        """Return the gradient of each leaf, zero where the loss does not depend on it."""
        return list(torch.autograd.grad(loss.sum(), leaves, materialize_grads=True))

    def _state(self, jobs: Sequence[Job], slot: str | None, params: tree.Tree) -> tuple[OptimiserState, Shelf | None]:
        """Return each client's optimiser state, stacked, fresh for those without one, and the shelf it came from."""
        kept: list[Any] = [None if slot is None else job.memory.get(f"optimiser.{slot}") for job in jobs]
        if all(one is None for one in kept):
            return self.optimiser.start(params, len(jobs)), None
        if optimisers.same_cohort(kept):
            return tree.transform(torch.clone, kept[0].source), None
        shapes = slot, *(leaf.shape[1:] for leaf in tree.leaves(params))
        if shapes not in self._shelves:
            self._shelves[shapes] = Shelf.of(self._fresh(params), self.budget)
        shelf = self._shelves[shapes]
        taken = shelf.take(kept)
        if taken is not None:
            return taken, shelf
        fresh = KeptState(self._fresh(params), 0)
        return optimisers.gathered([one or fresh for one in kept]), None

    def _fresh(self, params: tree.Tree) -> OptimiserState:
        return self.optimiser.start(tree.transform(lambda leaf: leaf[:1], params), 1)

    def _union(self, graphs: Sequence[Graph]) -> Graph:
        if len(graphs) == 1:
            return graphs[0]
        key = tuple(map(id, graphs))
        if key not in self._unions:
            self._unions[key] = ([*graphs], joining.union(graphs))
            if len(self._unions) > UNIONS_KEPT:
                self._unions.popitem(last=False)
        self._unions.move_to_end(key)
        return self._unions[key][1]

    def _join(self, given: Sequence[Any], device: torch.device) -> Any:
        """Return the losses' constants with a client axis: graphs joined, tensors stacked, numbers as tensors."""
        first = given[0]
        if _is_graph(first):
            return self._union(given)
        if isinstance(first, dict):
            return {key: self._join([one[key] for one in given], device) for key in first}
        if isinstance(first, (list, tuple)):
            return type(first)(self._join(column, device) for column in zip(*given, strict=True))
        if first is None or isinstance(first, Tensor):
            return first if first is None else tree.stack(given)
        return torch.tensor(given, device=device)


def corrected(
    correct: Callable[[tree.Tree, tree.Tree], tree.Tree], params: tree.Tree, grads: Sequence[Tensor], given: Any
) -> list[Tensor]:
    """Return what the hook makes of the gradients, in the order of the parameters.

    Raises ValueError where it is no gradient for every parameter.
    """
    found = correct(tree.filled(params, grads), given)
    try:
        matched = list(tree.leaves(tree.transform(lambda _, grad: grad, params, found)))
        fits = [one.shape for one in matched] == [grad.shape for grad in grads]
    except (AttributeError, IndexError, KeyError, TypeError, ValueError):
        fits = False
    if not fits:
        name = getattr(correct, "__qualname__", repr(correct))
        raise ValueError(
            f"Fit.correct ({name}) must return a tree like the gradients that it is given, of the same names and "
            f"shapes, with the client axis first; the gradients are {_form(params)}, it has returned {_form(found)}"
        )
    return matched


def _form(node: tree.Tree) -> str:
    """Return the names and shapes of a tree, in a line."""
    if isinstance(node, dict):
        return "{" + ", ".join(f"{key}: {_form(value)}" for key, value in node.items()) + "}"
    if isinstance(node, (list, tuple)):
        return "[" + ", ".join(map(_form, node)) + "]"
    return str(tuple(node.shape)) if isinstance(node, Tensor) else type(node).__name__


class _Shapes:
    """Shapes of the trees of one call; fits share most of them, which are computed once.

    Each shape has a number, since nested shapes are slow to hash for every fit.
    """

    def __init__(self) -> None:
        self._known: dict[int, int] = {}
        self._numbers: dict[Any, int] = {}
        self._sizes: dict[int, tuple[int, int]] = {}

    def footprint(self, fit: Fit, graph: layout.GraphLayout) -> int:
        """Return the bytes of a fit, roughly: parameters, gradients, optimiser state, and activations both ways."""
        sizes = self._sizes.get(id(fit.start))
        if sizes is None:
            widest = max((leaf.shape[-1] for leaf in tree.leaves(fit.start)), default=1)
            sizes = self._sizes[id(fit.start)] = tree.count(fit.start), widest
        count, widest = sizes
        return 4 * (6 * count + graph.nodes * widest * 16 + graph.edges * widest * 2)

    def number(self, node: Any) -> int:
        """Return the number of a tree's shape."""
        if (known := self._known.get(id(node))) is not None:
            return known
        shape: Any = type(node)
        if isinstance(node, Tensor):
            shape = "tensor", *node.shape
        elif isinstance(node, (list, tuple)):
            shape = type(node), *map(self.number, node)
        elif _is_graph(node):
            shape = "graph"
        elif isinstance(node, dict):
            shape = tuple((key, self.number(value)) for key, value in node.items())
        number = self._known[id(node)] = self._numbers.setdefault(shape, len(self._numbers))
        return number


def _is_graph(node: Any) -> bool:
    return isinstance(node, dict) and "edges" in node and "sizes" in node


def seed_graphs(given: Any, seeds: Ints, step: int, use: Iterator[int]) -> Any:
    """Return what a loss is given with its graphs in training mode, each with a number of its own."""
    if _is_graph(given):
        return in_training(given, seeds, step, next(use))
    if isinstance(given, dict):
        return {key: seed_graphs(value, seeds, step, use) for key, value in given.items()}
    if isinstance(given, (list, tuple)):
        return type(given)(seed_graphs(value, seeds, step, use) for value in given)
    return given
