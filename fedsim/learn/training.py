"""Train many fits in one computation: stacked parameters, joined graphs, one backward pass, one optimiser step.

Clients share no parameters, so the gradient of the sum of their losses holds each client's gradient in its own slice.
Fits are grouped by loss, parameter shapes and given constants, and a group is split if it exceeds the memory budget.
Training is full-batch: every step sees the whole graph.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from fedsim.data.graph import Graph
from fedsim.learn import joining, layout, moments, ops, reported, tree
from fedsim.learn.algorithm import Fit, Job
from fedsim.learn.moments import Kept, Shelf
from fedsim.learn.optimiser import Optimiser, Schedule, State, clipped, over_steps

Work = tuple[Job, Fit]
Ints = npt.NDArray[np.int64]
UNIONS_KEPT = 8  # unions of graphs kept, so that a recurring cohort is not joined again


class Trainer:
    """Train fits with one optimiser for a fixed number of steps."""

    def __init__(
        self,
        optimiser: Optimiser,
        local_steps: int,
        *,
        keep_state: bool = True,
        budget: int = 2**30,
        clip: float | None = None,
        schedule: Schedule = "constant",
        reports: bool = False,
        step_bytes: Callable[[Graph], int] = lambda graph: 0,
    ) -> None:
        """Keep each client's optimiser state from job to job if `keep_state`; use about `budget` bytes at once.

        `clip` bounds the norm of a client's gradient, after any correction; `schedule` is that of the learning rate.
        With `reports` each job's memory keeps its first loss.  `step_bytes` tells what a step keeps beside vertices.
        """
        self.optimiser = optimiser
        self._of_step = over_steps(optimiser, schedule, local_steps)
        self._clip, self._reports, self._step_bytes = clip, reports, step_bytes
        self.local_steps = local_steps
        self._keep_state = keep_state
        self._budget = budget
        self._shelves: dict[Any, Shelf] = {}  # by slot and shapes
        self._unions: OrderedDict[tuple[int, ...], tuple[list[Graph], Graph]] = OrderedDict()

    def train(self, work: Sequence[Work]) -> list[tree.Tree]:
        """Return the trained parameters of each fit, in order, and leave optimiser state in the jobs' memories."""
        results: list[tree.Tree] = [None] * len(work)
        for group in self._groups(work):
            for index, params in zip(group, self._train([work[i] for i in group]), strict=True):
                results[index] = params
        return results

    def _groups(self, work: Sequence[Work]) -> list[list[int]]:
        """Return indexes of fits to train together, sorted by size to limit padding, within the budget."""
        alike: dict[Any, list[int]] = {}
        shapes, graphs = _Shapes(), [layout.of(_data(item)) for item in work]
        for index, (_, fit) in enumerate(work):
            alike.setdefault(index if fit.each else shapes.kind(fit), []).append(index)
        groups: list[list[int]] = []
        for members in alike.values():
            members.sort(key=lambda i: (graphs[i].vertices, work[i][0].client))
            room = -1
            for index in members:
                need = shapes.footprint(work[index][1], graphs[index]) + self._step_bytes(_data(work[index]))
                if room < need:
                    groups.append([])
                    room = max(self._budget, need)
                groups[-1].append(index)
                room -= need
        return groups

    def _train(self, work: Sequence[Work]) -> list[tree.Tree]:
        jobs, fits = [job for job, _ in work], [fit for _, fit in work]
        with torch.no_grad():
            params = tree.transform(lambda leaf: leaf.clone(memory_format=torch.contiguous_format), _stack(fits))
        leaves = list(tree.leaves(params))
        data = self._union([_data(item) for item in work])
        given = self._join([fit.given for fit in fits], data["y"].device)
        graphs = _has_graph(given)
        seeds = np.array([job.seed for job in jobs], dtype=np.int64)
        state, shelf = self._state(jobs, fits[0].slot, params)
        for leaf in leaves:
            leaf.requires_grad_(True)
        for step in range(self.local_steps)[slice(*fits[0].steps)]:
            use = iter(range(64))
            seeded = _seeded(data, ops.seed_steps(seeds, step, next(use)))
            known = _seed_graphs(given, seeds, step, use) if graphs else given
            loss = fits[0].loss(params, seeded, known)
            if self._reports:
                reported.note(jobs, loss)
            grads: Sequence[Tensor] = torch.autograd.grad(loss.sum(), leaves, allow_unused=True)
            grads = [torch.zeros_like(leaf) if grad is None else grad for leaf, grad in zip(leaves, grads, strict=True)]
            if fits[0].correct is not None:
                grads = _corrected(fits[0].correct, params, grads, given)
            grads = grads if self._clip is None else clipped(grads, self._clip)
            self._of_step[step].apply(leaves, grads, state)
        self._remember(jobs, fits[0].slot, state, shelf)
        for leaf in leaves:
            leaf.requires_grad_(False)
        return tree.unstack(params, len(jobs))

    def _state(self, jobs: Sequence[Job], slot: str | None, params: tree.Tree) -> tuple[State, Shelf | None]:
        """Return each client's optimiser state, stacked, fresh for those without one, and the shelf it came from."""
        kept: list[Kept | None] = [None] * len(jobs)
        if slot is not None and self._keep_state:
            kept = [job.memory.get(f"optimiser.{slot}") for job in jobs]
        if all(one is None for one in kept):
            return self.optimiser.start(params, len(jobs)), None
        if moments.whole(kept):
            return tree.transform(torch.clone, kept[0].source), None  # type: ignore[union-attr]
        shelf = self._shelf(slot, params)
        taken = shelf.take(kept)
        if taken is not None:
            return taken, shelf
        fresh = Kept(self._fresh(params), 0)
        return moments.gathered([one or fresh for one in kept]), None

    def _shelf(self, slot: str | None, params: tree.Tree) -> Shelf:
        shapes = slot, *(leaf.shape[1:] for leaf in tree.leaves(params))
        if shapes not in self._shelves:
            self._shelves[shapes] = Shelf.of(self._fresh(params), self._budget)
        return self._shelves[shapes]

    def _fresh(self, params: tree.Tree) -> State:
        return self.optimiser.start(tree.transform(lambda leaf: leaf[:1], params), 1)

    def _remember(self, jobs: Sequence[Job], slot: str | None, state: State, shelf: Shelf | None) -> None:
        if slot is None or not self._keep_state:
            return
        kept = [Kept(state, k) for k in range(len(jobs))] if shelf is None else shelf.put(state, len(jobs))
        for job, one in zip(jobs, kept, strict=True):
            job.memory[f"optimiser.{slot}"] = one

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
        if all(one is first for one in given):
            return self._repeated(first, len(given), device)
        if _is_graph(first):
            return self._union(given)
        if isinstance(first, dict):
            return {key: self._join([one[key] for one in given], device) for key in first}
        if isinstance(first, (list, tuple)):
            return type(first)(self._join(column, device) for column in zip(*given, strict=True))
        return tree.stack(given) if isinstance(first, Tensor) else torch.tensor(given, device=device)

    def _repeated(self, one: Any, clients: int, device: torch.device) -> Any:
        """Return what `_join` makes of constants that all clients share."""
        if _is_graph(one):
            return self._union([one] * clients)
        if isinstance(one, dict):
            return {key: self._repeated(value, clients, device) for key, value in one.items()}
        if isinstance(one, (list, tuple)):
            return type(one)(self._repeated(value, clients, device) for value in one)
        if isinstance(one, Tensor):
            return one.expand(clients, *one.shape)
        return None if one is None else torch.tensor([one] * clients, device=device)


def _corrected(
    correct: Callable[[tree.Tree, tree.Tree], tree.Tree], params: tree.Tree, grads: Sequence[Tensor], given: Any
) -> list[Tensor]:
    """Return what the hook makes of the gradients, in the order of the parameters.

    Raises ValueError where it is no gradient for every parameter.
    """
    order = iter(grads)
    found = correct(tree.transform(lambda _: next(order), params), given)
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


def _stack(fits: Sequence[Fit]) -> tree.Tree:
    return tree.stack([fit.start for fit in fits])


def _data(item: Work) -> Graph:
    job, fit = item
    return job.data if fit.data is None else fit.data


class _Shapes:
    """Shapes of the trees of one call; fits share most of them, which are computed once.

    Each shape has a number, since nested shapes are slow to hash for every fit.
    """

    def __init__(self) -> None:
        self._known: dict[int, int] = {}
        self._numbers: dict[Any, int] = {}
        self._sizes: dict[int, tuple[int, int]] = {}

    def kind(self, fit: Fit) -> Any:
        """Return what fits must share to be one computation."""
        return (fit.loss, fit.correct, fit.slot, fit.steps, self._of(fit.start), self._of(fit.given))

    def footprint(self, fit: Fit, graph: layout.Layout) -> int:
        """Return the bytes of a fit, roughly: parameters, gradients, optimiser state, and activations both ways."""
        sizes = self._sizes.get(id(fit.start))
        if sizes is None:
            widest = max((leaf.shape[-1] for leaf in tree.leaves(fit.start)), default=1)
            sizes = self._sizes[id(fit.start)] = tree.count(fit.start), widest
        count, widest = sizes
        return 4 * (6 * count + graph.vertices * widest * 16 + graph.edges * widest * 2)

    def _of(self, node: Any) -> int:
        known = self._known.get(id(node))
        if known is None:
            known = self._known[id(node)] = self._numbers.setdefault(self._look(node), len(self._numbers))
        return known

    def _look(self, node: Any) -> Any:
        if isinstance(node, Tensor):
            return "tensor", *node.shape
        if not isinstance(node, (dict, list, tuple)):
            return type(node)
        if not isinstance(node, dict):
            return type(node), *map(self._of, node)
        if _is_graph(node):
            return "graph"
        return tuple((key, self._of(value)) for key, value in node.items())


def _is_graph(node: Any) -> bool:
    return isinstance(node, dict) and "edges" in node and "sizes" in node


def _seeded(graph: Graph, seeds: Ints) -> Graph:
    """Return the graph in training mode, with dropout drawn from these seeds."""
    layout.of(graph)
    return Graph(**{**graph, "seed": torch.from_numpy(seeds).to(graph["y"].device)})


def _has_graph(node: Any) -> bool:
    if isinstance(node, dict):
        return _is_graph(node) or any(map(_has_graph, node.values()))
    return isinstance(node, (list, tuple)) and any(map(_has_graph, node))


def _seed_graphs(given: Any, seeds: Ints, step: int, use: Iterator[int]) -> Any:
    if _is_graph(given):
        return _seeded(given, ops.seed_steps(seeds, step, next(use)))
    if isinstance(given, dict):
        return {key: _seed_graphs(value, seeds, step, use) for key, value in given.items()}
    if isinstance(given, (list, tuple)):
        return type(given)(_seed_graphs(value, seeds, step, use) for value in given)
    return given
