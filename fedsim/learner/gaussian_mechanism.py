"""Client-level differential privacy by the Gaussian mechanism, at the server (McMahan et al., ICLR 2018).

Each upload's difference is clipped to a norm, over all its parameters together, and weighted only by the protocol's
discount for staleness; the sum plus noise is divided by the expected number of replies per update.  Both follow
DP-FedAvg: clients count equally, as weights by what they hold would reveal their numbers, and the divisor is fixed, so
that a missing reply makes the update smaller rather than its noise larger.  The algorithm sees a single reply, the
noisy mean; whatever it computes from that costs no further privacy.

The noise is drawn from the run's seed, so that runs are repeatable: it simulates protection and protects nobody.
Not modelled: noise added by clients, adaptive clipping, and the finite precision of floating-point noise.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fedsim.core.errors import ScenarioError
from fedsim.core.record import SERVER
from fedsim.learn.algorithm import Reply
from fedsim.learn.engine import tree
from fedsim.learner.accountant import Accountant


class GaussianMechanism:
    """Replaces the replies of an update by their noisy mean.

    `count` is the expected number of replies per update, `noise` the standard deviation over `clip`.  With `by_chance`
    the accountant uses the sampling rate of each round, as reported to `drawn`.
    """

    def __init__(
        self, clip: float, noise: float, delta: float, count: int, by_chance: bool, rng: np.random.Generator
    ) -> None:
        """Start without any release."""
        self._clip, self._noise, self._count, self._rng = clip, noise, count, rng
        self._by_chance, self._rate = by_chance, 1.0
        self._accountant = Accountant(noise, delta)

    def drawn(self, chosen: int, among: int) -> None:
        """Note that `chosen` clients were drawn uniformly out of `among`."""
        self._rate = chosen / among

    def spend(self, clients: Sequence[int]) -> None:
        """Account for a release of these clients' uploads."""
        if self._by_chance:
            self._accountant.sampled(self._rate)
        else:
            self._accountant.unsampled(clients)

    def release(self, replies: Sequence[Reply]) -> list[Reply]:
        """Return the noisy mean as the only reply that the algorithm sees.

        Raises ScenarioError if an upload is not finite, so that it cannot be clipped.
        """
        shares = [reply.weight * self._factor(reply) for reply in replies]

        def noisy(*leaves: Tensor) -> Tensor:
            first = leaves[0]
            total = sum(share * leaf.double() for share, leaf in zip(shares, leaves, strict=True))
            noise = torch.from_numpy(self._rng.standard_normal(tuple(first.shape))).to(first.device)
            return ((total + self._noise * self._clip * noise) / self._count).to(first.dtype)

        mean = tree.transform(noisy, *(reply.upload["update"] for reply in replies))
        first = replies[0]
        return [Reply(SERVER, first.version, first.download, {"update": mean, "samples": 1})]

    def notes(self) -> list[Any]:
        """Return the accountant's state, for a checkpoint."""
        return [self._rate, *self._accountant.notes()]

    def reopen(self, notes: Sequence[Any]) -> None:
        """Continue from a checkpoint."""
        self._rate, *counted = notes
        self._accountant.reopen(counted)

    @property
    def epsilon(self) -> float:
        """Epsilon of all releases so far, at the run's delta."""
        return self._accountant.epsilon()

    def _factor(self, reply: Reply) -> float:
        """Return the factor that clips an upload to the norm, at most 1."""
        norm = math.sqrt(sum(float(leaf.double().square().sum()) for leaf in tree.leaves(reply.upload["update"])))
        if not math.isfinite(norm):
            message = f"the update of client {reply.client} is not finite: training diverged; lower the learning rate"
            raise ScenarioError.at("training.lr", message)
        return min(1.0, self._clip / norm) if norm else 1.0
