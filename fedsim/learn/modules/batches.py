"""Batches: each local step of a module learns from so many of the client's training rows, not from all.

A job shuffles the client's training rows and takes one batch after the other; where fewer are left than a batch
holds they are left out, and the rows are shuffled anew.  So a batch always has that many rows, or all of them where
the client has fewer.  The order hangs on the job's seed alone, and never on what runs beside.

Where there are edges, a batch is nodes, and the loss is theirs alone: they are computed in the whole graph, or, with
`neighbours`, in a part that is drawn around them (`neighbours.py`); what edges carry goes with them.  A batch is taken
of the data of a fit, its own or the job's; graphs that a loss is given beside are whole.  Not modelled: batches of
pairs or of whole graphs.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import torch
from torch import Tensor

from fedsim.core import seeds
from fedsim.core.arrays import Ints
from fedsim.data.graph import Graph, part, with_keys
from fedsim.learn.engine import layout
from fedsim.learn.engine.optimiser import in_training
from fedsim.learn.modules.neighbours import in_edges, sampled
from fedsim.learn.task import Task

SIZED = 4  # batches whose mean size is billed, where it is a matter of chance


@dataclass(frozen=True)
class Batches:
    """Batches of so many training rows; `neighbours` are the most of each node, layer by layer, none for all."""

    batch: int
    neighbours: Sequence[int] = ()

    def __call__(self, graph: Graph, seed: Ints, step: int, use: int = 0) -> Graph:
        """Return what a step learns from, in training mode: that of the only client's `seed` (1,)."""
        taken = self.of(graph, int(seed[0]), step)
        layout.of(taken).alone = True
        return in_training(taken, seed, step, use)

    def of(self, graph: Graph, seed: int, step: int) -> Graph:
        """Return the graph with the rows of a step's batch alone to train on: the graph itself if that is all."""
        train = graph["train"]
        every: Tensor = layout.once(graph, "rows to train on", (train,), lambda: train.nonzero().squeeze(1))
        rows = every
        if len(every) > self.batch:
            shuffle, place = divmod(step, len(every) // self.batch)
            chosen = shuffled(seed, shuffle, len(every))[place * self.batch : (place + 1) * self.batch]
            rows = every[chosen.to(every.device)]
        if not graph["edges"].shape[1]:
            return graph if rows is every else part(graph, rows, graph["edges"], graph["edges"][0])
        if self.neighbours:
            return self._around(graph, rows, seeds.generator(seed, "neighbours", step))
        if rows is every:
            return graph
        chosen = torch.zeros_like(train)
        chosen[rows] = True
        return with_keys(graph, {"train": chosen})

    def _around(self, graph: Graph, rows: Tensor, rng: np.random.Generator) -> Graph:
        ends, n = graph["edges"], len(graph["y"])
        near = layout.once(graph, "in-edges", (ends,), lambda: in_edges(ends.numpy(force=True), n))
        found = sampled(near, rows.numpy(force=True), [*self.neighbours], rng)
        nodes, edges, entries = (torch.from_numpy(array).to(ends.device) for array in found)
        taken = part(graph, nodes, edges, entries)
        train = torch.zeros_like(taken["train"])
        train[: len(rows)] = True
        return with_keys(taken, {"train": train})

    def flops(self, task: Task, graph: Graph) -> float:
        """Return the operations of a step; with neighbours the mean over a few batches of fixed seeds."""
        batches = [self.of(graph, seed, 0) for seed in range(SIZED if self.neighbours else 1)]
        return sum(map(task.flops, batches)) / len(batches)


@lru_cache(maxsize=16)
def shuffled(seed: int, shuffle: int, rows: int) -> Tensor:
    """Return the order of a job's rows in its pass of that number."""
    return torch.from_numpy(seeds.generator(seed, "batches", shuffle).permutation(rows))
