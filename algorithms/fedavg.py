"""Federated averaging (McMahan et al., AISTATS 2017), also with a robust average of the differences.

With `aggregation: median` or `trimmed_mean` the server takes the coordinate-wise median or β-trimmed mean of the
cohort's differences, whose weights are then ignored (Yin et al., ICML 2018; fedsim/learn/robust.py).  It protects the
average alone, not what a subclass aggregates beside it (prototypes, structures).  Under `hierarchical` the edges
aggregate robustly, and the cloud averages the edges, which are never forged.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from torch import Tensor

from fedsim.core.units import Fraction
from fedsim.core.wire import Tree
from fedsim.data.graph import Graph
from fedsim.learn import robust, tree, turning
from fedsim.learn.algorithm import Algorithm, Fit, Job, Reply, State, Work, declared
from fedsim.learn.model import Parameters
from fedsim.learn.replies import uploads_of, weights_of

TRIM = 0.1


@dataclass(frozen=True)
class FedAvg(Algorithm):
    """w ← w + Σ nₖ (wₖ − w) / Σ nₖ, where client k holds nₖ labelled vertices of the current period (or links).

    A client without an example to train on returns the model unchanged.
    """

    weight_by: Literal["period", "train"] = "period"  # weights: all that is labelled in the period, or trained on
    aggregation: Literal["mean", "median", "trimmed_mean"] = "mean"  # of the clients' updates
    trim: Fraction | None = None  # share cut off at each end by trimmed_mean; if not given, 10 %
    aggregates: ClassVar[bool] = True  # whether `update` follows `aggregation` (see `declared`)
    evolves: ClassVar[bool] = True
    pairs: ClassVar[bool] = True

    def __post_init__(self) -> None:
        """Raise ValueError for an aggregation that the algorithm would ignore, and for a meaningless trim."""
        if self.ranks_replies and not declared(self, "aggregates"):
            message = f"{type(self).__name__} does not average differences as fedavg does; leave it out"
            raise ValueError(f"aggregation: {message}")
        if self.trim is not None and self.aggregation != "trimmed_mean":
            raise ValueError("trim: has no meaning where aggregation is not 'trimmed_mean'; leave it out")
        if self.trim is not None and self.trim >= 0.5:
            raise ValueError("trim: must be below 0.5, or nothing would be left (0.1 leaves out a tenth at either end)")

    @property
    def ranks_replies(self) -> bool:
        """Whether the server compares the replies of a cohort."""
        return self.aggregation != "mean"

    def start(self) -> State:
        """Return the model with its first parameters."""
        return {"model": self.task.init(), **self.turned()}

    def download(self, state: State, client: int, step: str) -> Tree:
        """Send the model."""
        return {"model": state["model"], **turning.entry(state)}

    def work(self, job: Job) -> Work:
        """Train the model on what the client holds; send the difference and nₖ."""
        entered = turning.entered(self.task.model, job)
        trained = yield from self.fit(entered, {"received": entered.download["model"]})
        update = tree.sub(trained, job.download["model"])
        return {"update": update, "samples": self.samples(job.data), **turning.mark(job)}

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

    def loss(self, params: Parameters, data: Graph, given: Tree) -> Tensor:
        """Return the task's loss."""
        return self.task.loss(params, data)

    def upload_like(self, job: Job) -> Tree:
        """Return a tree as large as the upload."""
        return {"update": job.download["model"], "samples": 0, **turning.mark(job)}

    def turned(self) -> dict[str, int]:
        """Return the first state's period where the model's weights evolve and `work` sees to it."""
        return turning.first(self.task.model) if declared(self, "evolves") else {}

    @property
    def averages(self) -> bool:
        """Whether it sends anything: all that it sends is averaged."""
        return self.talks

    def mass(self, reply: Reply) -> float:
        """Return the client's weight in the average."""
        return reply.upload["samples"]

    def update(self, state: State, replies: Sequence[Reply], step: str) -> State:
        """Add the average of the differences, each times the protocol's discount (FedBuff, line 11)."""
        model = tree.add(state["model"], self.average_of(replies, weights_of(replies)))
        return {**state, "model": model, **turning.noted(state, replies)}

    def average_of(self, replies: Sequence[Reply], factors: Sequence[float]) -> Tree:
        """Return the weighted mean of the differences, each times its factor, or their median or trimmed mean."""
        uploads = uploads_of(replies)
        updates = [upload["update"] for upload in uploads]
        if self.aggregation == "median":
            return robust.median(updates, factors)
        if self.aggregation == "trimmed_mean":
            return robust.trimmed_mean(updates, factors, TRIM if self.trim is None else self.trim)
        return tree.mean(updates, [upload["samples"] for upload in uploads], factors)

    def server_flops(self, state: State, replies: Sequence[Reply], step: str) -> float:
        """Return a multiply-add per received number, times log₂ K comparisons if they are sorted."""
        ordered = self.ranks_replies and step not in self.prepares
        return super().server_flops(state, replies, step) * (max(1.0, math.log2(len(replies))) if ordered else 1)
