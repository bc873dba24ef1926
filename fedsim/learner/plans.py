"""What is scored together: clients' graphs joined into one, and which of its rows each split asks.

Plans are kept: as long as nothing arrives, every scoring asks the same.  It models no models: whose parameters meet
which part of the union is for the evaluator to say.
"""

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from fedsim.data.graph import Graph, Period
from fedsim.learn import joining
from fedsim.learn.algorithm import Algorithm, declared
from fedsim.learn.task import Task

KEPT = 4  # joined graphs remembered between scorings

Pair = tuple[int, Period, int]  # client, period, periods seen
Base = tuple[int, int]  # which edges and which asked pairs a graph has: other masks make no other graph
Column = npt.NDArray[np.int64]


class Holding(Protocol):
    """What a plan needs of a client: its number, its memory, and the periods that it has met."""

    number: int
    seen: list[Period]

    @property
    def memory(self) -> Mapping[str, Any]:
        """What it remembers now."""
        ...


@dataclass(frozen=True)
class Plan:
    """What is scored together: the joined graph, and for each split the rows, whose they are, and of which pair."""

    graph: Graph
    clients: list[int]  # whose parts the union is made of, in its order
    pairs: dict[str, Column]  # client, period and seen of each pair, as the table of scores has them
    rows: dict[str, tuple[Tensor, Tensor]]  # split → (rows of the union, number of the pair each belongs to)


class Plans:
    """Makes plans of what clients are scored on, in these splits."""

    def __init__(self, hosts: Mapping[int, Holding], task: Task, algorithm: Algorithm, splits: Sequence[str]) -> None:
        """Look at these hosts when it is asked for a plan; the algorithm says what clients see of their graphs."""
        self._hosts, self._task, self._algorithm, self._splits = hosts, task, algorithm, splits
        self._kept: OrderedDict[Any, Plan] = OrderedDict()
        self._own: dict[int, tuple[list[Base], Graph | None]] = {}  # each client's graphs, and their union
        self._views = declared(algorithm, "sees_more")

    def of_seen(self, shared: bool, seen: Mapping[int, int]) -> Plan:
        """Return the plan of what clients have met: of each the number of its periods.

        `shared`: whether all are scored with one set of parameters.
        """
        if self._views:  # what a client knows of its vertices is of now, and changes with every job
            latest = [(host.number, host.seen[-1], len(host.seen)) for host in map(self._hosts.__getitem__, seen)]
            return self.of(shared, latest)
        key = (shared, *seen.items())
        if key not in self._kept:
            hosts = [self._hosts[client] for client in seen]
            pairs = [(host.number, period, len(host.seen)) for host in hosts for period in host.seen]
            self._kept[key] = self.of(shared, pairs)
            if len(self._kept) > KEPT:
                self._kept.popitem(last=False)
        self._kept.move_to_end(key)
        return self._kept[key]

    def of(self, shared: bool, pairs: Sequence[Pair]) -> Plan:
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
        joined = joining.union(parts, shared=shared)
        vertices = torch.tensor([len(graph["y"]) for graph in first.values()])
        of_graph = torch.tensor([numbers[key] for key in first]).repeat_interleave(vertices)
        joined["period"] = of_graph.to(joined["y"].device)
        return Plan(joined, [*own], columns, rows)

    def _rows(self, split: str, pairs: Sequence[Pair], starts: dict[tuple[int, Base], int]) -> tuple[Tensor, Tensor]:
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
            return viewed if len(viewed) == 1 or shared else [joining.union(viewed, shared=True)]
        if len(graphs) == 1 or (shared and met != [*graphs]):
            self._own[client] = [*graphs], None
            return [*graphs.values()]
        if union is None or met != [*graphs]:
            union = joining.union([*graphs.values()], shared=True)
            self._own[client] = [*graphs], union
        return [union]

    def _shown(self, client: int, graphs: dict[Base, Graph]) -> dict[Base, Graph]:
        """Return the graphs as the client sees them: what it adds to one's vertices stands behind them."""
        if not self._views:
            return graphs
        memory = self._hosts[client].memory
        return {base: self._algorithm.sees(memory, graph) for base, graph in graphs.items()}


def _base(graph: Graph) -> Base:
    return id(graph["edges"]), id(graph.get("pairs"))
