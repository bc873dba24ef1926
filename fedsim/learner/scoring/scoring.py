"""Scores of the current models: each client on every period it has met, on a period that has just arrived,
and on request on all periods of the stream.

Prequential scores follow test-then-train (Gama, Sebastiao and Rodrigues, "On evaluating stream learning
algorithms", Machine Learning 90, 2013), here one value per period.  A period with `Period.ahead` is scored on
these later graphs, except in the split train.  Where clients have to exchange something to predict on a later
graph (`Algorithm.sees_all`), its bytes are written as the metrics `exchanged_up` and `exchanged_down` of that
split, in full for every scoring, although nothing travels: a scoring must not change the run that it
observes.

A client's score is that of its own predictions.  By metrics that are no mean over rows (macro F1, AUC), all
clients' predictions of a period at one moment are scored as one test too, as rows of the server, unless
`measure.over` says `clients`; clients' values alone, weighted, would make another score.  On a graph that is
the same test for the models of all clients (`SetAside`) there is no such score.

Two models can be scored: `global`, the parameters that the server would have the client predict with, and
`local`, those of the client's last finished job.  All graphs are scored in one computation, with one set of
parameters if all clients share it and with stacked ones otherwise.  Not modelled: time; the clock decides
when to score and stamps the rows (`fedsim/clock/observer.py`).

Outputs that were computed last are kept, so that what has not changed since is not computed again.
Parameters are compared by identity: algorithms replace them and never change them in place.  Where clients
have parameters of their own and few of them have changed, only theirs are applied again.  That groups sums in
another way than applying all of them (see learn/engine/cohort.py), so a checkpoint keeps these outputs.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fedsim.core.record import SERVER
from fedsim.data.graph import Period
from fedsim.learn.algorithm import State
from fedsim.learn.engine import joining, tree
from fedsim.learn.metric import Metric
from fedsim.learn.task import Task
from fedsim.learner.client import AllClients
from fedsim.learner.contract import ScoreBlocks, Scores
from fedsim.learner.scoring.plans import ClientPeriod, Joined, Models, Plans, ScoringPlan, base_of
from fedsim.learner.scoring.split import Block, ClientSplit, Prediction, Scene

Params = Mapping[int, tree.Tree]  # by client
StateOf = Callable[[int], State]
BILLED = ("exchanged_up", "exchanged_down")  # metrics that are bytes


class Scoring:
    """Scores the models of these clients."""

    def __init__(
        self,
        clients: AllClients,
        scene: Scene,
        metrics: Mapping[str, Metric],
        models: Sequence[str],
        *,
        together: bool = True,
    ) -> None:
        """Prepare to score these metrics and models.

        `together`: whether all clients' predictions are also scored as one test, by metrics that are no mean over rows.
        """
        task, algorithm, splits = scene.task, scene.algorithm, scene.splits
        self._clients, self._task, self._algorithm = clients, task, algorithm
        self._metrics, self._models = metrics, models
        self._together = {name: metric for name, metric in metrics.items() if together and not metric.mean}
        client_splits = {name: split for name, split in splits.items() if isinstance(split, ClientSplit)}
        others = {name: split for name, split in splits.items() if name not in client_splits}
        self._scorers = {name: split.scorer(scene, metrics) for name, split in others.items()}
        self._splits = {name: split for name, split in client_splits.items() if not split.all_periods}
        self._plans = Plans(clients, task, algorithm, self._splits)
        self.outputs = Outputs(task)
        of_stream = {name: split for name, split in client_splits.items() if split.all_periods}
        streams = scene.periods if of_stream else ()
        self._stream: list[ClientPeriod] = [(client, period, 0) for client, own in enumerate(streams) for period in own]
        self._stream_plans, self._plan_of = Plans(clients, task, algorithm, of_stream), dict[bool, ScoringPlan]()

    def met(self, state_of: StateOf) -> Scores:
        """Score every model on all periods met, and on all periods if that split was asked for."""
        seen = {number: len(client.seen) for number, client in sorted(self._clients.items()) if client.seen}
        rows: ScoreBlocks = []
        streams = []
        for model, params, shared in self._predicting(state_of, dict.fromkeys(c for c, _, _ in self._stream) or seen):
            stream = self._plan_of_stream(shared) if self._stream else None
            known = None if stream is None else stream.joined
            models = self._models_of(state_of, params) if self._algorithm.sees_more else None
            plan = self._plans.of_seen(shared, seen, known, models)
            output = self.outputs.of(model, params, known or plan.joined, shared)
            met, leads = {client: params[client] for client in seen}, model == self._models[0]
            prediction = Prediction(model, leads, met, state_of, plan.joined.graph, plan.pairs, output, True)
            if stream is not None:
                streams.append((prediction._replace(graph=stream.joined.graph, pairs=stream.pairs), stream))
            if known is not None and plan.joined is not known:
                prediction = prediction._replace(output=self.outputs.fresh(params, plan.joined, shared))
            rows += self._blocks(prediction, plan)
        for prediction, stream in streams:
            for split, (places, owner) in stream.rows.items():
                rows += self._score_rows(prediction, split, places, owner)
        first = rows[0]  # of the first model, split and metric
        return Scores(rows, float(np.average(first["value"], weights=first["weight"])) if len(first["value"]) else None)

    def unmet(self, state_of: StateOf, arrived: Sequence[tuple[int, Period]]) -> Scores:
        """Score the current models on periods that have just arrived; skip periods without rows to score."""
        pairs = [
            (client, period, period.number)
            for client, period in arrived
            if any(len(split.targets(self._task, g)) for split in self._splits.values() for g in split.graphs(period))
        ]
        rows: ScoreBlocks = []
        for model, params, shared in self._predicting(state_of, dict.fromkeys(client for client, _, _ in pairs)):
            models = self._models_of(state_of, params) if self._algorithm.sees_more else None
            plan = self._plans.of(shared, pairs, models)
            output, leads = self.outputs.fresh(params, plan.joined, shared), model == self._models[0]
            prediction = Prediction(model, leads, params, state_of, plan.joined.graph, plan.pairs, output, False)
            rows += self._blocks(prediction, plan)
        return Scores(rows, None)

    def _plan_of_stream(self, shared: bool) -> ScoringPlan:
        """Return the plan of all periods, arrived or not; its column `seen` has how many each client has met."""
        if shared not in self._plan_of:
            self._plan_of[shared] = self._stream_plans.of(shared, self._stream)
        plan = self._plan_of[shared]
        seen = [len(self._clients[client].seen) for client in plan.pairs["client"].tolist()]
        return replace(plan, pairs={**plan.pairs, "seen": np.array(seen, dtype=np.int64)})

    def _predicting(
        self, state_of: StateOf, clients: Iterable[int]
    ) -> Iterator[tuple[str, dict[int, tree.Tree], bool]]:
        """Yield every model's name, its parameters for each client, and whether all clients share them."""
        clients = [*clients]
        for model in self._models if clients else ():
            choose = self._algorithm.predictor if model == "global" else self._algorithm.personal
            params = {c: choose(state_of(c), c, self._clients[c].memory) for c in clients}
            yield model, params, len({id(tree_) for tree_ in params.values()}) == 1

    def _models_of(self, state_of: StateOf, params: Mapping[int, tree.Tree]) -> Models:
        """Return what plans read where the algorithm extends graphs."""
        return {client: (state_of(client), each) for client, each in params.items()}

    @torch.no_grad()
    def _blocks(self, prediction: Prediction, plan: ScoringPlan) -> Iterator[Block]:
        """Yield every split's rows of a model, and what clients exchange to predict on later graphs, if anything."""
        for split, (rows, owner) in plan.rows.items():
            yield from self._score_rows(prediction, split, rows, owner)
        for split, bill in plan.bills.items():
            for metric, value in zip(BILLED, bill, strict=True):
                if (billed := value > 0).any():
                    columns = {name: column[billed] for name, column in plan.pairs.items()}
                    weight, exchanged = np.ones(int(billed.sum()), dtype=np.int64), value[billed].astype(np.float64)
                    labels = {"model": prediction.model, "split": split, "metric": metric}
                    yield {**columns, **labels, "value": exchanged, "weight": weight}
        for split, scorer in self._scorers.items():
            yield from ({**block, "split": split} for block in scorer(prediction))

    @torch.no_grad()
    def _score_rows(self, prediction: Prediction, split: str, rows: Tensor, owner: Tensor) -> Iterator[Block]:
        """Yield clients' scores, and of all their predictions of a period as one test, the server's.

        `owner` (n,) tells to which pair each of the rows belongs.
        """
        pairs = prediction.pairs
        tests = [(owner, pairs, self._metrics)]
        if self._together:
            periods, which = np.unique(pairs["period"], return_inverse=True)
            seen = np.zeros_like(periods)
            np.maximum.at(seen, which, pairs["seen"])
            server = {"client": np.full_like(periods, SERVER), "period": periods, "seen": seen}
            tests.append((torch.from_numpy(which).to(owner.device)[owner], server, self._together))
        for owner_of, owners, metrics in tests:
            count = len(owners["client"])
            scores = self._task.scores(prediction.output, prediction.graph, rows, owner_of, count, metrics)
            weights = scores["weight"].cpu().numpy()
            scored = weights > 0  # owners that have any of the rows
            columns = {name: column[scored] for name, column in owners.items()} | {"weight": weights[scored]}
            for metric in metrics:
                value = scores[metric].cpu().numpy()[scored]
                yield {**columns, "model": prediction.model, "split": split, "metric": metric, "value": value}


@dataclass(frozen=True, eq=False)
class CachedOutput:
    """An output, and what it was computed from."""

    joined: Joined
    shared: bool
    params: Params
    output: Tensor


class Outputs:
    """Applies models to joined graphs, and keeps the last output of each model, by the model's name."""

    def __init__(self, task: Task) -> None:
        self._task = task
        self._known: dict[str, CachedOutput] = {}
        self._saved: dict[str, Any] = {}  # of a checkpoint, until they are asked for

    @torch.no_grad()
    def of(self, model: str, params: Params, joined: Joined, shared: bool) -> Tensor:
        """Return the output of every client's parameters on its graphs; with `shared` all clients have the same."""
        if model in self._saved:
            self._restore(model, joined)
        known = self._known.get(model)
        if known is not None and known.joined is not joined:
            known = None
        stale = joined.clients
        if known is not None and known.shared == shared:
            stale = [client for client in joined.clients if params[client] is not known.params.get(client)]
        if known is not None and not stale:
            return known.output
        output = None if shared or known is None else self._renewed(known, params, stale)
        if output is None:
            output = self.fresh(params, joined, shared)
        self._known[model] = CachedOutput(joined, shared, params, output)
        return output

    @torch.no_grad()
    def fresh(self, params: Params, joined: Joined, shared: bool) -> Tensor:
        """Return the same output, computed from nothing that is known."""
        some = [next(iter(params.values()))] if shared else [params[client] for client in joined.clients]
        return self._task.forward(tree.stack(some), joined.graph)

    def notes(self) -> dict[str, Any]:
        """Return the outputs of clients' own parameters, for a checkpoint."""
        return {
            model: (_bases(known.joined), dict(known.params), known.output)
            for model, known in self._known.items()
            if not known.shared
        }

    def resume(self, saved: Mapping[str, Any]) -> None:
        """Take over the outputs of a checkpoint."""
        self._saved = dict(saved)

    def _restore(self, model: str, joined: Joined) -> None:
        """Take over a checkpoint's output of a model, if it is that of these graphs."""
        bases, params, output = self._saved.pop(model)
        if [(client, base_of(graph)) for client, graph in bases] == [*joined.starts]:
            self._known[model] = CachedOutput(joined, False, params, output)

    def _renewed(self, known: CachedOutput, params: Params, stale: Sequence[int]) -> Tensor | None:
        """Return the known output with the rows of these clients computed anew; None where that is most of it."""
        place, parts = self._place(known.joined), known.joined.part
        if 2 * sum(place[client][1] for client in stale) > len(known.output):
            return None
        output, joined = known.output.clone(), joining.union([parts[client] for client in stale])
        made = self._task.forward(tree.stack([params[client] for client in stale]), joined)
        begin = 0
        for first, count in (place[client] for client in stale):
            output[first : first + count] = made[begin : begin + count]
            begin += count
        return output

    def _place(self, joined: Joined) -> dict[int, tuple[int, int]]:
        """Return each client's first row of the output and their number, where parameters are each client's own."""
        counts = [self._task.answers(part) for part in joined.part.values()]
        return dict(zip(joined.part, zip(accumulate(counts, initial=0), counts, strict=False), strict=True))


def _bases(joined: Joined) -> list[Any]:
    """Return what tells joined graphs from others, in a form that a checkpoint preserves: tensors of the data."""
    return [
        (client, {key: graph[key] for key in ("edges", "pairs") if key in graph}) for client, graph in joined.graphs
    ]
