"""Client-level differential privacy by the Gaussian mechanism, at the server (McMahan et al., ICLR 2018).

Each upload's difference is clipped to a norm, over all its parameters together, and weighed by the protocol's discount
for staleness alone; their sum, noise added, is divided by the number of replies that an update is meant to fold.  Both
follow DP-FedAvg: clients count equally, for weights by examples would tell their numbers, and the divisor is fixed,
so that a reply that is missing makes an update smaller and not its noise larger.  The algorithm sees one reply, the
noisy mean, and nothing that is any client's own; what it does with it costs no more privacy.

The noise comes from the run's seed, so that a run can be repeated: it is a simulation's noise and protects nobody.
Not modelled: noise that clients add themselves, adaptive clipping, and the finite precision of floating-point noise.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fedsim.core.errors import Problem, ScenarioError
from fedsim.core.record import SERVER
from fedsim.learn import tree
from fedsim.learn.accountant import Accountant
from fedsim.learn.algorithm import Reply


class Release:
    """Makes one reply of several; `count` is how many an update is meant to fold, `noise` the deviation over `clip`.

    `drawn` tells of each round who was drawn from how many, which the accountant uses where `by_chance` is set.
    """

    def __init__(
        self, clip: float, noise: float, delta: float, count: int, by_chance: bool, rng: np.random.Generator
    ) -> None:
        """Nothing has been released."""
        self._clip, self._noise, self._count, self._rng = clip, noise, count, rng
        self._by_chance, self._rate = by_chance, 1.0
        self._accountant = Accountant(noise, delta)

    def drawn(self, chosen: int, among: int) -> None:
        """Note that so many clients were drawn by equal chances, out of so many."""
        self._rate = chosen / among

    def spend(self, clients: Sequence[int]) -> None:
        """Count a release of what these clients have sent."""
        if self._by_chance:
            self._accountant.sampled(self._rate)
        else:
            self._accountant.unsampled(clients)

    def release(self, replies: Sequence[Reply]) -> list[Reply]:
        """Return the one reply that the algorithm may see.

        Raises ScenarioError where an upload is not finite: nothing could be said of its norm.
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
        """Return all that has been counted, for a checkpoint."""
        return [self._rate, *self._accountant.notes()]

    def reopen(self, notes: Sequence[Any]) -> None:
        """Go on from a checkpoint."""
        self._rate, *counted = notes
        self._accountant.reopen(counted)

    @property
    def epsilon(self) -> float:
        """What all that has been spent amounts to at the run's delta."""
        return self._accountant.epsilon()

    def _factor(self, reply: Reply) -> float:
        """Return what brings an upload within the norm, 1 where it is."""
        norm = math.sqrt(sum(float(leaf.double().square().sum()) for leaf in tree.leaves(reply.upload["update"])))
        if not math.isfinite(norm):
            told = f"the update of client {reply.client} is not finite: training has diverged; lower its learning rate"
            raise ScenarioError([Problem("training.lr", told)])
        return min(1.0, self._clip / norm) if norm else 1.0
