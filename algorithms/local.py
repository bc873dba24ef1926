"""Local training: every client keeps its own model, and nothing is sent.

A baseline that shows what communication contributes.  All clients begin with the same parameters, which each
generates from the shared seed; an ask only starts the client's work and moves no byte.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from algorithms.fedavg import FedAvg
from fedsim.learn import evolution
from fedsim.learn.algorithm import Disclosed, Fit, Job, Memory, Reply, State, Tree, Work


@dataclass(frozen=True)
class Local(FedAvg):
    """wₖ ← train(wₖ), for each client k on its own."""

    title = "Local training"
    talks = False
    any_model = any_targets = True
    discloses = Disclosed()

    def download(self, state: State, client: int, step: str) -> None:
        """Send nothing."""

    def work(self, job: Job) -> Work:
        """Train on from the client's own model."""
        model = job.memory["local"] if "local" in job.memory else self.task.init()
        if self.task.model.turns():
            model = evolution.kept(self.task.model, job, model)
        if bool(job.data["train"].any()):
            model = yield Fit(start=model, loss=self.loss)
        job.memory["local"] = model

    def upload_like(self, job: Job) -> None:
        """Return None, as nothing is sent."""

    def update(self, state: State, replies: Sequence[Reply], step: str) -> State:
        """Return the state as it is; the server holds the first parameters only."""
        return state

    def predictor(self, state: State, client: int, memory: Memory) -> Tree:
        """Return the client's own model."""
        return memory.get("local", state["model"])

    def common(self, state: State) -> None:
        """Return None: there is no common model."""
