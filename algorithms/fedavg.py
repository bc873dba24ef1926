"""Federated averaging (McMahan et al., AISTATS 2017)."""

from dataclasses import dataclass
from typing import Literal

from fedsim.algorithm import Algorithm, Fit
from fedsim.learn import tree


@dataclass(frozen=True)
class FedAvg(Algorithm):
    """w ← w + Σ nₖ (wₖ − w) / Σ nₖ, where client k holds nₖ examples of the current period (vertices, or links).

    A client without an example to train on returns the model as it came (power.md 1.3).
    """

    weight_by: Literal["period", "train"] = "period"  # count all examples of the period, or those trained on

    def start(self):
        """Return the model with its first parameters."""
        return {"model": self.task.init()}

    def download(self, state, client, step):
        """Send the model."""
        return {"model": state["model"]}

    def work(self, job):
        """Train the model on what the client holds; send the difference and the number of examples."""
        trained = yield from self.fit(job, {"received": job.download["model"]})
        return {"update": tree.sub(trained, job.download["model"]), "samples": self.samples(job.data)}

    def fit(self, job, given, **how):
        """Train the downloaded model and keep the result as the client's own; `how` is for the `Fit`."""
        model = job.download["model"]
        if self.task.examples(job.data, "train"):
            model = yield Fit(start=model, loss=self.loss, given=given, **how)
        job.memory["local"] = model
        return model

    def samples(self, data):
        """Return the client's weight in the average."""
        return self.task.examples(data, *(("train",) if self.weight_by == "train" else ("train", "val", "test")))

    def loss(self, params, data, given):
        """Return the task's loss."""
        return self.task.loss(params, data)

    def upload_like(self, job):
        """Return a tree as large as the upload."""
        return {"update": job.download["model"], "samples": 0}

    def averages(self):
        """Return whether uploads, and what is made of them, are as here: not where a descendant has its own."""
        own = type(self)
        same = own.update is FedAvg.update and own.upload_like is FedAvg.upload_like
        return same and own.steps is Algorithm.steps and own.talks

    def mass(self, reply):
        """Return the client's weight in the average."""
        return reply.upload["samples"]

    def update(self, state, replies, step):
        """Add the weighted mean of the differences, each first times the protocol's discount (FedBuff, line 11)."""
        updates = [reply.upload["update"] for reply in replies]
        masses = [reply.upload["samples"] for reply in replies]
        mean = tree.mean(updates, masses, [reply.weight for reply in replies])
        return {**state, "model": tree.add(state["model"], mean)}
