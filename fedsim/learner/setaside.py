"""Scores on a graph that is the same test for the models of all clients.

Split `held_out`: the vertices that no client owns.  Split `pooled`: the test vertices of all clients, with the edges
among them; asked of the global model, which is the one that the server keeps for all, also where clients predict with
models of their own.

A client's row tells what its model reaches there: the mean over clients is the global score of FedDGL (ACML 2024) where
models are local, and clients that share one model have equal rows.  A model that remembers vertices knows nothing of
these, and begins with zeros.
It does not model exchange over the edges that lead to clients, which are cut.
"""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import numpy.typing as npt
import torch

from fedsim.data.graph import Graph
from fedsim.learn import tree
from fedsim.learn.algorithm import Algorithm, State
from fedsim.learn.task import Task

HELD_OUT, POOLED = SPLITS = ("held_out", "pooled")
Ints = npt.NDArray[np.int64]


def common(
    algorithm: Algorithm, state_of: Callable[[int], State], params: Mapping[int, tree.Tree]
) -> dict[int, tree.Tree]:
    """Return for each client the one model that stands for all, or its own (`params`) where there is none."""
    states = {client: state_of(client) for client in params}
    made = {id(state): algorithm.common(state) for state in states.values()}
    found = {client: made[id(state)] for client, state in states.items()}
    return {client: params[client] if one is None else one for client, one in found.items()}


@torch.no_grad()
def scores(
    task: Task,
    params: Mapping[int, tree.Tree],
    clients: Ints,
    periods: Ints,
    graphs: Sequence[Graph],
    metrics: Sequence[str],
) -> tuple[dict[str, npt.NDArray[np.float64]], Ints]:
    """Return each metric (P,) of that client's model on that period's graph, and how many vertices it was asked of.

    `clients` and `periods` are (P,); `graphs` hold one for each period.
    """
    known: dict[tuple[int, int], tuple[list[float], int]] = {}  # by model and period: most clients may share a model
    rows = []
    for client, period in zip(clients.tolist(), periods.tolist(), strict=True):
        own = id(params[client]), period
        if own not in known:
            known[own] = _alone(task, params[client], graphs[period], metrics)
        rows.append(known[own])
    table = np.array([values for values, _ in rows], dtype=np.float64).reshape(len(rows), len(metrics))
    return dict(zip(metrics, table.T, strict=True)), np.array([weight for _, weight in rows], dtype=np.int64)


def _alone(task: Task, params: tree.Tree, graph: Graph, metrics: Sequence[str]) -> tuple[list[float], int]:
    asked = task.targets(graph, "test")
    if not len(asked):
        return [0.0] * len(metrics), 0
    output = task.forward(tree.stack([params]), graph)
    values = task.scores(output, graph, asked, torch.zeros_like(asked), 1, metrics)
    return [float(values[metric]) for metric in metrics], len(asked)
