"""Plans of what is scored together: clients' graphs joined into one, and the rows that belong to each split.

Plans are cached: as long as no data arrive, every scoring uses the same one.  Which parameters are applied to
which part of the union is up to the caller (`scoring.py`).
"""

from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fedsim.core.arrays import Ints
from fedsim.data.graph import Graph, Period
from fedsim.learn.algorithm import Algorithm, State
from fedsim.learn.engine import joining, tree
from fedsim.learn.job import Seen, Sight
from fedsim.learn.task import Task
from fedsim.learner.client import Client
from fedsim.learner.scoring.split import ClientSplit

KEPT = 4  # joined graphs cached between scorings

ClientPeriod = tuple[int, Period, int]  # client, period, periods seen
Base = tuple[int, ...]  # identity of a graph's edges and pairs; masks may differ; and the period, if views differ
Asked = dict[int, dict[Base, tuple[Graph, int, int]]]  # by client, with the first period that has it, and its own
Models = Mapping[int, tuple[State, tree.Tree]]  # by client: the server's state and the parameters to score


@dataclass(frozen=True, eq=False)
class Joined:
    """Clients' graphs as one."""

    graph: Graph
    graphs: list[tuple[int, Graph]]  # every client's graphs, in order
    parts: list[Graph]  # what was joined: where parameters are each client's own, one graph a client
    starts: dict[tuple[int, Base], int]  # the first row of every client's graph

    @cached_property
    def clients(self) -> list[int]:
        """The clients, in order."""
        return [*dict.fromkeys(client for client, _ in self.graphs)]

    @cached_property
    def part(self) -> dict[int, Graph]:
        """Each client's part, where parameters are each client's own."""
        return dict(zip(self.clients, self.parts, strict=True))


@dataclass(frozen=True)
class ScoringPlan:
    """What is scored together: the joined graphs, and for each split its rows with the pair each belongs to."""

    joined: Joined
    pairs: dict[str, Ints]  # client, period and seen of each pair, as the table of scores has them
    rows: dict[str, tuple[Tensor, Tensor]]  # split → (rows of the union, number of the pair each belongs to)
    bills: dict[str, tuple[Ints, Ints]]  # split → bytes that each pair's client sends and receives to predict there


class Plans:
    """Makes plans for scoring clients on these splits."""

    def __init__(
        self, hosts: Mapping[int, Client], task: Task, algorithm: Algorithm, splits: Mapping[str, ClientSplit]
    ) -> None:
        """Read these hosts when a plan is made; the algorithm may extend their graphs (`Algorithm.sees`)."""
        self._hosts, self._task, self._algorithm, self._splits = hosts, task, algorithm, splits
        self._kept: OrderedDict[Any, ScoringPlan] = OrderedDict()
        self._own: dict[int, tuple[list[Base], Graph | None]] = {}  # each client's graphs, and their union
        self._views = algorithm.sees_more
        self._recalls = self._views and algorithm.recalls
        self._past = self._views and (algorithm.sees_past or algorithm.recalls)

    def of_seen(
        self, shared: bool, seen: Mapping[int, int], known: Joined | None, models: Models | None = None
    ) -> ScoringPlan:
        """Return the plan of what clients have met; `seen` has the number of periods of each.

        `shared`: whether one set of parameters is used for all.  `known` may have all of these graphs
        already.  `models`: see `of`.
        """
        if self._views:  # what a client knows of its nodes changes with every job
            return self.of(shared, self._met(seen, latest=not self._past), models)
        key = (shared, id(known), *seen.items())
        if key not in self._kept:
            pairs = self._met(seen)
            self._kept[key] = (known and self.within(known, pairs)) or self.of(shared, pairs)
            if len(self._kept) > KEPT:
                self._kept.popitem(last=False)
        self._kept.move_to_end(key)
        return self._kept[key]

    def _met(self, clients: Iterable[int], *, latest: bool = False) -> list[ClientPeriod]:
        """Return the periods that clients have met, or the latest of each."""
        hosts, wanted = [self._hosts[client] for client in clients], slice(-1 if latest else 0, None)
        return [(host.number, period, len(host.seen)) for host in hosts for period in host.seen[wanted]]

    def of(self, shared: bool, pairs: Sequence[ClientPeriod], models: Models | None = None) -> ScoringPlan:
        """Join each client's distinct graphs once; periods that differ only in their masks share one.

        `models` are what is scored, required where the algorithm extends graphs: its clients may exchange
        what depends on their parameters.
        """
        asked: Asked = {}
        for client, period, _ in pairs:
            for split in self._splits:
                for place, graph in enumerate(self._graphs(period, split), 1):
                    date = period.number + (place if graph["edges"] is not period.graph["edges"] else 0)
                    of_client = asked.setdefault(client, {})
                    of_client.setdefault(self._base(graph, period), (graph, period.number, date))
        graphs = {client: {base: graph for base, (graph, _, _) in met.items()} for client, met in asked.items()}
        bills: dict[tuple[int, Base], tuple[int, int]] = {}
        if self._views:
            seen = self._seen(asked, models or {})
            graphs = {client: {base: seen[client, base].graph for base in met} for client, met in asked.items()}
            bills = {key: (view.up, view.down) for key, view in seen.items()}
        parts = [part for client, met in graphs.items() for part in self._parts(client, met, shared)]
        first = {(client, base): graph for client, met in graphs.items() for base, graph in met.items()}
        starts = accumulate(map(self._task.rows, first.values()), initial=0)  # one more: the end
        union = joining.union(parts, shared=shared)
        nodes = torch.tensor([len(graph["y"]) for graph in first.values()])
        numbers = torch.tensor([number for met in asked.values() for _, number, _ in met.values()])
        union["period"] = numbers.repeat_interleave(nodes).to(union["y"].device)
        by_client = [(client, graph) for (client, _), graph in first.items()]
        return self._plan(Joined(union, by_client, parts, dict(zip(first, starts, strict=False))), pairs, bills)

    def within(self, joined: Joined, pairs: Sequence[ClientPeriod]) -> ScoringPlan | None:
        """Return the plan of pairs whose graphs are joined already.

        None if some are not, or if scores also depend on what else is joined, as the negatives of links do.
        """
        if self._views or "pairs" in joined.graph:
            return None
        bases = ((client, base_of(graph)) for client, period, _ in pairs for graph in self._scored(period))
        return self._plan(joined, pairs) if all(base in joined.starts for base in bases) else None

    def _plan(
        self,
        joined: Joined,
        pairs: Sequence[ClientPeriod],
        bills: Mapping[tuple[int, Base], tuple[int, int]] | None = None,
    ) -> ScoringPlan:
        rows = {split: self._rows(split, pairs, joined.starts) for split in self._splits}
        table = np.array([(client, period.number, seen) for client, period, seen in pairs], dtype=np.int64)
        billed = {split: self._billed(split, pairs, bills) for split in self._splits} if bills else {}
        return ScoringPlan(joined, dict(zip(("client", "period", "seen"), table.T.copy(), strict=True)), rows, billed)

    def _billed(
        self, split: str, pairs: Sequence[ClientPeriod], bills: Mapping[tuple[int, Base], tuple[int, int]]
    ) -> tuple[Ints, Ints]:
        """Return the bytes up and down of each pair on the graphs on which anybody is scored in this split."""
        graphs = [self._splits[split].graphs(period) for _, period, _ in pairs]
        asked = {at for own in graphs for at, graph in enumerate(own) if len(self._targets(graph, split))}
        found = np.zeros((2, len(pairs)), dtype=np.int64)
        for number, ((client, period, _), own) in enumerate(zip(pairs, graphs, strict=True)):
            for at, graph in enumerate(own):
                if at in asked:
                    found[:, number] += bills[client, self._base(graph, period)]
        return found[0], found[1]

    def _base(self, graph: Graph, period: Period) -> Base:
        return (*base_of(graph), period.number) if self._recalls else base_of(graph)

    def _graphs(self, period: Period, split: str) -> tuple[Graph, ...]:
        """Return the graphs on which the split is scored, where pairs are judged only those that ask any of it."""
        graphs = self._splits[split].graphs(period)
        if not self._task.pairs:
            return graphs
        return tuple(graph for graph in graphs if len(self._targets(graph, split))) or graphs[-1:]

    def _targets(self, graph: Graph, split: str) -> Tensor:
        return self._splits[split].targets(self._task, graph)

    def _scored(self, period: Period) -> list[Graph]:
        return [graph for split in self._splits.values() for graph in split.graphs(period)]

    def _rows(
        self, split: str, pairs: Sequence[ClientPeriod], starts: dict[tuple[int, Base], int]
    ) -> tuple[Tensor, Tensor]:
        """Return the rows of the union that a split is scored on, and the number of the pair that each belongs to."""
        parts = [
            [
                self._targets(graph, split) + starts[client, self._base(graph, period)]
                for graph in self._graphs(period, split)
            ]
            for client, period, _ in pairs
        ]
        rows = torch.cat([part for one in parts for part in one])
        counts = torch.tensor([sum(map(len, one)) for one in parts], device=rows.device)
        return rows, torch.repeat_interleave(torch.arange(len(parts), device=counts.device), counts)

    def _parts(self, client: int, graphs: dict[Base, Graph], shared: bool) -> list[Graph]:
        """Return one client's graphs, joined if its parameters are its own or the same graphs were joined before.

        Most plans differ from the last one in few clients; if all have new graphs, joining twice would cost more.
        """
        met, union = self._own.get(client, ([], None))
        if self._views:
            viewed = [*graphs.values()]
            return viewed if len(viewed) == 1 or shared else [joining.union(viewed, shared=True)]
        if len(graphs) == 1 or (shared and met != [*graphs]):
            self._own[client] = [*graphs], None
            return [*graphs.values()]
        if union is None or met != [*graphs]:
            union = joining.union([*graphs.values()], shared=True)
            self._own[client] = [*graphs], union
        return [union]

    def _seen(self, asked: Asked, models: Models) -> dict[tuple[int, Base], Seen]:
        """Return the graphs as the clients see them; nodes that they add come after a graph's own."""
        keys, sights = [], []
        for client, met in asked.items():
            (state, params), memory = models[client], self._hosts[client].memory
            for base, (graph, number, date) in met.items():
                keys.append((client, base))
                sights.append(Sight(client, date, graph, params, state, memory, number if self._recalls else None))
        return dict(zip(keys, self._algorithm.sees_all(sights), strict=True))


def base_of(graph: Mapping[str, Any]) -> Base:
    """Return what graphs have in common that differ only in their masks."""
    return id(graph["edges"]), id(graph.get("pairs"))
