"""Scores of the models of a moment: every client on every period that it has met, on one that it has just been given,
and, where asked for, on all periods of the stream.

Prequential scores are of test-then-train (Gama, Sebastiao and Rodrigues, "On evaluating stream learning algorithms",
Machine Learning 90, 2013), here one value a period.  A period that says which later graphs it is scored on
(`Period.ahead`) is scored on these, except for the split train.

Two models can be scored: `global`, the parameters that the server would have the client predict with, and `local`,
those that the client's last finished job left it with.  All graphs are scored in one computation: with one set of
parameters where all clients share it, with stacked ones otherwise.  It knows no time: when to score is for the clock
(`fedsim/clock/observer.py`) to say, which stamps the rows.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fedsim.core.record import SERVER
from fedsim.data.graph import Graph, Period
from fedsim.learn import crossing, tree
from fedsim.learn.algorithm import Algorithm, State
from fedsim.learn.metrics import LINKS
from fedsim.learn.task import Task
from fedsim.learner import all_periods, setaside
from fedsim.learner.all_periods import AllPeriods
from fedsim.learner.client import Clients
from fedsim.learner.contract import Rows, Scores
from fedsim.learner.plans import Column, Plan, Plans

StateOf = Callable[[int], State]


class Scoring:
    """Scores the models of these clients."""

    def __init__(
        self,
        clients: Clients,
        task: Task,
        algorithm: Algorithm,
        *,
        metrics: Sequence[str],
        models: Sequence[str],
        splits: Sequence[str],
        apart: Mapping[str, Sequence[Graph]] | None = None,
        periods: Sequence[Sequence[Period]] = (),
    ) -> None:
        """Score nothing yet.

        `apart` are each period's graphs of those splits that need a graph of their own (see `setaside`); `periods` are
        each client's whole stream, for the split `all_periods`.
        """
        self._clients, self._task, self._algorithm = clients, task, algorithm
        self._metrics, self._models = metrics, models
        others = (crossing.SPLIT, all_periods.SPLIT, *setaside.SPLITS)
        self._splits = [split for split in splits if split not in others]
        self._across = crossing.SPLIT in splits
        self._apart = {split: graphs for split, graphs in (apart or {}).items() if split in splits}
        self._plans = Plans(clients, task, algorithm, self._splits)
        self._whole: AllPeriods | None = None
        if all_periods.SPLIT in splits:
            self._whole = AllPeriods(Plans(clients, task, algorithm, [all_periods.ASKED]), periods)
        self._rows: Rows = []

    def met(self, state_of: StateOf) -> Scores:
        """Score every model on everything that clients have met, and on all periods where that is asked for."""
        seen = {client.number: len(client.seen) for client in self._clients.met()}
        headline = self._score_all(state_of, seen, lambda shared: self._plans.of_seen(shared, seen))
        if self._whole is not None:
            self._score_whole(state_of, self._whole)
        return self._taken(headline)

    def unmet(self, state_of: StateOf, arrived: Sequence[tuple[int, Period]]) -> Scores:
        """Score the models of now on what has just arrived; what holds nothing to be scored on is passed over."""
        pairs = [
            (client, period, period.number)
            for client, period in arrived
            if any(len(self._task.targets(graph, split)) for split in self._splits for graph in period.scored(split))
        ]
        if pairs:
            clients = dict.fromkeys(client for client, _, _ in pairs)
            self._score_all(state_of, clients, lambda shared: self._plans.of(shared, pairs))
        return self._taken(None)

    def _taken(self, headline: float | None) -> Scores:
        rows, self._rows = self._rows, []
        return Scores(rows, headline)

    def _score_all(self, state_of: StateOf, clients: Iterable[int], plan: Callable[[bool], Plan]) -> float | None:
        """Score every model of these clients by a plan (made for whether they share it); return the headline."""
        headline = None
        for model, params, shared in self._predicting(state_of, clients):
            value = self._score(state_of, model, params, plan(shared), shared)
            headline = value if model == self._models[0] else headline
        return headline

    def _predicting(
        self, state_of: StateOf, clients: Iterable[int]
    ) -> Iterator[tuple[str, dict[int, tree.Tree], bool]]:
        """Yield every model's name, what each of these clients predicts with, and whether that is one for all."""
        clients = [*clients]
        for model in self._models:
            choose = self._algorithm.predictor if model == "global" else self._algorithm.personal
            params = {c: choose(state_of(c), c, self._clients[c].memory) for c in clients}
            yield model, params, len({id(tree_) for tree_ in params.values()}) == 1

    def _score_whole(self, state_of: StateOf, whole: AllPeriods) -> None:
        """Score every model of all clients on all periods of the stream."""
        for model, params, shared in self._predicting(state_of, whole.clients):
            plan = whole.plan(shared)
            output = self._output(params, plan, shared)
            pairs = {**plan.pairs, "seen": whole.seen(plan, self._clients)}
            self._score_rows(model, output, plan, pairs, all_periods.ASKED, all_periods.SPLIT)

    @torch.no_grad()
    def _output(self, params: dict[int, tree.Tree], plan: Plan, shared: bool) -> Tensor:
        stacked = tree.stack([next(iter(params.values()))] if shared else [params[c] for c in plan.clients])
        return self._task.forward(stacked, plan.graph)

    @torch.no_grad()
    def _score_rows(
        self, model: str, output: Tensor, plan: Plan, pairs: dict[str, Column], asked: str, split: str
    ) -> float | None:
        """Score the rows of a plan that are asked, write them as this split, and return their mean first metric."""
        rows, owner = plan.rows[asked]
        scores = self._task.scores(output, plan.graph, rows, owner, len(pairs["client"]), self._metrics)
        weights = scores["weight"].cpu().numpy()
        there = weights > 0
        columns = {name: column[there] for name, column in pairs.items()} | {"weight": weights[there]}
        for metric in self._metrics:
            self._write(columns, model=model, split=split, metric=metric, value=scores[metric].cpu().numpy()[there])
        first = scores[self._metrics[0]].cpu().numpy()[there]
        return float(np.average(first, weights=columns["weight"])) if len(first) else None

    @torch.no_grad()
    def _score(
        self, state_of: StateOf, model: str, params: dict[int, tree.Tree], plan: Plan, shared: bool
    ) -> float | None:
        output = self._output(params, plan, shared)
        means = [self._score_rows(model, output, plan, plan.pairs, split, split) for split in plan.rows]
        if self._across:
            self._score_across(model, output, plan)
        for split, graphs in self._apart.items():
            one_for_all = (model, split) == ("global", setaside.POOLED)
            asked = setaside.common(self._algorithm, state_of, params) if one_for_all else params
            self._score_apart(model, asked, plan, split, graphs)
        return means[0]

    def _score_apart(
        self, model: str, params: dict[int, tree.Tree], plan: Plan, split: str, graphs: Sequence[Graph]
    ) -> None:
        """Score each client's model on a graph that is the same for all, in each of its periods."""
        clients, periods = plan.pairs["client"], plan.pairs["period"]
        values, weights = setaside.scores(self._task, params, clients, periods, graphs, self._metrics)
        there = weights > 0
        columns = {name: column[there] for name, column in plan.pairs.items()} | {"weight": weights[there]}
        for metric, value in values.items():
            self._write(columns, model=model, split=split, metric=metric, value=value[there])

    def _score_across(self, model: str, output: Tensor, plan: Plan) -> None:
        """Score pairs between clients in the newest of these periods: rows of the server, not of a client."""
        period, overview = int(plan.pairs["period"].max()), self._algorithm.overview
        assert overview is not None
        known = [name for name in self._metrics if name in LINKS]
        values, weight = crossing.scores(output, plan.graph, overview, period, self._task.seed, known)
        numbers = {"client": SERVER, "period": period, "seen": int(plan.pairs["seen"].max()), "weight": weight}
        columns = {name: np.array([number]) for name, number in numbers.items()}
        for name, value in values.items():
            self._write(columns, model=model, split=crossing.SPLIT, metric=name, value=np.array([value]))

    def _write(self, columns: dict[str, Column], **others: Any) -> None:
        self._rows.append({**columns, **others})
