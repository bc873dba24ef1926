"""Training on the server: full-batch steps of one set of parameters, on graphs that the server has generated.

The optimisers are those of the clients (`fedsim.learn.optimiser`), for a cohort of one.  Arguments are
never changed in place, as a server's state may have travelled and old versions are kept.  Not modelled: mini-batches.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from fedsim.data.graph import Graph
from fedsim.learn import layout, ops, tree
from fedsim.learn.optimiser import Optimiser, State

Loss = Callable[[Any, int], Tensor]


def descend(
    start: tree.Tree, loss: Loss, optimiser: Optimiser, steps: int, state: State | None = None
) -> tuple[tree.Tree, State]:
    """Return parameters after so many steps, and the optimiser's state, to be passed in again to continue.

    `loss` takes the parameters with a leading client axis of one, and the number of the step from 0; it returns one
    number, () or (1,).  A parameter that it does not depend on has the gradient zero.  `state` None begins anew.
    """
    params = tree.transform(lambda leaf: leaf.detach().unsqueeze(0).clone(), start)
    moments = optimiser.start(params, 1) if state is None else tree.transform(torch.clone, state)
    leaves = [leaf.requires_grad_(True) for leaf in tree.leaves(params)]
    for step in range(steps):
        found = torch.autograd.grad(loss(params, step).sum(), leaves, allow_unused=True)
        grads = [torch.zeros_like(leaf) if grad is None else grad for leaf, grad in zip(leaves, found, strict=True)]
        optimiser.apply(leaves, grads, moments)
    return tree.at(tree.transform(torch.detach, params), 0), moments


def in_training(graph: Graph, seed: int | Sequence[int], step: int) -> Graph:
    """Return the graph in training mode: what a step drops is drawn from the seed and the step's number.

    A union of K graphs takes K seeds.
    """
    layout.of(graph)  # derived once, on the graph that is kept, for all steps
    seeds = torch.tensor([seed] if isinstance(seed, int) else list(seed), device=graph["y"].device)
    return Graph(**{**graph, "seed": ops.seed_steps(seeds, step, 0)})
