"""Local training: every client keeps its own model, and nothing is sent.

A baseline that shows what communication contributes.  All clients begin with the same parameters, which each
generates from the shared seed; an ask only starts the client's work and moves no byte.
"""

from dataclasses import dataclass
from typing import ClassVar

from algorithms.fedavg import FedAvg
from fedsim.algorithm import Fit


@dataclass(frozen=True)
class Local(FedAvg):
    """wₖ ← train(wₖ), for each client k by itself."""

    title: ClassVar[str] = "Local training"
    talks: ClassVar[bool] = False

    def download(self, state, client, step):
        """Send nothing."""

    def work(self, job):
        """Train on from the client's own model."""
        model = job.memory.get("local")
        model = self.task.init() if model is None else model
        if bool(job.data["train"].any()):
            model = yield Fit(start=model, loss=self.loss)
        job.memory["local"] = model

    def upload_like(self, job):
        """Return nothing, which is what is sent."""

    def update(self, state, replies, step):
        """Note that a round has passed; the server holds the first parameters only."""
        return state

    def predictor(self, state, client, memory):
        """Return the client's own model."""
        own = memory.get("local")
        return state["model"] if own is None else own

    def common(self, state):
        """There is no model for all."""

    def server_flops(self, state, replies, step):
        """The server does nothing."""
        return 0.0
