"""DG-CoLearn driven by hand over the snapshots of a small graph that drifts, in float64 and without training."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from contexts import within

from algorithms.dg_colearn import DGCoLearn
from fedsim.clock.world import Streams
from fedsim.core.units import Updates
from fedsim.data.datasets.drifting import Drifting
from fedsim.data.graphs.split import SplitOptions
from fedsim.data.streams.snapshots import Snapshots
from fedsim.data.time.temporal import Overview, owners_of
from fedsim.learn.algorithm import Job, Reply
from fedsim.learn.engine import tree
from fedsim.learn.models.roland import Roland
from fedsim.learn.task import bind as bind_model
from fedsim.learn.tasks.node_classification import NodeClassification

GRAPH = Drifting(nodes=60, edges=90, classes=3, features=4, snapshots=5, removal=0.03, renewal=0.02, growth=0.1)
LINEAR = {"update": "moving_average", "keep": 0.0, "normalise": "none", "activation": "none", "unit": False}


def shared_out(snapshots, clients, moving, rng):
    """Each client's nodes in each snapshot; two of them get another owner each time if `moving`."""
    owner, found = rng.integers(0, clients, len(snapshots[0]["y"])), []
    for t, snapshot in enumerate(snapshots):
        if moving and t:
            owner[rng.choice(len(owner), 2, replace=False)] = rng.integers(0, clients, 2)
        there = snapshot["arrived"].numpy()
        found.append([np.flatnonzero((owner == client) & there) for client in range(clients)])
    return found


@dataclass
class Driven:
    """All clients take part in every exchange, but for those that `absent` names by period."""

    algorithm: DGCoLearn
    model: Roland = field(default_factory=lambda: Roland(hidden=3, norm="sum", **LINEAR))
    clients: int = 3
    moving: bool = True
    graph: Drifting = GRAPH
    absent: Mapping[int, int] = field(default_factory=dict)

    def __post_init__(self):
        """Cut the graph, and start the server."""
        whole = self.graph.load(None, 1)
        stream = Snapshots(every=Updates(1), steps=self.graph.snapshots, scored="split")
        self.snapshots = stream.snapshots(whole)
        owned = shared_out(self.snapshots, self.clients, self.moving, np.random.default_rng(7))
        split = SplitOptions(0.5, 0.2, None, 1.0)
        self.periods = stream.prepare_snapshots(self.snapshots, owned, split, Streams(0))
        for snapshot in self.snapshots:
            snapshot["x"] = snapshot["x"].double()
        for own in self.periods:
            for period in own:
                period.graph["x"] = period.graph["x"].double()
        task = bind_model(NodeClassification(), self.model, self.graph.features, self.graph.classes, 0, "cpu")
        owners = [owners_of(lists, self.graph.nodes) for lists in owned]
        self.algorithm = within(self.algorithm, task, Overview(self.snapshots, owners))
        state = self.algorithm.start()
        self.state = {**state, "model": shaken(state["model"])}
        self.memories: list[dict[str, Any]] = [{} for _ in range(self.clients)]
        self.messages: list[tuple[int, str, int, Any, Any]] = []  # period, step, client, download, upload

    def round(self, t):
        """One round of period t; return the steps that it took."""
        waiting, taken = list(self.algorithm.steps(self.state)), []
        while waiting:
            step = waiting.pop(0)
            taken.append(step)
            replies = [self._ask(t, k, step) for k in range(self.clients) if self.absent.get(t) != k]
            self.state = self.algorithm.update(self.state, replies, step)
            waiting = [*self.algorithm.more(self.state, step), *waiting]
        return taken

    def told(self, client, key, t):
        """The rows (N, F) that a client was told, by number in the whole graph, zeros where it was told none."""
        nodes, rows = self.memories[client]["received"][key]
        found = torch.zeros(self.graph.nodes, rows.shape[1], dtype=rows.dtype)
        found[nodes] = rows
        return found

    def _ask(self, t, client, step):
        download, period = self.algorithm.download(self.state, client, step), self.periods[client][t]
        job = Job(client, step, t, download, period.graph, dict(self.memories[client]), 0)
        like, work = self.algorithm.upload_like(job), self.algorithm.work(job)
        try:
            fit = next(work)
            while True:
                fit = work.send(fit.start)
        except StopIteration as stop:
            upload = stop.value
        assert like is None or like.keys() == upload.keys()
        self.memories[client] = job.memory
        self.messages.append((t, step, client, download, upload))
        return Reply(client, 0, download, upload)


def shaken(params):
    """The same in float64, no part of it zero."""
    g = torch.Generator().manual_seed(5)
    return tree.transform(lambda leaf: leaf.double() + 0.3 * torch.randn(leaf.shape, generator=g).double(), params)


def adjacency(driven, t, norm):
    """A (N, N) of snapshot t, self-loops included, and its part inside the clients."""
    n, (source, target) = driven.graph.nodes, driven.snapshots[t]["edges"]
    owner = torch.from_numpy(driven.algorithm.overview.owners[t])
    a = torch.eye(n, dtype=torch.float64)
    a[target, source] = 1
    d = a.sum(1)
    a = {"sum": a, "mean": a / d[:, None], "sym": a / (d[:, None] * d[None]).sqrt()}[norm]
    return a, torch.where(owner[:, None] == owner[None], a, 0.0)
