"""The contract of a split: when it can be scored, and on what.

Most pick rows of clients' own graphs (`ClientSplit`).
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch
from torch import Tensor

from fedsim.core.arrays import Ints
from fedsim.core.errors import ScenarioError
from fedsim.core.record import SERVER
from fedsim.data.graph import Graph, Period
from fedsim.data.graphs.common_pairs import Negatives
from fedsim.learn.algorithm import Algorithm, State
from fedsim.learn.engine import tree
from fedsim.learn.metric import Judged, Metric
from fedsim.learn.task import Task
from fedsim.scenario.measure import Heuristic

Block = dict[str, Any]  # rows of the table of scores as columns, without split, time and version
FIRST = "has no score per client, and the summary reports the first split; put 'test' or 'val' before it"


@dataclass(frozen=True)
class Scene:
    """What there is to score: `splits` are those asked for, by name, `periods` each client's whole stream.

    `apart` has each period's graph, by `Split.set_aside`.  Where pairs of nodes can be the same for every
    run, `negatives` says how those without an edge are drawn; a period is tested `later` snapshots on.
    """

    task: Task
    algorithm: Algorithm
    splits: "Mapping[str, Split]"
    periods: Sequence[Sequence[Period]] = ()
    apart: Mapping[str, Sequence[Graph]] = field(default_factory=dict)
    heuristics: Sequence[Heuristic] = ()
    negatives: Negatives | None = None
    later: int = 0

    @property
    def has_client_split(self) -> bool:
        """Whether clients are scored on the periods that they have met."""
        return any(isinstance(split, ClientSplit) and not split.all_periods for split in self.splits.values())


class Prediction(NamedTuple):
    """What a model predicts for clients; `leads` is True of the first model that is scored.

    `output` (N, outputs) is for the nodes of `graph`, which joins the clients' graphs.  `pairs` has the
    columns client, period and seen of each client's periods.  `everyone`: whether these are all clients that
    have a model.
    """

    model: str
    leads: bool
    params: dict[int, tree.Tree]
    state_of: Callable[[int], State]
    graph: Graph
    pairs: dict[str, Ints]
    output: Tensor
    everyone: bool

    @property
    def period(self) -> int:
        """The latest of the periods."""
        return int(self.pairs["period"].max())

    def of_server(self, values: Mapping[str, float], weight: int, model: str = "") -> Iterator[Block]:
        """Yield rows of the server for values of the latest period by metric."""
        seen = int(self.pairs["seen"].max())
        numbers = {"client": SERVER, "period": self.period, "seen": seen, "weight": weight}
        columns: Block = {name: np.array([number]) for name, number in numbers.items()}
        for metric, value in values.items():
            yield {**columns, "model": model or self.model, "metric": metric, "value": np.array([value])}


Scorer = Callable[[Prediction], Iterable[Block]]  # computes the rows of a model's scores; it may keep what it computed


class Split(ABC):
    """A frozen dataclass without options, which is scored in a way of its own."""

    per_client: ClassVar[bool] = False  # False if all rows are the server's, which the summary cannot report
    pairs: ClassVar[bool] = False  # True if it can be scored where the task judges pairs as wholes (`Task.pairs`)
    same_pairs: ClassVar[bool] = False  # True if its pairs are the same for every run, so that heuristics score them
    set_aside: ClassVar[str] = ""  # the graph beside clients' own that it needs: held_out or pooled

    def refuse(self, scene: Scene) -> str | None:
        """Return why it cannot be scored here, with a remedy, as what follows its name; None if it can."""
        return None

    @abstractmethod
    def scorer(self, scene: Scene, metrics: Mapping[str, Metric]) -> Scorer:
        """Return a function that scores it."""


class ClientSplit(Split):
    """Rows of each client's own graphs, which are all scored in one computation.

    By default these are the rows that `part` of the data marks: train, val or test.
    """

    part: ClassVar[str] = "test"
    all_periods: ClassVar[bool] = False  # True: in all periods of the stream, arrived or not
    per_client: ClassVar[bool] = True

    def targets(self, task: Task, graph: Graph) -> Tensor:
        """Return the indices of the rows that are scored: nodes, or pairs where the task asks about pairs."""
        return task.targets(graph, self.part)

    def graphs(self, period: Period) -> tuple[Graph, ...]:
        """Return the graphs on which a period is scored: the later ones of a stream that tests ahead, or its own."""
        return period.ahead or (period.graph,)

    def scorer(self, scene: Scene, metrics: Mapping[str, Metric]) -> Scorer:
        """Return a function without rows: these are scored together (scoring.py)."""
        return lambda prediction: ()


def link_scores(values: Tensor, links: Tensor, metrics: Mapping[str, Metric]) -> tuple[dict[str, float], int]:
    """Return the metrics of links for pairs with these values (P,) as one test, and how many pairs there are.

    `links` (P,) tells which are edges; metrics of anything else are left out.
    """
    judged = Judged(values, links, torch.zeros_like(links, dtype=torch.long), 1)
    able = {name: metric for name, metric in metrics.items() if "links" in metric.of}
    return {name: float(metric.values(judged)) for name, metric in able.items()}, len(links)


def check(scene: Scene, metrics: Mapping[str, Metric]) -> None:
    """Raise ScenarioError, with the remedy, unless these metrics and splits can be scored."""
    for name, metric in metrics.items():
        if not {*metric.of} & {*scene.task.judges}:
            scores = f"{name!r} scores {' and '.join(metric.of)}"
            raise ScenarioError.at("measure.metrics", f"{scores}, which {type(scene.task).__name__} does not predict")
    first_metric = next(iter(metrics))
    if metrics[first_metric].lower_is_better:
        better = ", ".join(name for name in metrics if not metrics[name].lower_is_better) or "r2"
        rule = "summaries, targets and comparisons take the first metric for a score that is better when higher"
        raise ScenarioError.at("measure.metrics", f"{first_metric!r} is an error, and {rule}: put {better} before it")
    for name, split in scene.splits.items():
        if why := split.refuse(scene):
            raise ScenarioError.at("measure.splits", f"{name!r} {why}")
    name, first = next(iter(scene.splits.items()))
    if not first.per_client:
        raise ScenarioError.at("measure.splits", f"{name!r} {FIRST}")
    if not scene.has_client_split:
        raise ScenarioError.at("measure.splits", f"{name!r} cannot be the only split; add 'test' or 'val'")
    if scene.heuristics and not any(split.same_pairs for split in scene.splits.values()):
        what = f"{scene.heuristics[0]!r} scores pairs that are the same for every run"
        raise ScenarioError.at("measure.heuristics", f"{what}; add 'all_pairs' to measure.splits, or leave it out")
