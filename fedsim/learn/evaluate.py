"""The observer: wakes on updates (or by the clock), scores every client on every period it has seen, records.

When periods reach clients it also scores the models of that moment on them alone, before anything is trained on them:
prequential rows, of test-then-train (Gama, Sebastiao and Rodrigues, "On evaluating stream learning algorithms",
Machine Learning 90, 2013), here one value a period.

It costs no simulated time and sends nothing.  Two models can be scored: `global`, the parameters that the server
would have the client predict with, and `local`, those that the client's last finished job left it with.  All graphs
are scored in one computation: with one set of parameters where all clients share it, with stacked ones otherwise.
"""

import math
from collections import OrderedDict
from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import simpy
import torch
from torch import Tensor

from fedsim.data.graph import Graph, Period
from fedsim.learn import layout, tree
from fedsim.learn.task import Task
from fedsim.record import Recorder, Score
from fedsim.units import Updates
from fedsim.world import World

PLANS_KEPT = 4  # joined graphs remembered between scorings

Pair = tuple[int, Period, int]  # client, period, periods seen


@dataclass(frozen=True)
class Plan:
    """What is scored together: the joined graph, and for each split the rows, whose they are, and of which pair."""

    graph: Graph
    bases: list[int]  # the client of each graph in the union
    pairs: list[Pair]
    rows: dict[str, tuple[Tensor, Tensor]]  # split → (rows of the union, number of the pair each belongs to)


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
    ) -> None:
        """Watch this world; `every` is a number of updates or of simulated seconds."""
        self._world, self._task, self._recorder = world, task, recorder
        self._metrics, self._models, self._splits, self._every = metrics, models, splits, every
        self._plans: OrderedDict[Any, Plan] = OrderedDict()
        self._scored_at = (-1, 0, 0.0)  # version, periods seen by all clients together, second
        self.latest: float | None = None  # the headline model's latest mean score, for the progress bar

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

    def score(self) -> None:
        """Score every model on everything seen; a version is scored again only later and with new periods."""
        hosts = [host for host in self._world.clients.values() if host.seen]
        if not hosts:
            return
        version, seen, now = self._world.server.version, sum(len(host.seen) for host in hosts), self._world.env.now
        if self._scored_at[0] == version and (self._scored_at[1] == seen or self._scored_at[2] == now):
            return
        self._scored_at = version, seen, now
        headline = self._score_all([host.number for host in hosts], self._plan_of_seen)
        self.latest = self.latest if headline is None else headline

    def _score_unmet(self, arrived: Sequence[tuple[int, Period]]) -> None:
        """Score the models of now on what has just arrived; what holds nothing to be scored on is passed over."""
        pairs = [
            (client, period, period.number)
            for client, period in arrived
            if any(len(self._task.targets(period.graph, split)) for split in self._splits)
        ]
        if pairs:
            clients = dict.fromkeys(client for client, _, _ in pairs)
            self._score_all(clients, lambda shared: self._make_plan(shared, pairs))

    def _score_all(self, clients: Iterable[int], plan: Callable[[bool], Plan]) -> float | None:
        """Score every model of these clients by a plan (which is told whether they share it); return the headline."""
        world, headline = self._world, None
        for model in self._models:
            choose = world.algorithm.predictor if model == "global" else world.algorithm.personal
            params = {c: choose(world.state_of(c), c, world.clients[c].memory) for c in clients}
            shared = len({id(tree_) for tree_ in params.values()}) == 1
            value = self._score(model, params, plan(shared), shared)
            headline = value if model == self._models[0] else headline
        return headline

    @torch.no_grad()
    def _score(self, model: str, params: dict[int, tree.Tree], plan: Plan, shared: bool) -> float | None:
        stacked = tree.stack([next(iter(params.values()))] if shared else [params[c] for c in plan.bases])
        output = self._task.forward(stacked, plan.graph)
        headline: list[tuple[float, float]] = []
        for split, (rows, owner) in plan.rows.items():
            scores = self._task.scores(output, plan.graph, rows, owner, len(plan.pairs), self._metrics)
            weights = [int(weight) for weight in scores["weight"].tolist()]
            for metric in self._metrics:
                values = scores[metric].tolist()
                self._write(model, split, metric, plan, values, weights)
                if not headline and split == self._splits[0]:
                    headline = [(v, w) for v, w in zip(values, weights, strict=True) if w]
        return sum(v * w for v, w in headline) / sum(w for _, w in headline) if headline else None

    def _write(self, model: str, split: str, metric: str, plan: Plan, values: list[float], weights: list[int]) -> None:
        now, version = self._world.env.now, self._world.server.version
        for (client, period, seen), value, weight in zip(plan.pairs, values, weights, strict=True):
            if weight:
                row = Score(now, version, client, period.number, seen, model, split, metric, value, weight)
                self._recorder.add(row)

    def _plan_of_seen(self, shared: bool) -> Plan:
        hosts = [host for host in self._world.clients.values() if host.seen]
        key = (shared, tuple((host.number, len(host.seen)) for host in hosts))
        if key not in self._plans:
            pairs = [(host.number, period, len(host.seen)) for host in hosts for period in host.seen]
            self._plans[key] = self._make_plan(shared, pairs)
            if len(self._plans) > PLANS_KEPT:
                self._plans.popitem(last=False)
        self._plans.move_to_end(key)
        return self._plans[key]

    def _make_plan(self, shared: bool, pairs: list[Pair]) -> Plan:
        """Join each client's distinct graphs once; periods that differ in their masks only share one."""
        graphs: list[Graph] = []
        bases: list[int] = []
        starts: dict[tuple[int, int], int] = {}
        total = 0
        for client, period, _ in pairs:
            base = (client, id(period.graph["edges"]))
            if base not in starts:
                starts[base] = total
                total += len(period.graph["y"])
                graphs.append(period.graph)
                bases.append(client)
        rows: dict[str, tuple[Tensor, Tensor]] = {}
        for split in self._splits:
            parts = [
                self._task.targets(period.graph, split) + starts[client, id(period.graph["edges"])]
                for client, period, _ in pairs
            ]
            counts = torch.tensor([len(part) for part in parts], device=parts[0].device)
            owner = torch.repeat_interleave(torch.arange(len(parts), device=counts.device), counts)
            rows[split] = (torch.cat(parts), owner)
        return Plan(layout.union(graphs, shared=shared), bases, pairs, rows)
