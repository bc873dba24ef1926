"""Federations driven by hand: rounds in which uploads are lost or come late, and problems whose answer is known."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from fedsim.data.graph import Graph, graph_of
from fedsim.learn.algorithm import Algorithm, Context, Job, Reply
from fedsim.learn.engine import tree
from fedsim.learn.engine.cohort import JobQueue
from fedsim.learn.engine.optimiser import SGD
from fedsim.learn.engine.training import Trainer
from fedsim.learn.models.mlp import MLP
from fedsim.learn.task import Task
from fedsim.learn.task import bind as bind_task
from fedsim.learn.tasks.node_classification import NodeClassification


@dataclass(frozen=True)
class Quadratic(NodeClassification):
    """F = a/2 (x − b)² in double precision, where a client's one node has the features (a, b)."""

    def init(self):
        return {"x": torch.zeros(1, dtype=torch.float64)}

    def loss(self, params, graph):
        a, b = graph["x"].double().unbind(1)
        return a / 2 * (params["x"][:, 0] - b).square()


def quadratics(a: Sequence[float], b: Sequence[float]) -> dict[int, Graph]:
    one, none = torch.ones(1, dtype=torch.bool), torch.zeros(2, 0)
    return {
        k: graph_of(torch.tensor([pair]), none, torch.zeros(1), one) for k, pair in enumerate(zip(a, b, strict=True))
    }


def quadratic() -> Task:
    return bind_task(Quadratic(), MLP(layers=1, dropout=0.0), 2, 1, 0, "cpu")


@dataclass
class Federation:
    """A server and its clients; each `round` returns the replies, those held back among them."""

    algorithm: Algorithm
    graphs: dict[int, Graph]
    trainer: Trainer
    batch: bool = True
    memories: dict[int, dict[str, Any]] = field(default_factory=dict)
    period: int = 0
    asked: int = 0

    def __post_init__(self) -> None:
        self.cohort = JobQueue(self.algorithm, self.trainer, batch=self.batch)
        self.state = self.algorithm.start()

    def work(self, clients: Sequence[int]) -> list[Reply]:
        """Have clients work on what they are sent now; each remembers, whatever becomes of its upload."""
        jobs, promises = [], []
        for client in clients:
            self.asked += 1
            download = self.algorithm.download(self.state, client, "train")
            memory = dict(self.memories.get(client, {}))
            jobs.append(Job(client, "train", self.period, download, self.graphs[client], memory, self.asked))
            promises.append(self.cohort.submit(jobs[-1]))
        self.memories |= {job.client: promise.memory() for job, promise in zip(jobs, promises, strict=True)}
        return [Reply(j.client, 0, j.download, p.value()) for j, p in zip(jobs, promises, strict=True)]

    def fold(self, replies: Sequence[Reply], weight: float = 1.0) -> None:
        if replies:
            weighted = [replace(reply, weight=weight) for reply in replies]
            self.state = self.algorithm.update(self.state, weighted, "train")

    def round(self, clients: Sequence[int], lost: Sequence[int] = ()) -> None:
        self.fold([reply for reply in self.work(clients) if reply.client not in lost])

    @property
    def number(self) -> float:
        """The model, where it is one number."""
        return float(self.state["model"]["x"])


def federation(of: type[Algorithm], task: Task, graphs: dict[int, Graph], **how: Any) -> Federation:
    """A federation under SGD; `how` is its learning rate, steps and momentum, and the algorithm's options."""
    lr, steps, momentum = how.pop("lr", 0.1), how.pop("steps", 10), how.pop("momentum", 0.0)
    alone, batch = how.pop("alone", False), how.pop("batch", True)
    context = Context(task, learning_rate=lr, local_steps=steps, momentum=momentum, clients=len(graphs), alone=alone)
    return Federation(replace(of(**how), context=context), graphs, Trainer(SGD(lr, 0.0, momentum), steps), batch)


def gap(one: Any, other: Any) -> float:
    return max(float((a - b).abs().max()) for a, b in zip(tree.leaves(one), tree.leaves(other), strict=True))
