"""Fed-ERGNN: FedAvg with experience replay on each client (Zhou and Cao, AAAI 2021; power_baselines.md 6).

    L = β L_new + (1 − β) L_replay

Selection runs when a period has ended, on the client's own model after its last training in it, and keeps `keep`
vertices of each class: features and label only, replayed without edges.  Messages are FedAvg's.
"""

from dataclasses import dataclass
from typing import Literal

import torch

from algorithms.fedavg import FedAvg
from fedsim.learn import replay, tree
from fedsim.units import Count, Fraction


@dataclass(frozen=True)
class FedERGNN(FedAvg):
    """ER-GNN's rules: coverage of the same class (POWER's reading) or of others (the original), or mean feature."""

    beta: Fraction = 0.1  # share of the new period's loss
    keep: Count = 1  # vertices kept for each class and period
    rule: Literal["same_class", "other_class", "mean_feature"] = "same_class"
    epsilon: float = 0.1  # reach of same_class, in mean distances of the class
    distance: float = 0.5  # reach of other_class, in units of the raw features

    def work(self, job):
        """Close the period that has ended, then train with replay."""
        buffer = replay.closed(job, lambda last: self.select(last["data"], last["model"]))
        trained = yield from self.fit(job, {"buffer": buffer})
        job.memory["last"] = {"period": job.period, "data": job.data, "model": trained}
        return {"update": tree.sub(trained, job.download["model"]), "samples": self.samples(job.data)}

    def loss(self, params, data, given):
        """Return β L_new + (1 − β) L_replay, or L_new alone where nothing is kept yet."""
        return replay.mixed(self.task, params, data, given["buffer"], self.beta)

    @torch.no_grad()
    def select(self, data, model):
        """Return the best vertices of each class of a period, as a buffer."""
        z = self.task.embed(tree.stack([model]), data)
        return replay.of_each_class(data, lambda rows: self.choose(data, z, rows))

    def choose(self, data, z, rows):
        """Return places in `rows`, the training vertices of one class."""
        if self.rule == "same_class":
            return replay.greedy_cover(replay.coverage(z[rows], self.epsilon, scale="class"), self.keep)
        if self.rule == "mean_feature":
            far = (z[rows] - z[rows].mean(0)).norm(dim=1)
            return torch.argsort(far, stable=True)[: self.keep]
        others = (data["train"] & (data["y"] != data["y"][rows[0]])).nonzero().squeeze(1)
        near = torch.cdist(replay.dense(data, rows), replay.dense(data, others)) < self.distance
        return torch.argsort(near.sum(1), stable=True)[: self.keep]
