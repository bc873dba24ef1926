"""Scores on pairs that are the same for everybody (`fedsim.data.common_pairs`), by the embeddings of all clients.

The server scores the edges of the snapshot that tests a period with each vertex's embedding under its owner's model in
that period.  A vertex whose owner has not met the period has zeros, and so do all its pairs: pairs are never dropped.
Heuristics score the same pairs.  Not modelled: messages that would bring the embeddings together.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor

from fedsim.core.seeds import generator
from fedsim.data import common_pairs
from fedsim.data.common_pairs import Negatives
from fedsim.data.graph import Graph
from fedsim.data.heuristics import SCORERS, Heuristic
from fedsim.data.temporal import Overview
from fedsim.learn.metric import Judged, Metric
from fedsim.learn.task import Task

Pairs = tuple[Tensor, Tensor]
Scored = tuple[dict[str, float], int]  # values by metric, and how many pairs there are


@dataclass
class SamePairs:
    """The pairs of each period, drawn from the task's seed; `later` snapshots on is the one that tests a period."""

    overview: Overview
    task: Task
    negatives: Negatives
    later: int
    _made: dict[int, dict[str, Pairs]] = field(default_factory=dict, init=False, repr=False)

    def of(self, period: int) -> dict[str, Pairs]:
        """Return every split's pairs (2, P), by numbers in the whole graph, and whether they are edges (P,)."""
        if period not in self._made:
            known = self.overview
            owner = (known.owners if known.compared is None else known.compared)[period]
            self._made = {
                period: common_pairs.asked(
                    known.snapshots[period + self.later], known.snapshots[period]["arrived"], owner, self.negatives,
                    lambda split: generator(self.task.seed, "data.common_pairs", split, period),
                )
            }  # fmt: skip
        return self._made[period]

    def scores(self, output: Tensor, graph: Graph, period: int, split: str, metrics: Mapping[str, Metric]) -> Scored:
        """Return the metrics of embeddings, the rows `output` (n, H) of a union's vertices."""
        pairs, links = self.of(period)[split]
        if not len(links):
            return {}, 0
        present = self.overview.snapshots[period]["arrived"].nonzero().squeeze(1)
        number = torch.full((len(self.overview.owners[period]),), -1)
        number[present] = torch.arange(len(present))
        now = (graph["period"] == period).nonzero().squeeze(1)
        h = output.new_zeros(len(present), output.shape[1])
        h[number[graph["vertex"][now].cpu()].to(h.device)] = output[now]
        asked = Graph(
            pairs=number[pairs].to(h.device), links=links.to(h.device), y=number.new_zeros(len(h)).to(h.device)
        )  # type: ignore[typeddict-item]
        rows = torch.arange(len(links), device=h.device)
        found = self.task.scores(h, asked, rows, torch.zeros_like(rows), 1, metrics)
        return {name: float(found[name][0]) for name in metrics}, len(links)

    def guessed(self, heuristic: Heuristic, period: int, split: str, metrics: Mapping[str, Metric]) -> Scored:
        """Return the metrics of a heuristic, of those that are about these pairs alone."""
        pairs, links = self.of(period)[split]
        if not len(links):
            return {}, 0
        values = SCORERS[heuristic](self.overview.snapshots[period]["edges"], self.overview.owners[period], pairs)
        whose = torch.zeros_like(links, dtype=torch.long)
        judged = Judged(values, links, whose, 1)
        return {name: float(one.values(judged)[0]) for name, one in metrics.items() if "links" in one.of}, len(links)
