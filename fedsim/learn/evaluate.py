"""The observer: wakes on updates (or by the clock), scores every client on every period it has seen, records.

When periods reach clients it also scores the models of that moment on them alone, before anything is trained on them:
prequential rows, of test-then-train (Gama, Sebastiao and Rodrigues, "On evaluating stream learning algorithms",
Machine Learning 90, 2013), here one value a period.

A period that says which later graphs it is scored on (`Period.ahead`) is scored on these, except for the split train.

It costs no simulated time and sends nothing.  Two models can be scored: `global`, the parameters that the server
would have the client predict with, and `local`, those that the client's last finished job left it with.  All graphs
are scored in one computation: with one set of parameters where all clients share it, with stacked ones otherwise.
"""

import math
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import simpy
import torch
from torch import Tensor

from fedsim.algorithm import Algorithm
from fedsim.data.graph import Graph, Period
from fedsim.learn import all_periods, crossing, setaside, tree
from fedsim.learn.all_periods import AllPeriods
from fedsim.learn.metrics import LINKS
from fedsim.learn.plans import Column, Plan, Plans
from fedsim.learn.task import Task
from fedsim.record import SERVER, Recorder, Score
from fedsim.units import Updates
from fedsim.world import World


class Evaluator:
    """Scores a world's models by the rules of `measure`."""

    def __init__(
        self,
        world: World,
        task: Task,
        recorder: Recorder,
        *,
        metrics: Sequence[str],
        models: Sequence[str],
        splits: Sequence[str],
        every: Updates | float,
        apart: Mapping[str, Sequence[Graph]] | None = None,
        algorithm: Algorithm | None = None,
        periods: Sequence[Sequence[Period]] = (),
    ) -> None:
        """Watch this world; `every` is a number of updates or of simulated seconds.

        `apart` are each period's graphs of those splits that ask a graph of their own (see `setaside`); `algorithm`
        says what clients predict with, where the world's is only what the clock sees of it; `periods` are each
        client's whole stream, for the split `all_periods`.
        """
        self._world, self._task, self._recorder = world, task, recorder
        self._metrics, self._models, self._every = metrics, models, every
        others = (crossing.SPLIT, all_periods.SPLIT, *setaside.SPLITS)
        self._splits = [split for split in splits if split not in others]
        self._across = crossing.SPLIT in splits
        self._apart = {split: graphs for split, graphs in (apart or {}).items() if split in splits}
        self._algorithm = world.algorithm if algorithm is None else algorithm
        self._plans = Plans(world.clients, task, self._algorithm, self._splits)
        self._whole: AllPeriods | None = None
        if all_periods.SPLIT in splits:
            self._whole = AllPeriods(Plans(world.clients, task, self._algorithm, [all_periods.ASKED]), periods)
        self._scored_at = ((-1, 0), 0, 0.0)  # version and restarts, periods seen by all clients together, second
        self.latest: float | None = None  # the headline model's latest mean score, for the progress bar
        self.resting = False  # it wakes and scores nothing: what there is to score is in a checkpoint

    def watch(self) -> Generator[simpy.Event, Any, None]:
        """Score whatever arrives by the models that have not met it; a process to be started before the streams."""
        while True:
            arrived: list[tuple[int, Period]] = yield self._world.arrival
            self._score_unmet(arrived)

    def run(self) -> Generator[simpy.Event, Any, None]:
        """Score for ever; a process that must be started before the streams, so that it scores before data arrive."""
        server, last = self._world.server, 0
        while True:
            if isinstance(self._every, Updates):
                yield server.updated
                if server.version - last < self._every.count:
                    continue
            else:
                yield self._world.env.timeout(self._every)
                if math.isinf(self._world.env.peek()):
                    return  # nothing will ever happen again: an observer does not keep the clock going
            last = server.version
            self.score()

    def notes(self) -> list[Any]:
        """Return what it goes by, for a checkpoint."""
        return [*self._scored_at, self.latest]

    def wake(self, notes: Sequence[Any]) -> None:
        """Go on from a checkpoint."""
        version, total, second, self.latest = notes
        self._scored_at, self.resting = (version, total, second), False

    def score(self) -> None:
        """Score every model on everything seen; a version is scored again only later and with new periods."""
        if self.resting:
            return
        world = self._world
        seen = {host.number: len(host.seen) for host in world.clients.values() if host.seen}
        if not seen:
            return
        version, now, total = (world.server.version, world.server.restarts), world.env.now, sum(seen.values())
        if self._scored_at[0] == version and (self._scored_at[1] == total or self._scored_at[2] == now):
            return
        self._scored_at = version, total, now
        headline = self._score_all(seen, lambda shared: self._plans.of_seen(shared, seen))
        self.latest = self.latest if headline is None else headline
        if self._whole is not None:
            self._score_whole(self._whole)

    def _score_unmet(self, arrived: Sequence[tuple[int, Period]]) -> None:
        """Score the models of now on what has just arrived; what holds nothing to be scored on is passed over."""
        if self.resting:
            return
        pairs = [
            (client, period, period.number)
            for client, period in arrived
            if any(len(self._task.targets(graph, split)) for split in self._splits for graph in period.scored(split))
        ]
        if pairs:
            clients = dict.fromkeys(client for client, _, _ in pairs)
            self._score_all(clients, lambda shared: self._plans.of(shared, pairs))

    def _score_all(self, clients: Iterable[int], plan: Callable[[bool], Plan]) -> float | None:
        """Score every model of these clients by a plan (made for whether they share it); return the headline."""
        headline = None
        for model, params, shared in self._predicting(clients):
            value = self._score(model, params, plan(shared), shared)
            headline = value if model == self._models[0] else headline
        return headline

    def _predicting(self, clients: Iterable[int]) -> Iterator[tuple[str, dict[int, tree.Tree], bool]]:
        """Yield every model's name, what each of these clients predicts with, and whether that is one for all."""
        world, clients = self._world, [*clients]
        for model in self._models:
            choose = self._algorithm.predictor if model == "global" else self._algorithm.personal
            params = {c: choose(world.state_of(c), c, world.clients[c].memory) for c in clients}
            yield model, params, len({id(tree_) for tree_ in params.values()}) == 1

    def _score_whole(self, whole: AllPeriods) -> None:
        """Score every model of all clients on all periods of the stream."""
        for model, params, shared in self._predicting(whole.clients):
            plan = whole.plan(shared)
            output = self._output(params, plan, shared)
            pairs = {**plan.pairs, "seen": whole.seen(plan, self._world.clients)}
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
    def _score(self, model: str, params: dict[int, tree.Tree], plan: Plan, shared: bool) -> float | None:
        output = self._output(params, plan, shared)
        means = [self._score_rows(model, output, plan, plan.pairs, split, split) for split in plan.rows]
        if self._across:
            self._score_across(model, output, plan)
        for split, graphs in self._apart.items():
            one_for_all = (model, split) == ("global", setaside.POOLED)
            self._score_apart(
                model, setaside.common(self._world, params) if one_for_all else params, plan, split, graphs
            )
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
        moment = {"time": self._world.env.now, "version": self._world.server.version}
        self._recorder.extend(Score, {**moment, **columns, **others})
