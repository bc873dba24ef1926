"""Backpropagation through time (`bptt`): a recurrent model's loss over all snapshots so far, from states of zero.

    s₋₁ = 0;  s_τ = states after snapshot τ, given s_{τ-1};  loss = (L₀ + … + L_t) / (t + 1)

This is the `bptt` of ROLAND's public code (You, Du and Leskovec, KDD 2022, `train_live_update_baseline.py`), beside
which a live update sees snapshot t alone and takes s_{t-1} as given.  Memory and work grow with t: every activation of
t + 1 snapshots is held at once, and the trainer's budget for a cohort knows only the last of them.  States are those of
the same client's nodes: one that comes from another client begins at zero, as does one that was away in between.
What is computed here is a forward pass more a snapshot than necessary, because losses and states are separate calls.

Clients exchange nothing.  In every job of period t a client replays its snapshots 0, …, t, those in which it worked,
and is billed for training on all of them.  It keeps every one, with its features; the states from which it predicts are
those of the same replay with the parameters that it has just trained, which is billed too, as a forward pass for each
earlier snapshot.  It hands no states over: a node with a new owner begins there at zero.
"""

from collections.abc import Sequence
from functools import partial, reduce
from itertools import accumulate

import torch
from torch import Tensor

from algorithms.dg_colearn.incremental import Terms
from fedsim.data.graph import Graph, with_keys
from fedsim.learn.algorithm import Job
from fedsim.learn.continual.snapshots import places
from fedsim.learn.engine import tree
from fedsim.learn.layers.recurrent import Recurrent
from fedsim.learn.model import Parameters
from fedsim.learn.task import Task


def loss(task: Task, params: Parameters, graphs: Sequence[Graph]) -> Tensor:
    """Return the mean of the task's losses (K,) on these graphs, one period each, with gradients through all states."""
    losses = (task.loss(params, seen) for seen in accumulate(graphs, partial(continued, task, params)))
    return reduce(torch.add, losses) / len(graphs)


@torch.no_grad()
def states(task: Task, params: Parameters, graphs: Sequence[Graph]) -> Tensor:
    """Return the states (N, S) of the last graph's nodes after it."""
    return task.model.remember(params, reduce(partial(continued, task, params), graphs))


def continued(task: Task, params: Parameters, before: Graph, graph: Graph) -> Graph:
    """Return the graph with the states that its nodes have after the graph `before`, zeros for new ones."""
    assert isinstance(task.model, Recurrent)
    after = task.model.advance(params, before)[1]
    span = 1 + max((int(each["node"].max()) for each in (before, graph) if len(each["y"])), default=0)
    known, wanted = (each["client"] * span + each["node"] for each in (before, graph))
    place, present = places(known, wanted)
    if not len(known):
        return with_keys(graph, {"state": after.new_zeros(len(wanted), after.shape[1])})
    return with_keys(graph, {"state": torch.where(present.unsqueeze(1), after[place], 0.0)})


def remember(terms: Terms, job: Job, trained: Parameters) -> None:
    """Keep the states before this period, replayed with the trained parameters."""
    if past := job.memory.get("past"):
        job.memory["states"] = past[-1]["node"], states(terms.task, tree.stack([trained]), past)


def share(terms: Terms, job: Job) -> float:
    """Return the operations on earlier snapshots, in multiples of those on the present one."""
    memory = job.memory
    earlier = [*memory.get("past", ())]
    if "graph" in memory and memory["period"] != job.period:  # a period that the client has not yet entered
        earlier.append(memory["graph"])
    return sum(terms.task.flops(graph) for graph in earlier) / max(1.0, terms.task.flops(job.data))
