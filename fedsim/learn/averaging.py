"""What FedAvg and all that descends from it share: local training, weights of clients, and the aggregation.

The scenario's `aggregation` decides how the differences of a cohort become one.  A subclass whose `update`
calls `aggregate` says so (`aggregates`); with any other an aggregation but the mean is refused.  Under
`hierarchical` the edges aggregate so, and the cloud averages the edges, which are never forged.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from fedsim.core.wire import Tree
from fedsim.data.graph import Graph
from fedsim.learn.algorithm import Algorithm, Fit, Job, Reply, State, Work
from fedsim.learn.engine import tree
from fedsim.learn.replies import uploads_of, weights_of


@dataclass(frozen=True)
class Averaging(Algorithm):
    """Uploads hold the difference of a model as "update", and the client's weight in the average as "samples"."""

    weight_by: Literal["period", "train"] = "period"  # weights: all that is labelled in the period, or trained on

    def fit(self, job: Job, given: Tree, **how: Any) -> Work:
        """Train the downloaded model and keep the result as the client's own; `how` is for the `Fit`."""
        model = job.download["model"]
        if self.task.examples(job.data, "train"):
            model = yield Fit(start=model, loss=self.loss, given=given, **how)
        job.memory["local"] = model
        return model

    def samples(self, data: Graph) -> int:
        """Return the client's weight in the average."""
        return self.task.examples(data, *(("train",) if self.weight_by == "train" else ("train", "val", "test")))

    def mass(self, reply: Reply) -> float:
        """Return the client's weight in the average."""
        return float(reply.upload["samples"])

    def aggregate(self, replies: Sequence[Reply], factors: Sequence[float] | None = None) -> Tree:
        """Return the differences as one, each times its factor, by default the protocol's discount for staleness."""
        uploads, factors = uploads_of(replies), weights_of(replies) if factors is None else factors
        updates, weights = [upload["update"] for upload in uploads], [upload["samples"] for upload in uploads]
        chosen = self.context and self.context.aggregation
        return chosen.combine(updates, weights, factors) if chosen else tree.mean(updates, weights, factors)

    def server_flops(self, state: State, replies: Sequence[Reply], step: str) -> float:
        """Return a multiply-add per received number, times log₂ K comparisons where they are not just averaged."""
        ordered = self.context is not None and self.context.aggregation is not None and step not in self.prepares
        return super().server_flops(state, replies, step) * (max(1.0, math.log2(len(replies))) if ordered else 1)


def plain_mean(replies: Sequence[Reply]) -> Tree:
    """Return the mean of the differences, all with one weight, each first times the protocol's discount."""
    updates = [upload["update"] for upload in uploads_of(replies)]
    return tree.mean(updates, [1.0] * len(updates), weights_of(replies))


def length(steps: int, m: float) -> float:
    """Return a = ‖normalising vector‖₁: how many times η a constant gradient leads in steps with momentum m."""
    return math.fsum((1 - m**s) / (1 - m) for s in range(1, steps + 1))
