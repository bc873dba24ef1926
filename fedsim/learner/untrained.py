"""An algorithm as far as it is known before anything is trained: the sizes of its messages and the work of its jobs.

Every ask is taken to be its client's first, with the server's first state: the download is real, the upload is as large
as `upload_like` says and holds zeros, and nothing is folded.  Of a round of several exchanges the first is taken, for
what the others carry hangs on what it brings.

What it does not model: messages that grow or shrink by what was learned before, and server's work that hangs on what
uploads hold.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from fedsim.core.errors import UserError
from fedsim.core.wire import Spec, Tree
from fedsim.learn.algorithm import Algorithm, Job, Reply, State, declared
from fedsim.learner.traffic import Done
from fedsim.learner.trained import Backend


@dataclass(frozen=True)
class Untrained(Algorithm):
    """Sends what the real one would send first, and learns nothing."""

    real: Algorithm

    def __post_init__(self) -> None:
        """Talk as the real one does."""
        object.__setattr__(self, "talks", self.real.talks)

    def start(self) -> State:
        """Return the real one's first state."""
        return self.real.start()

    def download(self, state: State, client: int, step: str) -> Tree:
        """Return what the real one sends first."""
        return self.real.download(state, client, step)

    def work(self, job: Job) -> Tree:
        """Return zeros of the upload's size.  Raises UserError where only training tells it."""
        like = self.real.upload_like(job)
        if like is None and not self.talks:
            return {}
        if like is None:
            name = type(self.real).__name__
            raise UserError(f"the size of what {name} sends in its step {job.step!r} is known once it has trained")
        return _zeros(like)

    def update(self, state: State, replies: Sequence[Reply], step: str) -> State:
        """Learn nothing."""
        return state

    def share(self, state: State) -> Tree:
        """Return the real one's share."""
        return self.real.share(state)

    def mix(self, state: State, shares: Sequence[Tree], weights: Sequence[float]) -> State:
        """Learn nothing."""
        return state

    def server_flops(self, state: State, replies: Sequence[Reply], step: str) -> float:
        """Return the real one's work, as far as the shapes of the uploads tell it."""
        return self.real.server_flops(state, replies, step)


@dataclass(frozen=True)
class FirstStep(Untrained):
    """The same of an algorithm whose rounds have exchanges of their own."""

    def steps(self, state: State) -> Sequence[str]:
        """Return the first."""
        return list(self.real.steps(state))[:1]


@dataclass(frozen=True)
class Estimates:
    """The backend of an untrained algorithm; `real` is that of the real one, which tells how long a job takes."""

    algorithm: Untrained
    real: Backend

    def submit(self, job: Job) -> Done:
        """Do nothing, and return zeros."""
        return Done(self.algorithm.work(job), job)

    def flops(self, job: Job) -> float:
        """Return the operations that the job takes."""
        return self.real.flops(job)


def untrained(algorithm: Algorithm) -> Untrained:
    """Return the stand-in for an algorithm that has its context."""
    several = declared(algorithm, "own_steps")
    return FirstStep(algorithm) if several else Untrained(algorithm)


def _zeros(like: Any) -> Any:
    if isinstance(like, Mapping):
        return {key: _zeros(value) for key, value in like.items()}
    if isinstance(like, list | tuple):
        return type(like)(_zeros(value) for value in like)
    return torch.zeros(like.shape, dtype=getattr(torch, like.dtype)) if isinstance(like, Spec) else like
