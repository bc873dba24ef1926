"""FedNova: averaging of updates normalised by each client's number of local steps (Wang et al., NeurIPS 2020).

    dₖ = (w − wₖ) / aₖ,   τ = Σ pₖ aₖ,   w ← w − τ Σ pₖ dₖ,   pₖ = nₖ / Σ nₖ
    aₖ = Σ_{s=1…τₖ} (1 − mˢ) / (1 − m)   after τₖ steps with momentum m: τₖ itself without momentum

(Eq. 4 and Section 4.1).  With unequal τₖ, FedAvg minimises a sum in which clients with many steps weigh more than pₖ;
FedNova does not.  An upload holds 8 bytes more than FedAvg's, for aₖ.

If all aₖ are equal, this is FedAvg bit for bit.  Training here is full-batch, so equal epochs are equal steps and
FedNova has nothing to correct.  The comparison of one-shot methods in GHOST (ICML 2025) has the two far apart
(CiteSeer: 18.58 and 32.88 %), though all of its clients train for 100 epochs.  That gap must come from something else
that was changed along with it, such as the optimiser, mini-batches or the learning rate; it is not reproduced here.

`least` makes clients unequal, as in the paper's experiments: each job takes a number of steps drawn uniformly between
it and the scenario's.  aₖ is that of SGD at a constant rate, with a momentum buffer that starts at zero: for Adam,
which the paper does not cover, it is τₖ; a schedule, or an optimiser state kept between jobs (`keep_state`), does not
change it.  The server's own momentum is not modelled.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from algorithms.fedavg import FedAvg
from fedsim.core.errors import ScenarioError
from fedsim.core.seeds import integer
from fedsim.core.units import Count
from fedsim.learn.algorithm import Algorithm, Disclosed, Job, Reply, State, Tree, Work
from fedsim.learn.averaging import length
from fedsim.learn.engine import tree


@dataclass(frozen=True)
class FedNova(FedAvg):
    """FedAvg where all clients take equally many steps."""

    aggregates = any_model = any_targets = True
    discloses = Disclosed(("updates",))
    upload_like = Algorithm.untrained_upload

    least: Count | None = None  # fewest local steps of a job, drawn up to the scenario's; null: always the scenario's

    def start(self) -> State:
        """Return the model with its first parameters.  Raises ScenarioError where `least` is above the local steps."""
        if self.least is not None and self.least > self.local_steps:
            message = f"{self.least} is above training.local_steps, {self.local_steps}; lower it, or raise the latter"
            raise ScenarioError.at("algorithm.least", message)
        return super().start()

    def work(self, job: Job) -> Work:
        """Train as FedAvg does; send also the length of the training."""
        sent = yield from super().work(job)
        return {**sent, "length": length(self.taken(job), self.momentum)}

    def fit(self, job: Job, given: Tree, **how: Any) -> Work:
        """Train for the job's steps."""
        return super().fit(job, given, steps=(0, self.taken(job)), **how)

    def taken(self, job: Job) -> int:
        """Return τ, how many steps this job takes."""
        if self.least is None:
            return self.local_steps
        return self.least + integer(job.seed, "fed_nova") % (self.local_steps - self.least + 1)

    def effort(self, job: Job) -> float:
        """Return the share of the scenario's steps that the job takes."""
        return self.taken(job) / self.local_steps

    def update(self, state: State, replies: Sequence[Reply], step: str) -> State:
        """Add the average of the differences, each first times τ / aₖ and the protocol's discount."""
        masses = [float(reply.upload["samples"]) for reply in replies]
        lengths = [float(reply.upload["length"]) for reply in replies]
        factors = [reply.weight * effective(masses, lengths, own) for reply, own in zip(replies, lengths, strict=True)]
        return {**state, "model": tree.add(state["model"], self.aggregate(replies, factors))}


def effective(masses: Sequence[float], lengths: Sequence[float], own: float) -> float:
    """Return τ / a of one client, from quotients, so that equal lengths give exactly 1.  All masses may be zero."""
    weights = masses if any(masses) else [1.0] * len(masses)
    return math.fsum(mass * (length / own) for mass, length in zip(weights, lengths, strict=True)) / math.fsum(weights)
