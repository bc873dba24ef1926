"""Scores of the current models: each client on every period it has met, on a period that has just arrived, and on
request on all periods of the stream.

Prequential scores follow test-then-train (Gama, Sebastiao and Rodrigues, "On evaluating stream learning algorithms",
Machine Learning 90, 2013), here one value per period.  A period with `Period.ahead` is scored on these later graphs,
except in the split train.  Where clients have to exchange something to predict on a later graph
(`Algorithm.sees_all`), its bytes are written as the metrics `exchanged_up` and `exchanged_down` of that split, in full
for every scoring, although nothing travels: a scoring must not change the run that it observes.

A client's score is that of its own predictions.  By metrics that are no mean over rows (macro F1, AUC), all clients'
predictions of a period at one moment are scored as one test too, as rows of the server, unless `measure.over` says
`clients`; clients' values alone, weighted, would make another score.  On a graph that is the same test for the models
of all clients (`setaside`) there is no such score.

Two models can be scored: `global`, the parameters that the server would have the client predict with, and `local`,
those of the client's last finished job.  All graphs are scored in one computation, with one set of parameters if all
clients share it and with stacked ones otherwise.  Not modelled: time; the clock decides when to score and stamps the
rows (`fedsim/clock/observer.py`).
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fedsim.core.record import SERVER
from fedsim.data import common_pairs
from fedsim.data.graph import Graph, Period
from fedsim.data.heuristics import Heuristic
from fedsim.learn import crossing, tree
from fedsim.learn.algorithm import Algorithm, State
from fedsim.learn.metric import Metric
from fedsim.learn.same_pairs import SamePairs
from fedsim.learn.task import Task
from fedsim.learner import all_periods, setaside
from fedsim.learner.all_periods import AllPeriods
from fedsim.learner.client import Clients
from fedsim.learner.contract import Rows, Scores
from fedsim.learner.outputs import Outputs
from fedsim.learner.plans import Column, Models, Plan, Plans

StateOf = Callable[[int], State]
BILLED = ("exchanged_up", "exchanged_down")  # metrics that are bytes


class Scoring:
    """Scores the models of these clients."""

    def __init__(
        self,
        clients: Clients,
        task: Task,
        algorithm: Algorithm,
        *,
        metrics: Mapping[str, Metric],
        models: Sequence[str],
        splits: Sequence[str],
        apart: Mapping[str, Sequence[Graph]] | None = None,
        periods: Sequence[Sequence[Period]] = (),
        same: SamePairs | None = None,
        heuristics: Sequence[Heuristic] = (),
        together: bool = True,
    ) -> None:
        """Prepare to score these metrics, models and splits.

        `apart` has each period's graph for splits that need one of their own (see `setaside`); `periods` has each
        client's whole stream, for the split `all_periods`; `same` has the pairs of splits that are the same for
        everybody, on which `heuristics` are scored, too.  `together`: whether all clients' predictions are also scored
        as one test, by metrics that are no mean over rows.
        """
        self._clients, self._task, self._algorithm = clients, task, algorithm
        self._metrics, self._models = metrics, models
        self._together = {name: metric for name, metric in metrics.items() if together and not metric.mean}
        others = (crossing.SPLIT, all_periods.SPLIT, *setaside.SPLITS, *common_pairs.SPLITS)
        self._splits = [split for split in splits if split not in others]
        self._across = crossing.SPLIT in splits
        self._same, self._same_splits = same, [split for split in splits if split in common_pairs.SPLITS]
        self._heuristics = heuristics
        self._apart = {split: graphs for split, graphs in (apart or {}).items() if split in splits}
        self._plans = Plans(clients, task, algorithm, self._splits)
        self.outputs = Outputs(task)
        self._alone: defaultdict[tuple[str, str], setaside.Known] = defaultdict(setaside.Known)
        self._whole: AllPeriods | None = None
        if all_periods.SPLIT in splits:
            self._whole = AllPeriods(Plans(clients, task, algorithm, [all_periods.ASKED]), periods)
        self._rows: Rows = []

    def met(self, state_of: StateOf) -> Scores:
        """Score every model on all periods met, and on all periods if that split was asked for."""
        seen = {client.number: len(client.seen) for client in self._clients.met()}
        if self._whole is not None:
            return self._met_and_whole(state_of, seen, self._whole)
        headline = None
        for model, params, shared in self._predicting(state_of, seen):
            plan = self._plans.of_seen(shared, seen, None, self._models_of(state_of, params))
            output = self.outputs.of(model, params, plan.joined, shared)
            value = self._score(state_of, model, params, plan, output)
            headline = value if model == self._models[0] else headline
        return self._taken(headline)

    def unmet(self, state_of: StateOf, arrived: Sequence[tuple[int, Period]]) -> Scores:
        """Score the current models on periods that have just arrived; skip periods without rows to score."""
        pairs = [
            (client, period, period.number)
            for client, period in arrived
            if any(len(self._task.targets(graph, split)) for split in self._splits for graph in period.scored(split))
        ]
        if pairs:
            for model, params, shared in self._predicting(state_of, dict.fromkeys(client for client, _, _ in pairs)):
                plan = self._plans.of(shared, pairs, self._models_of(state_of, params))
                output = self.outputs.fresh(params, plan.joined, shared)
                self._score(state_of, model, params, plan, output, everyone=False)
        return self._taken(None)

    def _taken(self, headline: float | None) -> Scores:
        rows, self._rows = self._rows, []
        return Scores(rows, headline)

    def _predicting(
        self, state_of: StateOf, clients: Iterable[int]
    ) -> Iterator[tuple[str, dict[int, tree.Tree], bool]]:
        """Yield every model's name, its parameters for each client, and whether all clients share them."""
        clients = [*clients]
        for model in self._models:
            choose = self._algorithm.predictor if model == "global" else self._algorithm.personal
            params = {c: choose(state_of(c), c, self._clients[c].memory) for c in clients}
            yield model, params, len({id(tree_) for tree_ in params.values()}) == 1

    def _models_of(self, state_of: StateOf, params: Mapping[int, tree.Tree]) -> Models:
        return {client: (state_of(client), one) for client, one in params.items()}

    def _met_and_whole(self, state_of: StateOf, seen: Mapping[int, int], whole: AllPeriods) -> Scores:
        """Score every model of all clients on all periods of the stream; those met are among them."""
        headline, applied = None, []
        for model, params, shared in self._predicting(state_of, whole.clients):
            everything = whole.plan(shared, self._clients)
            output = self.outputs.of(model, params, everything.joined, shared)
            applied.append((model, output, everything))
            plan = self._plans.of_seen(shared, seen, everything.joined)
            if plan.joined is not everything.joined:
                output = self.outputs.fresh(params, plan.joined, shared)
            value = self._score(state_of, model, {client: params[client] for client in seen}, plan, output)
            headline = value if model == self._models[0] else headline
        for model, output, everything in applied:
            self._score_rows(model, output, everything, all_periods.ASKED, all_periods.SPLIT)
        return self._taken(headline)

    @torch.no_grad()
    def _score_rows(self, model: str, output: Tensor, plan: Plan, asked: str, split: str) -> float | None:
        """Score the plan's rows of split `asked`, write them as `split`, and return the mean of the first metric."""
        (rows, owner), pairs = plan.rows[asked], plan.pairs
        scores = self._task.scores(output, plan.graph, rows, owner, len(pairs["client"]), self._metrics)
        weights = scores["weight"].cpu().numpy()
        there = weights > 0
        columns = {name: column[there] for name, column in pairs.items()} | {"weight": weights[there]}
        for metric in self._metrics:
            self._write(columns, model=model, split=split, metric=metric, value=scores[metric].cpu().numpy()[there])
        if self._together:
            self._score_together(model, output, plan, asked, split)
        first = scores[next(iter(self._metrics))].cpu().numpy()[there]
        return float(np.average(first, weights=columns["weight"])) if len(first) else None

    def _score_together(self, model: str, output: Tensor, plan: Plan, asked: str, split: str) -> None:
        """Score all clients' predictions of a period as those of one owner, as rows of the server."""
        (rows, owner), pairs = plan.rows[asked], plan.pairs
        periods, which = np.unique(pairs["period"], return_inverse=True)
        period_of = torch.from_numpy(which).to(owner.device)[owner]
        scores = self._task.scores(output, plan.graph, rows, period_of, len(periods), self._together)
        weights = scores["weight"].cpu().numpy()
        there, seen = weights > 0, np.zeros_like(periods)
        np.maximum.at(seen, which, pairs["seen"])
        numbers = {"client": np.full_like(periods, SERVER), "period": periods, "seen": seen, "weight": weights}
        columns = {name: column[there] for name, column in numbers.items()}
        for metric in self._together:
            self._write(columns, model=model, split=split, metric=metric, value=scores[metric].cpu().numpy()[there])

    @torch.no_grad()
    def _score(
        self,
        state_of: StateOf,
        model: str,
        params: dict[int, tree.Tree],
        plan: Plan,
        output: Tensor,
        *,
        everyone: bool = True,
    ) -> float | None:
        """Write every split's rows of a model, whose output is that of the plan; return the headline."""
        means = [self._score_rows(model, output, plan, split, split) for split in plan.rows]
        self._write_bills(model, plan)
        if self._across:
            self._score_across(model, output, plan)
        self._score_same(model, output, plan)
        for split, graphs in self._apart.items():
            one_for_all = (model, split) == ("global", setaside.POOLED)
            asked = setaside.common(self._algorithm, state_of, params) if one_for_all else params
            self._score_apart(model, asked, plan, split, graphs, everyone)
        return means[0]

    def _score_apart(
        self, model: str, params: dict[int, tree.Tree], plan: Plan, split: str, graphs: Sequence[Graph], everyone: bool
    ) -> None:
        """Score each client's model, for each of its periods, on a graph that is the same for all clients."""
        clients, periods = plan.pairs["client"], plan.pairs["period"]
        known = self._alone[model, split]
        values, weights = known.scores(self._task, params, clients, periods, graphs, self._metrics, everyone=everyone)
        there = weights > 0
        columns = {name: column[there] for name, column in plan.pairs.items()} | {"weight": weights[there]}
        for metric, value in values.items():
            self._write(columns, model=model, split=split, metric=metric, value=value[there])

    def _score_across(self, model: str, output: Tensor, plan: Plan) -> None:
        """Score pairs between clients in the latest of these periods, as rows of the server."""
        period, overview = int(plan.pairs["period"].max()), self._algorithm.overview
        assert overview is not None
        known = {name: metric for name, metric in self._metrics.items() if "links" in metric.of}
        values, weight = crossing.scores(output, plan.graph, overview, period, self._task.seed, known)
        numbers = {"client": SERVER, "period": period, "seen": int(plan.pairs["seen"].max()), "weight": weight}
        columns = {name: np.array([number]) for name, number in numbers.items()}
        for name, value in values.items():
            self._write(columns, model=model, split=crossing.SPLIT, metric=name, value=np.array([value]))

    def _score_same(self, model: str, output: Tensor, plan: Plan) -> None:
        """Score pairs that are the same for everybody in the latest of these periods, as rows of the server."""
        if self._same is None:
            return
        period, seen = int(plan.pairs["period"].max()), int(plan.pairs["seen"].max())
        for split in self._same_splits:
            found = {model: self._same.scores(output, plan.graph, period, split, self._metrics)}
            if model == self._models[0]:
                found |= {one: self._same.guessed(one, period, split, self._metrics) for one in self._heuristics}
            for name, (values, weight) in found.items():
                numbers = {"client": SERVER, "period": period, "seen": seen, "weight": weight}
                columns = {key: np.array([number]) for key, number in numbers.items()}
                for metric, value in values.items():
                    self._write(columns, model=name, split=split, metric=metric, value=np.array([value]))

    def _write_bills(self, model: str, plan: Plan) -> None:
        """Write what clients exchange to predict on later graphs, where it is anything."""
        for split, bill in plan.bills.items():
            for metric, value in zip(BILLED, bill, strict=True):
                there = value > 0
                if there.any():
                    columns = {name: column[there] for name, column in plan.pairs.items()}
                    found, weight = value[there].astype(np.float64), np.ones(int(there.sum()), dtype=np.int64)
                    self._write(columns, model=model, split=split, metric=metric, value=found, weight=weight)

    def _write(self, columns: dict[str, Column], **others: Any) -> None:
        self._rows.append({**columns, **others})
