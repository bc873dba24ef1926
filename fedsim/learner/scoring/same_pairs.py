"""Scores on pairs that are the same for everybody (data/graphs/common_pairs.py), by the embeddings of all clients.

The server scores the edges of the snapshot that tests a period with each node's embedding under its owner's
model in that period.  A node whose owner has not met the period has zeros, and so do all its pairs: pairs are
never dropped.  Heuristics score the same pairs.  Not modelled: messages that would bring the embeddings
together.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import torch
from torch import Tensor

from fedsim.core.seeds import generator
from fedsim.data.graph import Graph
from fedsim.data.graphs import common_pairs
from fedsim.data.graphs.common_pairs import SCORERS, Negatives, PairKind
from fedsim.data.time.temporal import Overview
from fedsim.learn.metric import Metric
from fedsim.learn.task import Task
from fedsim.learner.scoring.split import Block, Prediction, Scene, Scorer, Split, link_scores
from fedsim.scenario.measure import Heuristic

PairScores = tuple[dict[str, float], int]  # values by metric, and how many pairs there are


class SamePairs(Split):
    """The pairs of each period, drawn from the task's seed."""

    which: ClassVar[PairKind]
    same_pairs = True

    def refuse(self, scene: Scene) -> str | None:
        """Return why not: it needs links of a later snapshot."""
        if any("pairs" in period.graph for own in scene.periods for period in own):
            return None
        needs = "task: link_prediction under the stream 'snapshots' with scored: links"
        return f"scores links of a later snapshot: it needs {needs}"

    def scorer(self, scene: Scene, metrics: Mapping[str, Metric]) -> Scorer:
        """Return what scores these pairs, and the heuristics on them."""
        assert scene.algorithm.overview is not None
        assert scene.negatives is not None
        pairs = scene.algorithm.overview, scene.task, scene.negatives, scene.later
        return PairScorer(self.which, *pairs, metrics, scene.heuristics).blocks


@dataclass
class PairScorer:
    """Scores one kind of pairs; `later` snapshots on is the one that tests a period."""

    which: PairKind
    overview: Overview
    task: Task
    negatives: Negatives
    later: int
    metrics: Mapping[str, Metric] = field(default_factory=dict)
    heuristics: Sequence[Heuristic] = ()
    _drawn: dict[int, tuple[Tensor, Tensor]] = field(default_factory=dict, init=False, repr=False)

    def blocks(self, prediction: Prediction) -> Iterator[Block]:
        """Yield rows of the server, those of heuristics beside the first model's."""
        period = prediction.period
        yield from prediction.of_server(*self.scores(prediction.output, prediction.graph, period))
        for heuristic in self.heuristics if prediction.leads else ():
            yield from prediction.of_server(*self.guessed(heuristic, period), model=heuristic)

    def pairs(self, period: int) -> tuple[Tensor, Tensor]:
        """Return the pairs (2, P), by numbers in the whole graph, and whether they are edges (P,)."""
        if period not in self._drawn:
            known = self.overview
            owner = (known.owners if known.compared is None else known.compared)[period]
            later, present = known.snapshots[period + self.later], known.snapshots[period]["arrived"]
            rng = generator(self.task.seed, "data.common_pairs", self.which, period)
            self._drawn = {period: common_pairs.asked(later, present, owner, self.negatives, self.which, rng)}
        return self._drawn[period]

    def scores(self, output: Tensor, graph: Graph, period: int) -> PairScores:
        """Return the metrics of embeddings, the rows `output` (n, H) of a union's nodes."""
        pairs, links = self.pairs(period)
        if not len(links):
            return {}, 0
        present = self.overview.snapshots[period]["arrived"].nonzero().squeeze(1)
        number = torch.full((len(self.overview.owners[period]),), -1)
        number[present] = torch.arange(len(present))
        now = (graph["period"] == period).nonzero().squeeze(1)
        h = output.new_zeros(len(present), output.shape[1])
        h[number[graph["node"][now].cpu()].to(h.device)] = output[now]
        asked = Graph(
            pairs=number[pairs].to(h.device), links=links.to(h.device), y=number.new_zeros(len(h)).to(h.device)
        )  # type: ignore[typeddict-item]
        rows = torch.arange(len(links), device=h.device)
        values = self.task.scores(h, asked, rows, torch.zeros_like(rows), 1, self.metrics)
        return {name: float(values[name][0]) for name in self.metrics}, len(links)

    def guessed(self, heuristic: Heuristic, period: int) -> PairScores:
        """Return the metrics of a heuristic, of those that are about these pairs alone."""
        pairs, links = self.pairs(period)
        if not len(links):
            return {}, 0
        values = SCORERS[heuristic](self.overview.snapshots[period]["edges"], self.overview.owners[period], pairs)
        return link_scores(values, links, self.metrics)
