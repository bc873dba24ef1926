"""Plans of what is scored together: clients' graphs joined into one, and the rows that belong to each split.

Plans are cached: as long as no data arrive, every scoring uses the same one.  Which parameters are applied to which
part of the union is up to the caller (`scoring.py`).
"""

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from fedsim.data.graph import Graph, Period
from fedsim.learn import joining, tree
from fedsim.learn.algorithm import Algorithm, State, declared
from fedsim.learn.sight import Seen, Sight
from fedsim.learn.task import Task

KEPT = 4  # joined graphs cached between scorings

Pair = tuple[int, Period, int]  # client, period, periods seen
Base = tuple[int, ...]  # identity of a graph's edges and pairs; masks may differ; and the period, if views differ
Column = npt.NDArray[np.int64]
Models = Mapping[int, tuple[State, tree.Tree]]  # by client: the server's state and the parameters to score


class Holding(Protocol):
    """A client, as plans use it: its number, its memory, and the periods that it has met."""

    number: int
    seen: list[Period]

    @property
    def memory(self) -> Mapping[str, Any]:
        """Its current memory."""
        ...


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
class Plan:
    """What is scored together: the joined graphs, and for each split its rows with the pair each belongs to."""

    joined: Joined
    pairs: dict[str, Column]  # client, period and seen of each pair, as the table of scores has them
    rows: dict[str, tuple[Tensor, Tensor]]  # split → (rows of the union, number of the pair each belongs to)
    bills: dict[str, tuple[Column, Column]]  # split → bytes that each pair's client sends and receives to predict there

    @property
    def graph(self) -> Graph:
        """The joined graph."""
        return self.joined.graph


class Plans:
    """Makes plans for scoring clients on these splits."""

    def __init__(self, hosts: Mapping[int, Holding], task: Task, algorithm: Algorithm, splits: Sequence[str]) -> None:
        """Read these hosts when a plan is made; the algorithm may extend their graphs (`Algorithm.sees`)."""
        self._hosts, self._task, self._algorithm, self._splits = hosts, task, algorithm, splits
        self._kept: OrderedDict[Any, Plan] = OrderedDict()
        self._own: dict[int, tuple[list[Base], Graph | None]] = {}  # each client's graphs, and their union
        self._views = declared(algorithm, "sees_more")
        self._recalls = self._views and algorithm.recalls
        self._past = self._views and (algorithm.sees_past or algorithm.recalls)

    def of_seen(
        self, shared: bool, seen: Mapping[int, int], known: Joined | None, models: Models | None = None
    ) -> Plan:
        """Return the plan of what clients have met; `seen` has the number of periods of each.

        `shared`: whether one set of parameters is used for all.  `known` may have all of these graphs already.
        `models`: see `of`.
        """
        if self._views:  # what a client knows of its vertices changes with every job
            hosts = [self._hosts[client] for client in seen]
            met = [
                (host.number, period, len(host.seen))
                for host in hosts
                for period in (host.seen if self._past else host.seen[-1:])
            ]
            return self.of(shared, met, models)
        key = (shared, id(known), *seen.items())
        if key not in self._kept:
            hosts = [self._hosts[client] for client in seen]
            pairs = [(host.number, period, len(host.seen)) for host in hosts for period in host.seen]
            self._kept[key] = (known and self.within(known, pairs)) or self.of(shared, pairs)
            if len(self._kept) > KEPT:
                self._kept.popitem(last=False)
        self._kept.move_to_end(key)
        return self._kept[key]

    def of(self, shared: bool, pairs: Sequence[Pair], models: Models | None = None) -> Plan:
        """Join each client's distinct graphs once; periods that differ only in their masks share one.

        `models` are what is scored, required where the algorithm extends graphs: its clients may exchange what depends
        on their parameters.
        """
        own: dict[int, dict[Base, Graph]] = {}
        numbers: dict[tuple[int, Base], int] = {}  # the first period with that graph
        dates: dict[tuple[int, Base], int] = {}  # the period whose graph it is
        for client, period, _ in pairs:
            for split in self._splits:
                for place, graph in enumerate(self._asked(period, split), 1):
                    base = self._base(graph, period)
                    own.setdefault(client, {}).setdefault(base, graph)
                    numbers.setdefault((client, base), period.number)
                    date = period.number + (place if graph["edges"] is not period.graph["edges"] else 0)
                    dates.setdefault((client, base), date)
        bills: dict[tuple[int, Base], tuple[int, int]] = {}
        shown = own
        if self._views:
            seen = self._seen(own, dates, numbers, models or {})
            shown = {client: {base: seen[client, base].graph for base in met} for client, met in own.items()}
            bills = {key: (one.up, one.down) for key, one in seen.items()}
        parts = [part for client, met in shown.items() for part in self._parts(client, met, shared)]
        first = {(client, base): graph for client, met in shown.items() for base, graph in met.items()}
        lengths = [self._task.rows(graph) for graph in first.values()]
        starts = accumulate(lengths, initial=0)  # one more: the end
        graph = joining.union(parts, shared=shared)
        vertices = torch.tensor([len(graph["y"]) for graph in first.values()])
        of_graph = torch.tensor([numbers[key] for key in first]).repeat_interleave(vertices)
        graph["period"] = of_graph.to(graph["y"].device)
        graphs = [(client, one) for (client, _), one in first.items()]
        return self._plan(Joined(graph, graphs, parts, dict(zip(first, starts, strict=False))), pairs, bills)

    def within(self, joined: Joined, pairs: Sequence[Pair]) -> Plan | None:
        """Return the plan of pairs whose graphs are joined already.

        None if some are not, or if scores also depend on what else is joined, as the negatives of links do.
        """
        if self._views or "pairs" in joined.graph:
            return None
        bases = ((client, base_of(graph)) for client, period, _ in pairs for graph in self._scored(period))
        return self._plan(joined, pairs) if all(base in joined.starts for base in bases) else None

    def _plan(
        self, joined: Joined, pairs: Sequence[Pair], bills: Mapping[tuple[int, Base], tuple[int, int]] | None = None
    ) -> Plan:
        rows = {split: self._rows(split, pairs, joined.starts) for split in self._splits}
        table = np.array([(client, period.number, seen) for client, period, seen in pairs], dtype=np.int64)
        billed = {split: self._billed(split, pairs, bills) for split in self._splits} if bills else {}
        return Plan(joined, dict(zip(("client", "period", "seen"), table.T.copy(), strict=True)), rows, billed)

    def _billed(
        self, split: str, pairs: Sequence[Pair], bills: Mapping[tuple[int, Base], tuple[int, int]]
    ) -> tuple[Column, Column]:
        """Return the bytes up and down of each pair on the graphs on which anybody is scored in this split."""
        graphs = [period.scored(split) for _, period, _ in pairs]
        asked = {at for own in graphs for at, graph in enumerate(own) if len(self._task.targets(graph, split))}
        found = np.zeros((2, len(pairs)), dtype=np.int64)
        for number, ((client, period, _), own) in enumerate(zip(pairs, graphs, strict=True)):
            for at, graph in enumerate(own):
                if at in asked:
                    found[:, number] += bills[client, self._base(graph, period)]
        return found[0], found[1]

    def _base(self, graph: Graph, period: Period) -> Base:
        return (*base_of(graph), period.number) if self._recalls else base_of(graph)

    def _asked(self, period: Period, split: str) -> tuple[Graph, ...]:
        """Return the graphs on which the split is scored, where pairs are judged only those that ask any of it."""
        graphs = period.scored(split)
        if not self._task.pairs:
            return graphs
        return tuple(graph for graph in graphs if len(self._task.targets(graph, split))) or graphs[-1:]

    def _scored(self, period: Period) -> list[Graph]:
        return [graph for split in self._splits for graph in period.scored(split)]

    def _rows(self, split: str, pairs: Sequence[Pair], starts: dict[tuple[int, Base], int]) -> tuple[Tensor, Tensor]:
        """Return the rows of the union that a split is scored on, and the number of the pair that each belongs to."""
        parts = [
            [
                self._task.targets(graph, split) + starts[client, self._base(graph, period)]
                for graph in self._asked(period, split)
            ]
            for client, period, _ in pairs
        ]
        rows = torch.cat([part for one in parts for part in one])
        counts = torch.tensor([sum(map(len, one)) for one in parts], device=rows.device)
        owner = torch.repeat_interleave(torch.arange(len(parts), device=counts.device), counts)
        return rows, owner

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

    def _seen(
        self,
        own: Mapping[int, dict[Base, Graph]],
        dates: Mapping[tuple[int, Base], int],
        numbers: Mapping[tuple[int, Base], int],
        models: Models,
    ) -> dict[tuple[int, Base], Seen]:
        """Return the graphs as the clients see them; vertices that they add come after a graph's own."""
        keys = [(client, base) for client, met in own.items() for base in met]
        memories = {client: self._hosts[client].memory for client in own}
        sights = []
        for client, base in keys:
            (state, params), met = models[client], numbers[client, base] if self._recalls else None
            date, graph = dates[client, base], own[client][base]
            sights.append(Sight(client, date, graph, params, state, memories[client], met))
        return dict(zip(keys, self._algorithm.sees_all(sights), strict=True))


def base_of(graph: Mapping[str, Any]) -> Base:
    """Return what graphs have in common that differ only in their masks."""
    return id(graph["edges"]), id(graph.get("pairs"))
