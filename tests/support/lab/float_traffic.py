"""An algorithm of numpy arrays that trains nothing: codecs have something to compress, and no torch is needed."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fedsim.learn.algorithm import Algorithm


@dataclass(frozen=True)
class FloatTraffic(Algorithm):
    learns: ClassVar[bool] = False

    numbers: int
    operations: float

    def start(self):
        return {"model": np.zeros(self.numbers, np.float32)}

    def download(self, state, client, step):
        return {"model": state["model"]}

    def work(self, job):
        drawn = np.random.default_rng(job.seed).standard_normal(self.numbers, np.float32)
        return {"update": drawn - 0.1 * job.download["model"]}

    def update(self, state, replies, step):
        return {"model": state["model"] + sum(reply.upload["update"] for reply in replies) / len(replies)}

    def flops(self, job):
        return self.operations
