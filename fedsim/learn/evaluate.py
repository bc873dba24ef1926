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
from collections import OrderedDict
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import numpy as np
import numpy.typing as npt
import simpy
import torch
from torch import Tensor

from fedsim.algorithm import Algorithm
from fedsim.data.graph import Graph, Period
from fedsim.learn import crossing, layout, setaside, tree
from fedsim.learn.metrics import LINKS
from fedsim.learn.task import Task
from fedsim.record import SERVER, Recorder, Score
from fedsim.units import Updates
from fedsim.world import World

PLANS_KEPT = 4  # joined graphs remembered between scorings

Pair = tuple[int, Period, int]  # client, period, periods seen
Base = tuple[int, int]  # which edges and which asked pairs a graph has: other masks make no other graph
Column = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Plan:
    """What is scored together: the joined graph, and for each split the rows, whose they are, and of which pair."""

    graph: Graph
    clients: list[int]  # whose parts the union is made of, in its order
    pairs: dict[str, Column]  # client, period and seen of each pair, as the table of scores has them
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
        apart: Mapping[str, Sequence[Graph]] | None = None,
        algorithm: Algorithm | None = None,
    ) -> None:
        """Watch this world; `every` is a number of updates or of simulated seconds.

        `apart` are each period's graphs of those splits that ask a graph of their own (see `setaside`); `algorithm`
        says what clients predict with, where the world's is only what the clock sees of it.
        """
        self._world, self._task, self._recorder = world, task, recorder
        self._metrics, self._models, self._every = metrics, models, every
        self._splits = [split for split in splits if split not in (crossing.SPLIT, *setaside.SPLITS)]
        self._across = crossing.SPLIT in splits
        self._apart = {split: graphs for split, graphs in (apart or {}).items() if split in splits}
        self._plans: OrderedDict[Any, Plan] = OrderedDict()
        self._own: dict[int, tuple[list[Base], Graph | None]] = {}  # each client's graphs, and their union
        self._algorithm = world.algorithm if algorithm is None else algorithm
        self._views = type(self._algorithm).sees is not Algorithm.sees
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
        headline = self._score_all(seen, lambda shared: self._plan_of_seen(shared, seen))
        self.latest = self.latest if headline is None else headline

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
            self._score_all(clients, lambda shared: self._make_plan(shared, pairs))

    def _score_all(self, clients: Iterable[int], plan: Callable[[bool], Plan]) -> float | None:
        """Score every model of these clients by a plan (which is told whether they share it); return the headline."""
        world, headline = self._world, None
        for model in self._models:
            choose = self._algorithm.predictor if model == "global" else self._algorithm.personal
            params = {c: choose(world.state_of(c), c, world.clients[c].memory) for c in clients}
            shared = len({id(tree_) for tree_ in params.values()}) == 1
            value = self._score(model, params, plan(shared), shared)
            headline = value if model == self._models[0] else headline
        return headline

    @torch.no_grad()
    def _score(self, model: str, params: dict[int, tree.Tree], plan: Plan, shared: bool) -> float | None:
        stacked = tree.stack([next(iter(params.values()))] if shared else [params[c] for c in plan.clients])
        output = self._task.forward(stacked, plan.graph)
        headline: float | None = None
        for split, (rows, owner) in plan.rows.items():
            owners = len(plan.pairs["client"])
            scores = self._task.scores(output, plan.graph, rows, owner, owners, self._metrics)
            weights = scores["weight"].cpu().numpy()
            there = weights > 0
            columns = {name: column[there] for name, column in plan.pairs.items()} | {"weight": weights[there]}
            for metric in self._metrics:
                values = scores[metric].cpu().numpy()[there]
                self._write(columns, model=model, split=split, metric=metric, value=values)
                if (split, metric) == (self._splits[0], self._metrics[0]) and len(values):
                    headline = float(np.average(values, weights=columns["weight"]))
        if self._across:
            self._score_across(model, output, plan)
        for split, graphs in self._apart.items():
            one_for_all = (model, split) == ("global", setaside.POOLED)
            self._score_apart(
                model, setaside.common(self._world, params) if one_for_all else params, plan, split, graphs
            )
        return headline

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

    def _plan_of_seen(self, shared: bool, seen: dict[int, int]) -> Plan:
        if self._views:  # what a client knows of its vertices is of now, and changes with every job
            latest = [
                (host.number, host.seen[-1], len(host.seen)) for host in map(self._world.clients.__getitem__, seen)
            ]
            return self._make_plan(shared, latest)
        key = (shared, *seen.items())
        if key not in self._plans:
            hosts = [self._world.clients[client] for client in seen]
            pairs = [(host.number, period, len(host.seen)) for host in hosts for period in host.seen]
            self._plans[key] = self._make_plan(shared, pairs)
            if len(self._plans) > PLANS_KEPT:
                self._plans.popitem(last=False)
        self._plans.move_to_end(key)
        return self._plans[key]

    def _make_plan(self, shared: bool, pairs: list[Pair]) -> Plan:
        """Join each client's distinct graphs once; periods that differ in their masks only share one."""
        own: dict[int, dict[Base, Graph]] = {}
        numbers: dict[tuple[int, Base], int] = {}  # the period that a graph was met in first
        for client, period, _ in pairs:
            for graph in (graph for split in self._splits for graph in period.scored(split)):
                own.setdefault(client, {}).setdefault(_base(graph), graph)
                numbers.setdefault((client, _base(graph)), period.number)
        shown = {client: self._shown(client, met) for client, met in own.items()}
        parts = [part for client, met in shown.items() for part in self._parts(client, met, shared)]
        first = {(client, base): graph for client, met in shown.items() for base, graph in met.items()}
        lengths = [self._task.rows(graph) for graph in first.values()]
        starts = dict(zip(first, accumulate(lengths, initial=0), strict=False))  # one more: the end
        rows = {split: self._rows(split, pairs, starts) for split in self._splits}
        table = np.array([(client, period.number, seen) for client, period, seen in pairs], dtype=np.int64)
        columns = dict(zip(("client", "period", "seen"), table.T.copy(), strict=True))
        joined = layout.union(parts, shared=shared)
        vertices = torch.tensor([len(graph["y"]) for graph in first.values()])
        of_graph = torch.tensor([numbers[key] for key in first]).repeat_interleave(vertices)
        joined["period"] = of_graph.to(joined["y"].device)
        return Plan(joined, [*own], columns, rows)

    def _rows(self, split: str, pairs: list[Pair], starts: dict[tuple[int, Base], int]) -> tuple[Tensor, Tensor]:
        """Return the rows of the union that a split is scored on, and the number of the pair that each belongs to."""
        parts = [
            [self._task.targets(graph, split) + starts[client, _base(graph)] for graph in period.scored(split)]
            for client, period, _ in pairs
        ]
        rows = torch.cat([part for one in parts for part in one])
        counts = torch.tensor([sum(map(len, one)) for one in parts], device=rows.device)
        owner = torch.repeat_interleave(torch.arange(len(parts), device=counts.device), counts)
        return rows, owner

    def _parts(self, client: int, graphs: dict[Base, Graph], shared: bool) -> list[Graph]:
        """One client's graphs, as one where its parameters are its own or the same graphs have been met before.

        Most plans differ from the last one in few clients; but where all have got more, joining twice would cost more.
        """
        met, union = self._own.get(client, ([], None))
        if self._views:
            viewed = [*graphs.values()]
            return viewed if len(viewed) == 1 or shared else [layout.union(viewed, shared=True)]
        if len(graphs) == 1 or (shared and met != [*graphs]):
            self._own[client] = [*graphs], None
            return [*graphs.values()]
        if union is None or met != [*graphs]:
            union = layout.union([*graphs.values()], shared=True)
            self._own[client] = [*graphs], union
        return [union]

    def _shown(self, client: int, graphs: dict[Base, Graph]) -> dict[Base, Graph]:
        """Return the graphs as the client sees them: what it adds to one's vertices stands behind them."""
        if not self._views:
            return graphs
        memory = self._world.clients[client].memory
        return {base: self._algorithm.sees(memory, graph) for base, graph in graphs.items()}


def _base(graph: Graph) -> Base:
    return id(graph["edges"]), id(graph.get("pairs"))
