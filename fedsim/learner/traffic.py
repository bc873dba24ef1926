"""Traffic: the learner of algorithms that learn nothing, whose jobs are done at once; it keeps no record.

It models messages and work of given lengths.  It does not load torch.
"""

from dataclasses import dataclass
from typing import Any

from fedsim.core import wire
from fedsim.core.wire import Tree
from fedsim.learn.algorithm import Algorithm, Job


@dataclass(frozen=True, eq=False)
class Done:
    """An upload that exists."""

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
        """A tree of its shapes, which it is itself."""
        return self.upload

    def value(self) -> Tree:
        """Return the upload."""
        return self.upload

    def memory(self) -> dict[str, Any]:
        """Return the client's memory as the job leaves it."""
        return self.job.memory

    def cancel(self) -> None:
        """Forget the job, of which nothing is left."""


@dataclass(frozen=True)
class Plain:
    """Does an algorithm's work; its `work` must return a tree, not yield fits."""

    algorithm: Algorithm

    def submit(self, job: Job) -> Done:
        """Do a job."""
        return Done(self.algorithm.work(job), job)

    def flops(self, job: Job) -> float:
        """Return the operations that the job takes."""
        return self.algorithm.flops(job)
