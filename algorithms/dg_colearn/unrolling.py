"""Backpropagation through time: a recurrent model's loss over all snapshots so far, replayed from states of zero.

    s₋₁ = 0;  s_τ = states after snapshot τ, given s_{τ-1};  loss = (L₀ + … + L_t) / (t + 1)

This is the `bptt` of ROLAND's public code (You, Du and Leskovec, KDD 2022, `train_live_update_baseline.py`), beside
which a live update sees snapshot t alone and takes s_{t-1} as given.  Memory and work grow with t: every activation of
t + 1 snapshots is held at once, and the trainer's budget for a cohort knows only the last of them.  States are those of
the same client's vertices: one that comes from another client begins at zero, as does one that was away in between.
What is computed here is a forward pass more a snapshot than necessary, because losses and states are separate calls.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from fedsim.data.graph import Graph, with_keys
from fedsim.learn.model import Parameters
from fedsim.learn.recurrent import Recurrent
from fedsim.learn.snapshots import places
from fedsim.learn.task import Task


def loss(task: Task, params: Parameters, graphs: Sequence[Graph]) -> Tensor:
    """Return the mean of the task's losses (K,) on these graphs, one period each, with gradients through all states."""
    seen, total = graphs[0], task.loss(params, graphs[0])
    for graph in graphs[1:]:
        seen = continued(task, params, seen, graph)
        total = total + task.loss(params, seen)
    return total / len(graphs)


@torch.no_grad()
def states(task: Task, params: Parameters, graphs: Sequence[Graph]) -> Tensor:
    """Return the states (N, S) of the last graph's vertices after it."""
    seen = graphs[0]
    for graph in graphs[1:]:
        seen = continued(task, params, seen, graph)
    return task.model.remember(params, seen)


def continued(task: Task, params: Parameters, before: Graph, graph: Graph) -> Graph:
    """Return the graph with the states that its vertices have after the graph `before`, zeros for new ones."""
    assert isinstance(task.model, Recurrent)
    after = task.model.advance(params, before)[1]
    span = 1 + max((int(one["vertex"].max()) for one in (before, graph) if len(one["y"])), default=0)
    known, wanted = (one["client"] * span + one["vertex"] for one in (before, graph))
    place, there = places(known, wanted)
    if not len(known):
        return with_keys(graph, {"state": after.new_zeros(len(wanted), after.shape[1])})
    return with_keys(graph, {"state": torch.where(there.unsqueeze(1), after[place], 0.0)})
