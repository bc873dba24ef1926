"""Traffic: messages of a given size and work of a given length, without training.

For studies of time and bytes with very many clients, where no model is needed.  It needs no data and no torch.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from fedsim.core import wire
from fedsim.core.units import Bytes, NonNegative
from fedsim.core.wire import Spec, Tree
from fedsim.learn.algorithm import Algorithm, Disclosed, Job, Reply, State, Work


@dataclass(frozen=True)
class Traffic(Algorithm):
    """Every ask carries `down` bytes to the client, takes `operations` of its time, and brings `up` bytes back."""

    learns = False
    discloses = Disclosed()

    down: Bytes  # size of a download, without its envelope
    up: Bytes  # size of an upload, without its envelope
    operations: NonNegative = 0.0  # floating-point operations per job

    def start(self) -> State:
        """Return the number of rounds so far."""
        return {"model": 0.0}

    def download(self, state: State, client: int, step: str) -> Tree:
        """Send as many bytes as wanted."""
        return ballast(self.down)

    def work(self, job: Job) -> Tree | Work:
        """Send as many bytes as wanted."""
        return ballast(self.up)

    def update(self, state: State, replies: Sequence[Reply], step: str) -> State:
        """Count the round."""
        return {"model": state["model"] + 1.0}

    def share(self, state: State) -> Tree:
        """Send as much to a peer as a client uploads."""
        return {**ballast(self.up), **super().share(state)}

    def flops(self, job: Job) -> float:
        """Return what a job takes."""
        return self.operations

    def server_flops(self, state: State, replies: Sequence[Reply], step: str) -> float:
        """Return a multiply-add for every other byte, as everywhere, without a look at each reply."""
        return len(replies) * self.up / 2


@lru_cache
def ballast(nbytes: int) -> Tree:
    """Return a tree of this many bytes, always the same object."""
    return wire.SizedTree(ballast=Spec((nbytes,), "uint8"))
