"""Training client by client, for optimisers and models that know of no other client."""

from collections.abc import Sequence
from dataclasses import dataclass

from fedsim.data.graph import Graph
from fedsim.learn.engine.training import JobFit, Trainer


@dataclass(eq=False)
class OneByOne(Trainer):
    """A trainer whose computations have a client axis of one."""

    def _groups(self, work: Sequence[JobFit], data: Sequence[Graph]) -> list[list[int]]:
        return [[index] for index in range(len(work))]
