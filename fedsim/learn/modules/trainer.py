"""Training of modules: client by client, in the one module of the run.

A job copies its parameters and buffers into the module and trains them there in place; losses, corrections and the
optimiser see them with a client axis of one.  Where a client's graph has no edges, only its training rows pass through
`forward`, so that no other row reaches the statistics of BatchNorm; a graph that an algorithm gives (`Fit.data`) passes
whole.  Trees that are not the module's, such as a
generator that an algorithm trains beside, are trained as always (`engine/training.py`).
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from fedsim.core.errors import UserError
from fedsim.data.graph import EDGE_KEYS, Graph, induced, with_keys
from fedsim.learn.engine import layout, tree
from fedsim.learn.engine.one_by_one import OneByOne
from fedsim.learn.engine.training import JobFit
from fedsim.learn.modules.batches import Batches
from fedsim.learn.modules.buffers import KEY
from fedsim.learn.modules.resident import Resident
from fedsim.learn.task import Task


@dataclass(eq=False)
class ModuleTrainer(OneByOne):
    """A trainer of one module."""

    resident: Resident = field(kw_only=True)

    def step_flops(self, whole: float, task: Task, graph: Graph) -> float:
        """Return the operations of a step on the rows that it takes."""
        rows = training_rows(graph)
        if isinstance(self.step_data, Batches):
            return self.step_data.flops(task, rows)
        return whole if rows is graph else task.flops(rows)

    def _train(self, work: Sequence[JobFit], graphs: Sequence[Graph]) -> list[tree.Tree]:
        ((job, fit),), resident = work, self.resident
        resident.set_buffers(job.memory.get(KEY, resident.first_buffers))
        drawn = torch.default_generator.get_state()  # which each forward pass seeds anew
        try:
            data = training_rows(graphs[0]) if graphs[0] is job.data else graphs[0]
            if isinstance(fit.start, dict) and fit.start.keys() == resident.trained.keys():
                resident.set_parameters(fit.start)
                layout.of(data).alone = True
                self._descend([job], [fit], data, resident.lend(), resident.values)
                trained = resident.parameters()
            else:
                (trained,) = super()._train(work, [data])
        except (ValueError, RuntimeError) as error:  # of torch, which knows of no client
            where = f"on the {int(graphs[0]['train'].sum())} rows of client {job.client}"
            raise UserError(f"{resident.name} cannot be trained {where}: {error}") from error
        finally:
            resident.take_back()
            torch.default_generator.set_state(drawn)
        if resident.buffers and isinstance(fit.start, dict) and fit.start.keys() >= resident.trained.keys():
            job.memory[KEY] = {name: buffer.clone() for name, buffer in resident.buffers.items()}
        return [trained]

    def _gradients(self, loss: Tensor, leaves: Sequence[Tensor]) -> list[Tensor]:
        if leaves is not self.resident.values:
            return super()._gradients(loss, leaves)
        grads = torch.autograd.grad(loss, self.resident.owned, materialize_grads=True)
        return [grad.unsqueeze(0) for grad in grads]


def training_rows(graph: Graph) -> Graph:
    """Return the training rows of a graph without edges, made once; any other graph as it is."""
    if graph["edges"].shape[1]:
        return graph
    train: Tensor = graph["train"]
    of_edges: dict[str, Any] = {name: value for name, value in graph.items() if name in EDGE_KEYS}

    def taken() -> Graph:
        return with_keys(induced(graph, train.nonzero().squeeze(1)), of_edges)

    return layout.once(graph, "training rows", (train,), taken)
