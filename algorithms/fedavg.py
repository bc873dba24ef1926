"""Federated averaging (McMahan et al., AISTATS 2017)."""

from collections.abc import Sequence
from dataclasses import dataclass

from fedsim.learn.algorithm import Disclosed, Job, Reply, State, Tree, Work
from fedsim.learn.averaging import Averaging
from fedsim.learn.engine import tree


@dataclass(frozen=True)
class FedAvg(Averaging):
    """w ← w + Σ nₖ (wₖ − w) / Σ nₖ, where client k holds nₖ labelled nodes of the current period (or links).

    A client without an example to train on returns the model unchanged.
    """

    averages = aggregates = evolves = any_model = any_targets = True  # declare again where a method is overridden
    discloses = Disclosed(("updates",))

    def start(self) -> State:
        """Return the model with its first parameters."""
        return {"model": self.task.init()}

    def download(self, state: State, client: int, step: str) -> Tree:
        """Send the model."""
        return {"model": state["model"]}

    def work(self, job: Job) -> Work:
        """Train the model on what the client holds; send the difference and nₖ."""
        model = job.download["model"]
        trained = yield from self.fit(job, {"received": model})
        return {"update": tree.sub(trained, model), "samples": self.samples(job.data)}

    def upload_like(self, job: Job) -> Tree:
        """Return a tree as large as the upload."""
        return {"update": job.download["model"], "samples": 0}

    def update(self, state: State, replies: Sequence[Reply], step: str) -> State:
        """Add the average of the differences, each times the protocol's discount (FedBuff, line 11)."""
        return {**state, "model": tree.add(state["model"], self.aggregate(replies))}
