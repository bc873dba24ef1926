"""An algorithm without training: the sizes of its messages and the operations of its jobs, for `--explain`.

The download is real, the upload is zeros of the size that `upload_like` declares.  State and memories change as far as
the algorithm tells (`dry_update`, `dry_work`): who has what was sent once, and what will be replayed.  If a round has
several exchanges, only the first is included, as the contents of the others depend on its result.

Not modelled: messages whose size depends on earlier training, and server work that depends on the values of uploads.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from fedsim.core.errors import UnknownSizeError
from fedsim.core.wire import Spec, Tree
from fedsim.learn.algorithm import Algorithm, Job, Reply, State
from fedsim.learner.contract import Backend
from fedsim.learner.traffic import Done
from fedsim.net import marks


@dataclass(frozen=True)
class Untrained(Algorithm):
    """Sends what the real algorithm would send first, and learns nothing; a round is its first exchange."""

    real: Algorithm

    def __post_init__(self) -> None:
        """Copy `talks` from the real algorithm."""
        object.__setattr__(self, "talks", self.real.talks)

    def start(self) -> State:
        """Return the real algorithm's first state."""
        return self.real.start()

    def download(self, state: State, client: int, step: str) -> Tree:
        """Return the real algorithm's first download."""
        return self.real.download(state, client, step)

    def work(self, job: Job) -> Tree:
        """Return zeros of the upload's size.  Raises UnknownSizeError if it is known only after training."""
        like = self.real.upload_like(job)
        if like is None and not self.talks:
            return {}
        if like is None:
            name = type(self.real).__name__
            raise UnknownSizeError(
                f"the size of what {name} sends in its step {job.step!r} is known only after training"
            )
        return marks.transform(_zeros, like)

    def update(self, state: State, replies: Sequence[Reply], step: str) -> State:
        """Return the state that the real algorithm knows of without computing."""
        return self.real.dry_update(state, replies, step)

    def steps(self, state: State) -> Sequence[str]:
        """Return the first step alone."""
        return list(self.real.steps(state))[:1]

    def cuts(self, state: State) -> bool:
        """Return whether a round of the real algorithm from this state has more exchanges."""
        return len(self.real.steps(state)) > 1

    def share(self, state: State) -> Tree:
        """Return the real algorithm's share."""
        return self.real.share(state)

    def mix(self, state: State, shares: Sequence[Tree], weights: Sequence[float]) -> State:
        """Return the state unchanged."""
        return state

    def server_flops(self, state: State, replies: Sequence[Reply], step: str) -> float:
        """Return the real algorithm's operations, as estimated from the shapes of the uploads."""
        return self.real.server_flops(state, replies, step)


@dataclass(frozen=True, eq=False)
class Imagined(Done):
    """An upload of zeros; the job's memory changes only when it is asked for, once the operations are estimated."""

    real: Algorithm

    def memory(self) -> dict[str, Any]:
        """Return the client's memory as far as the algorithm tells what its job leaves."""
        self.real.dry_work(self.job)
        return self.job.memory


@dataclass(frozen=True)
class Estimates:
    """The backend of an untrained algorithm; `real` is the real one's, which estimates the operations of jobs."""

    algorithm: Untrained
    real: Backend

    def submit(self, job: Job) -> Imagined:
        """Return an upload of zeros at once."""
        return Imagined(self.algorithm.work(job), job, self.algorithm.real)

    def flops(self, job: Job) -> float:
        """Return the operations that the job takes."""
        return self.real.flops(job)


def _zeros(like: Any) -> Any:
    return torch.zeros(like.shape, dtype=getattr(torch, like.dtype)) if isinstance(like, Spec) else like
