"""Scores on a graph that is the same test for the models of all clients.

A client's row is the score of its model: the mean over clients is the global score of FedDGL (ACML 2024) for
local models, and clients that share a model have equal rows.  A recurrent model starts from zero states on
these nodes.

Not modelled: message passing along edges between these nodes and those of clients, which are cut.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import ClassVar

import numpy as np
import torch

from fedsim.core.arrays import Floats, Ints
from fedsim.data.graph import Graph
from fedsim.learn.algorithm import Algorithm, State
from fedsim.learn.engine import tree
from fedsim.learn.metric import Metric
from fedsim.learn.task import Task
from fedsim.learner.scoring.split import Block, Prediction, Scene, Scorer, Split


class SetAside(Split):
    """Each client's model, for each of its periods, on a graph that is the same for all clients."""

    per_client: ClassVar[bool] = True
    needs: ClassVar[str]  # what sets such a graph aside
    whose: ClassVar[str]  # which nodes it has
    empty: ClassVar[str]  # why it may have none, with a remedy
    common: ClassVar[bool] = False  # True: the global model is the one that the server keeps for all

    def refuse(self, scene: Scene) -> str | None:
        """Return why not: it needs such a graph."""
        scores = f"scores {self.whose}: "
        if self.set_aside not in scene.apart or type(scene.task).rows is not Task.rows:
            return f"{scores}it needs {self.needs}"
        return None if any(bool(graph["test"].any()) for graph in scene.apart[self.set_aside]) else scores + self.empty

    def scorer(self, scene: Scene, metrics: Mapping[str, Metric]) -> Scorer:
        """Return what computes a row for each client and period."""
        caches, graphs = defaultdict[str, ScoreCache](ScoreCache), scene.apart[self.set_aside]

        def rows(prediction: Prediction) -> Iterator[Block]:
            model, pairs, params = prediction.model, prediction.pairs, prediction.params
            if self.common and model == "global":
                params = common(scene.algorithm, prediction.state_of, params)
            values, weights = caches[model].scores(
                scene.task, params, pairs["client"], pairs["period"], graphs, metrics, everyone=prediction.everyone
            )
            tested = weights > 0
            columns = {name: column[tested] for name, column in pairs.items()} | {"weight": weights[tested]}
            for metric, value in values.items():
                yield {**columns, "model": model, "metric": metric, "value": value[tested]}

        return rows


def common(
    algorithm: Algorithm, state_of: Callable[[int], State], params: Mapping[int, tree.Tree]
) -> dict[int, tree.Tree]:
    """Return for each client the common model, or its own (`params`) if there is none."""
    states = {client: state_of(client) for client in params}
    shared = {id(state): algorithm.common(state) for state in states.values()}
    models = {client: shared[id(state)] for client, state in states.items()}
    return {client: params[client] if model is None else model for client, model in models.items()}


class ScoreCache:
    """Scores of models that were scored last, by model and period: those that are scored again have not changed."""

    def __init__(self) -> None:
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
    ) -> tuple[dict[str, Floats], Ints]:
        """Return each metric (P,) of the clients' models on the periods' graphs, and the counts of nodes (P,).

        `clients` and `periods` are (P,); `graphs` has one graph per period.  With `everyone`, models that are
        not among these are forgotten.
        """
        before = self._rows
        self._rows = {} if everyone else {**before}
        rows = []
        for client, period in zip(clients.tolist(), periods.tolist(), strict=True):
            model = params[client]
            key = id(model), period
            if key not in self._rows:  # most clients may share a model
                known = before.get(key)
                self._rows[key] = known or (model, *_alone(task, model, graphs[period], metrics))
            rows.append(self._rows[key])
        table = np.array([values for _, values, _ in rows], dtype=np.float64).reshape(len(rows), len(metrics))
        return dict(zip(metrics, table.T, strict=True)), np.array([weight for *_, weight in rows], dtype=np.int64)


def _alone(task: Task, params: tree.Tree, graph: Graph, metrics: Mapping[str, Metric]) -> tuple[list[float], int]:
    rows = task.targets(graph, "test")
    if not len(rows):
        return [0.0] * len(metrics), 0
    output = task.forward(tree.stack([params]), graph)
    values = task.scores(output, graph, rows, torch.zeros_like(rows), 1, metrics)
    return [float(values[metric]) for metric in metrics], len(rows)
