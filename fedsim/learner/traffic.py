"""The backend of algorithms that learn nothing: a job's upload is made at once, without torch.

It models messages and work of given sizes, and no training.
"""

from dataclasses import dataclass
from typing import Any

from fedsim.core import wire
from fedsim.core.wire import Tree
from fedsim.learn.algorithm import Algorithm, Job


@dataclass(frozen=True, eq=False)
class Done:
    """An upload that is complete (a Promise of `contract.py`)."""

    upload: Tree
    job: Job

    @property
    def nbytes(self) -> int:
        """Its encoded size."""
        return wire.size(self.upload)

    @property
    def declared(self) -> int:
        """Its encoded size, which is known at once."""
        return self.nbytes

    @property
    def like(self) -> Tree:
        """A tree of its shapes: the upload itself."""
        return self.upload

    def value(self) -> Tree:
        """Return the upload."""
        return self.upload

    def memory(self) -> dict[str, Any]:
        """Return the client's memory as the job leaves it."""
        return self.job.memory

    def cancel(self) -> None:
        """Do nothing: a finished job cannot be cancelled."""


@dataclass(frozen=True)
class Plain:
    """Runs an algorithm's `work`, which must return a tree and not yield fits."""

    algorithm: Algorithm

    def submit(self, job: Job) -> Done:
        """Do a job."""
        return Done(self.algorithm.work(job), job)

    def flops(self, job: Job) -> float:
        """Return the operations that the job takes."""
        return self.algorithm.flops(job)
