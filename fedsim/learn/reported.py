"""Reported: the loss that a client reports beside its upload, where the sampler chooses by it.

It is the loss that the job trains on, before its first local step, kept in the client's memory until it is
read.  Not modelled: losses of single nodes.
"""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from fedsim.core import wire
from fedsim.learn.algorithm import Job, Memory

if TYPE_CHECKING:
    from torch import Tensor

KEY = "reported.loss"  # in the client's memory
BYTES = wire.size({"loss": 0.0})  # of the message's part that carries it


def note(jobs: Sequence[Job], losses: "Tensor") -> None:
    """Note the losses (K,) of jobs, unless a job has noted one before."""
    for job, loss in zip(jobs, losses.detach().tolist(), strict=True):
        job.memory.setdefault(KEY, float(loss))


def of(memory: Memory) -> float:
    """Return the loss that a job has noted, NaN if it has not trained."""
    return float(memory.get(KEY, math.nan))
