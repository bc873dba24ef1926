"""SCAFFOLD: local steps corrected by control variates (Karimireddy et al., ICML 2020, Algorithm 1).

    client:  y ← x;  K times  y ← y − η (∇Fₖ(y) − cₖ + c)
             cₖ⁺ = ∇Fₖ(x)                        option I,  `variate: gradient`
             cₖ⁺ = cₖ − c + (x − y) / (K η)      option II, `variate: difference`
    server:  x ← x + η_g · mean of (y − x) over the cohort
             c ← c + 1/N · sum of (cₖ⁺ − cₖ) over the cohort, where N counts all clients

All variates begin at zero.  The means are uniform, as printed: what is minimised is the mean of the Fₖ, however many
labelled nodes a client holds.  A message holds two models in either direction, and a counter of 8 bytes.

The counters are ours, and keep c = 1/N Σ cₖ where uploads are lost, late or stale
(fedsim/learn/personalised/control_variates.py).  `counters: false` is the algorithm as printed.

A gradient is one more training step's work, with dropout switched off.  Option II needs (x − y) / η to be a sum of
gradients, which it is under SGD at a constant rate, unclipped.  With momentum, which then begins at zero in every job,
K is replaced by the length of FedNova (Wang et al., NeurIPS 2020).  Corrected gradients under Adam are ours too.

The first job of a new period is not corrected, since its client's variate is of data that it no longer trains on;
`keep` corrects it all the same.  Under `isolated` the correction is zero.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from fedsim.core.errors import Problem, ScenarioError
from fedsim.core.span import Span
from fedsim.core.units import Positive
from fedsim.learn.algorithm import Disclosed, Fit, Job, Reply, State, Tree, Work
from fedsim.learn.averaging import length
from fedsim.learn.engine import tree
from fedsim.learn.engine.optimiser import slopes
from fedsim.learn.personalised.control_variates import ControlVariates


@dataclass(frozen=True)
class Scaffold(ControlVariates):
    """A client without an example to train on returns the model as it came, and keeps its variate."""

    title = "SCAFFOLD"
    any_model = any_targets = True
    discloses = Disclosed(("updates",))
    variate: Literal["gradient", "difference"] | None = None  # how cₖ is made; null: difference where SGD allows it
    server_lr: Positive = 1.0  # η_g, the server's learning rate
    tunes = {"server_lr": Span(0.1, 2.0, log=True)}

    def start(self) -> State:
        """Return the model with its first parameters, a variate of zero, and nothing folded.

        Raises ScenarioError where the clients' training does not allow the difference.
        """
        if self.variate == "difference" and (problem := self.unfit()):
            raise ScenarioError([problem])
        return super().start()

    def unfit(self) -> Problem | None:
        """Return why (x − y) / η is no sum of gradients here, or None."""
        training, end = self._given, "is no sum of gradients; write algorithm.variate: gradient, or"
        if training.optimiser != "sgd":
            return Problem("training.optimiser", f"{training.optimiser}: its step {end} optimiser: sgd")
        if training.schedule != "constant":
            return Problem("training.schedule", f"{training.schedule}: a job's step {end} schedule: constant")
        if training.clip is not None:
            return Problem("training.clip", f"a clipped job's step {end} leave training.clip out")
        return None

    @property
    def by_gradient(self) -> bool:
        """Whether variates are gradients at the server's model."""
        return self.variate == "gradient" or (self.variate is None and self.unfit() is not None)

    def download(self, state: State, client: int, step: str) -> Tree:
        """Send the model, c, and the counter of this client's variate that c holds."""
        return {"model": state["model"], "control": state["control"], **self.folded(state, client)}

    def work(self, job: Job) -> Work:
        """Train with corrected gradients; send the difference of the model and that of the variate."""
        x, variate = job.download["model"], self.client_variate(job)
        correction = tree.zeros_like(x) if self.is_past(job) else tree.sub(job.download["control"], variate)
        y, new = x, variate
        if self.task.examples(job.data, "train"):
            given, slot = {"correction": correction}, "model" if self.by_gradient else None
            new = self.gradient(job) if self.by_gradient else None  # before training moves the buffers of a module
            y = yield Fit(start=x, loss=self.loss, given=given, correct=self.corrected, slot=slot)
            new = self.difference(tree.sub(x, y), correction) if new is None else new
        job.memory["local"] = y
        return {"update": tree.sub(y, x), "control": tree.sub(new, variate), **self.remember(job, new)}

    def corrected(self, grads: Tree, given: Tree) -> Tree:
        """Return ∇Fₖ(y) − cₖ + c of each client."""
        return tree.add(grads, given["correction"])

    def gradient(self, job: Job) -> Tree:
        """Return ∇Fₖ(x), by option I."""
        return slopes(job.download["model"], lambda params: self.loss(params, job.data, None).sum())

    def difference(self, way: Tree, correction: Tree) -> Tree:
        """Return the mean gradient along the client's way x − y, by option II."""
        distance = self.learning_rate * length(self.local_steps, self.momentum)
        return tree.sub(tree.scale(way, 1 / distance), correction)

    def upload_like(self, job: Job) -> Tree:
        """Return a tree as large as the upload."""
        numbered = {"counter": 0} if self.counters else {}
        return {"update": job.download["model"], "control": job.download["model"], **numbered}

    def extra_steps(self, job: Job) -> float:
        """Count the gradient of option I."""
        return 1.0 if self.by_gradient else 0.0

    def update(self, state: State, replies: Sequence[Reply], step: str) -> State:
        """Add the mean step, each first times the protocol's discount, and every variate that belongs to c."""
        steps, rates = [reply.upload["update"] for reply in replies], [self.server_lr * r.weight for r in replies]
        model = tree.add(state["model"], tree.mean(steps, [1.0] * len(steps), rates))
        folded, fits = self.folding(state, replies)
        control = self.shifted(state["control"], [reply.upload["control"] for reply in fits])
        return {**state, "model": model, "control": control, "folded": folded}
