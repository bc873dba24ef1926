"""Scores on a graph that is the same test for the models of all clients.

Split `held_out`: the vertices that no client owns.  Split `pooled`: the test vertices of all clients, with the edges
among them; its global model is the one that the server keeps for all, even if clients predict with models of their own.

A client's row is the score of its model: the mean over clients is the global score of FedDGL (ACML 2024) for local
models, and clients that share a model have equal rows.  A recurrent model starts from zero states on these vertices.

Not modelled: message passing along edges between these vertices and those of clients, which are cut.
"""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import numpy.typing as npt
import torch

from fedsim.data.graph import Graph
from fedsim.learn import tree
from fedsim.learn.algorithm import Algorithm, State
from fedsim.learn.metric import Metric
from fedsim.learn.task import Task

HELD_OUT, POOLED = SPLITS = ("held_out", "pooled")
Ints = npt.NDArray[np.int64]


def common(
    algorithm: Algorithm, state_of: Callable[[int], State], params: Mapping[int, tree.Tree]
) -> dict[int, tree.Tree]:
    """Return for each client the common model, or its own (`params`) if there is none."""
    states = {client: state_of(client) for client in params}
    made = {id(state): algorithm.common(state) for state in states.values()}
    found = {client: made[id(state)] for client, state in states.items()}
    return {client: params[client] if one is None else one for client, one in found.items()}


class Known:
    """Scores of models that were scored last, by model and period: those that are scored again have not changed."""

    def __init__(self) -> None:
        """Know no score."""
        self._rows: dict[tuple[int, int], tuple[tree.Tree, list[float], int]] = {}  # holding the models, by identity

    @torch.no_grad()
    def scores(
        self,
        task: Task,
        params: Mapping[int, tree.Tree],
        clients: Ints,
        periods: Ints,
        graphs: Sequence[Graph],
        metrics: Mapping[str, Metric],
        *,
        everyone: bool = True,
    ) -> tuple[dict[str, npt.NDArray[np.float64]], Ints]:
        """Return each metric (P,) of the clients' models on the periods' graphs, and the counts of vertices (P,).

        `clients` and `periods` are (P,); `graphs` has one graph per period.  With `everyone`, models that are not among
        these are forgotten.
        """
        before = self._rows
        self._rows = {} if everyone else {**before}
        rows = []
        for client, period in zip(clients.tolist(), periods.tolist(), strict=True):
            model = params[client]
            own = id(model), period
            if own not in self._rows:  # most clients may share a model
                self._rows[own] = (
                    before[own] if own in before else (model, *_alone(task, model, graphs[period], metrics))
                )
            rows.append(self._rows[own])
        table = np.array([values for _, values, _ in rows], dtype=np.float64).reshape(len(rows), len(metrics))
        return dict(zip(metrics, table.T, strict=True)), np.array([weight for *_, weight in rows], dtype=np.int64)


def _alone(task: Task, params: tree.Tree, graph: Graph, metrics: Mapping[str, Metric]) -> tuple[list[float], int]:
    asked = task.targets(graph, "test")
    if not len(asked):
        return [0.0] * len(metrics), 0
    output = task.forward(tree.stack([params]), graph)
    values = task.scores(output, graph, asked, torch.zeros_like(asked), 1, metrics)
    return [float(values[metric]) for metric in metrics], len(asked)
