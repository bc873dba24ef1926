"""LLCG: learn locally, correct globally (Ramezani et al., ICLR 2022).

    client:  ⌊s ρʳ⌋ steps in round r = 1, 2, … on its own graph, whose edges to other clients are missing
    server:  θ ← mean of the θₖ;  then S steps  θ ← θ − γ ∇L  on mini-batches of training vertices in the whole graph

The server's steps are what edges between clients can be learned from.  Each takes a batch without replacement among the
training vertices that it knows of, with their full neighbourhoods; its Adam keeps its state.

The server needs the graph.  With `data: known` it has the graph and all labels before the run, at no cost, and a client
reports once a period which of its vertices it trains on (8 bytes each).  With `data: uploaded` a client sends once a
period all that it has: per vertex 4 F bytes of features, 8 of number and 1 of label and mask each, and 16 an edge,
those to other clients included; the server corrects on what has arrived.  **Either way the server sees everything**:
LLCG saves traffic, it protects nothing.  Beside that a message holds FedAvg's bytes, and 16 down: how many steps to
take, and the last period known of the client.

What differs: ρ > 1 lengthens rounds, as the paper says (its code divides by ρʳ); the correction uses full
neighbourhoods, as the paper says (its code samples ten); batches are of training vertices, where the code may draw one
without any; clients train full-batch, without sampling neighbours.  `mean: uniform` is the paper's mean, `weighted`
the code's.  Steps are billed to the server over the whole graph, which is what is computed.  Fits of at
most `training.local_steps` steps follow one another; the optimiser goes on, a cosine schedule and the masks of dropout
restart with each.

Peers and clients alone have no server that could correct: there S is 0.  Later snapshots are scored as FedAvg's are.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor

from algorithms.fedavg import FedAvg
from fedsim.core.errors import Problem, ScenarioError
from fedsim.core.seeds import integer
from fedsim.core.span import Span
from fedsim.core.units import Count
from fedsim.core.wire import Tree
from fedsim.data.graph import Graph, as_dense, graph_of
from fedsim.learn import layout, tree
from fedsim.learn.algorithm import Fit, Job, Reply, State, Work
from fedsim.learn.model import Parameters
from fedsim.learn.optimiser import SGD, Adam
from fedsim.learn.replies import weights_of
from fedsim.learn.server_training import descend, in_training
from fedsim.learn.tasks.node_classification import classes_only


@dataclass(frozen=True)
class LLCG(FedAvg):
    """With `corrections: 0` and `growth: 1` this is FedAvg, except for what clients report."""

    title: ClassVar[str] = "LLCG"
    aggregates = True

    first_steps: Count | None = None  # s, local steps at the beginning; null: the scenario's
    growth: float = 1.1  # ρ, by which the steps of every round grow
    most_steps: Count = 128  # local steps that no round exceeds
    corrections: int = 1  # S, the server's steps after each aggregation
    batch: Count = 256  # training vertices of one of them
    server_optimiser: Literal["adam", "sgd"] = "adam"  # of the correction
    server_lr: float = 1e-2  # γ
    mean: Literal["weighted", "uniform"] = "weighted"  # of the clients' models: by labelled vertices, or all alike
    data: Literal["known", "uploaded"] = "known"  # how the server has come by the whole graph
    tunes: ClassVar[Mapping[str, Span]] = {
        "corrections": Span(choices=(1, 2, 5, 10)),
        "server_lr": Span(1e-4, 1e-1, log=True),
    }

    def __post_init__(self) -> None:
        """Raise ValueError for numbers out of their range."""
        super().__post_init__()
        if not 1 <= self.growth < math.inf:
            raise ValueError("growth: must be finite and at least 1 (1 keeps the number of steps)")
        if self.corrections < 0:
            raise ValueError("corrections: must be at least 0")

    def tunable(self) -> Mapping[str, Span]:
        """Return the spans of what is switched on."""
        return self.tunes if self.corrections else {}

    # ---- server

    def start(self) -> State:
        """Return the model, and no training vertex known.  Raises ScenarioError where cut edges cannot be known."""
        if self.corrections and self.overview is None:
            message = (
                f"{self.corrections}: the server corrects on the whole graph, whose edges between clients this stream "
                "does not keep; use {name: static, numbered: true} or snapshots, or corrections: 0"
            )
            raise ScenarioError([Problem("algorithm.corrections", message)])
        classes_only(self.task, "'llcg' corrects on labels of vertices: take task: node_classification")
        return {**super().start(), "round": 0, "adam": None, "known": {}}

    def download(self, state: State, client: int, step: str) -> Tree:
        """Send the model, how many steps to take, and the last period known of the client."""
        known = state["known"].get(client)
        period = -1 if known is None else known["period"]
        return {**super().download(state, client, step), "steps": self.taken(state["round"] + 1), "known": period}

    def taken(self, number: int) -> int:
        """Return ⌊s ρʳ⌋, at most `most_steps`."""
        first = self.first_steps or self.local_steps
        if math.log(first) + number * math.log(self.growth) >= math.log(self.most_steps):
            return self.most_steps
        return math.floor(first * self.growth**number + 1e-9)

    def update(self, state: State, replies: Sequence[Reply], step: str) -> State:
        """Average, note what clients report, and correct."""
        new = {**super().update(state, replies, step), **self.noted(state, replies)}
        graph = self.graph(new["known"])
        return new if graph is None else self.corrected(new, graph)

    def noted(self, state: State, replies: Sequence[Reply]) -> State:
        """Return the number of the round, and what clients have reported."""
        reports = {reply.client: reply.upload["data"] for reply in replies if "data" in reply.upload}
        return {"round": state["round"] + 1, "known": dict(sorted({**state["known"], **reports}.items()))}

    def dry_update(self, state: State, replies: Sequence[Reply], step: str) -> State:
        """Note what clients report."""
        return {**state, **self.noted(state, replies)}

    def average_of(self, replies: Sequence[Reply], factors: Sequence[float]) -> Tree:
        """Return the weighted or the plain mean of the differences."""
        if self.mean == "weighted" or self.aggregation != "mean":
            return super().average_of(replies, factors)
        return tree.mean([reply.upload["update"] for reply in replies], [1.0] * len(replies), weights_of(replies))

    def graph(self, known: Mapping[int, Tree]) -> Graph | None:
        """Return the graph that the server corrects on, with the training vertices of the last period reported.

        It is kept with the snapshot, and made anew when a report has arrived.
        """
        if not self.corrections or self._given.alone or not known:
            return None
        assert self.overview is not None  # `start` refuses it
        period = max(one["period"] for one in known.values())
        alike = [known[client] for client in sorted(known) if known[client]["period"] == period]
        snapshot = self.overview.snapshots[period]
        key = "llcg", self.data, self.task.device, len(alike)
        graph: Graph | None = layout.once(snapshot, key, tuple(alike), lambda: self._joined(snapshot, alike))
        return graph

    def _joined(self, snapshot: Graph, reports: Sequence[Tree]) -> Graph | None:
        """Return the graph of these reports, None without any vertex to train on."""
        rows = torch.cat([one["train"] if "train" in one else one["vertex"][one["mask"]] for one in reports]).long()
        if not len(rows):
            return None
        n = len(snapshot["y"])
        train = torch.zeros(n, dtype=torch.bool)
        train[rows.cpu()] = True
        if self.data == "known":
            whole = graph_of(snapshot["x"], snapshot["edges"], snapshot["y"], train)
        else:
            whole = assembled(reports, n, self.task.features, train)
        return moved(whole, self.task.device)

    def corrected(self, state: State, graph: Graph) -> State:
        """Return the state after S steps on mini-batches of the graph's training vertices."""
        drawn = torch.Generator().manual_seed(integer(self.task.seed, "llcg", state["round"]))
        rows = graph["train"].nonzero().squeeze(1).cpu()
        layout.of(graph)
        batches = []
        for _ in range(self.corrections):
            train = torch.zeros(len(graph["y"]), dtype=torch.bool)
            train[rows[torch.randperm(len(rows), generator=drawn)[: self.batch]]] = True
            batches.append(Graph(**{**graph, "train": train.to(graph["y"].device)}))
        seed = integer(self.task.seed, "llcg", "drop", state["round"])
        adam = Adam(self.server_lr) if self.server_optimiser == "adam" else SGD(self.server_lr, 0.0, 0.0)

        def loss(params: Parameters, step: int) -> Tensor:
            return self.task.loss(params, in_training(batches[step], seed, step))

        model, moments = descend(state["model"], loss, adam, self.corrections, state["adam"])
        return {**state, "model": model, "adam": moments}

    def server_flops(self, state: State, replies: Sequence[Reply], step: str) -> float:
        """Return the averaging, and S training steps on the whole graph."""
        total = super().server_flops(state, replies, step)
        reports = {r.client: r.upload["data"] for r in replies if "data" in r.upload}
        graph = self.graph({**state["known"], **reports})
        return total if graph is None else total + self.corrections * self.task.flops(graph)

    # ---- client

    def work(self, job: Job) -> Work:
        """Train for the round's steps; in the first job of a period report the training vertices, or everything."""
        model, left = job.download["model"], job.download["steps"]
        if self.task.examples(job.data, "train"):
            given: dict[str, Any] = {"received": model}
            while left > 0:
                now = min(left, self.local_steps)
                model = yield Fit(start=model, loss=self.loss, given=given, steps=(0, now))
                left -= now
        job.memory["local"] = model
        sent = {"update": tree.sub(model, job.download["model"]), "samples": self.samples(job.data)}
        return {**sent, "data": self.report(job)} if self.reports(job) else sent

    def reports(self, job: Job) -> bool:
        """Return whether the server lacks the client's period."""
        return bool(self.corrections) and not self._given.alone and job.download["known"] != job.period

    def report(self, job: Job) -> Tree:
        """Return the numbers of the training vertices, or all vertices with features, labels, masks and edges."""
        data = job.data
        if self.data == "known":
            return {"period": job.period, "train": data["vertex"][data["train"]]}
        assert self.overview is not None  # `start` refuses it
        source, target = self.overview.snapshots[job.period]["edges"]
        owner = torch.from_numpy(self.overview.owners[job.period])
        own = torch.stack([source, target])[:, (owner[source] == job.client) & (owner[target] >= 0)]
        labels = torch.where(data["train"], data["y"], 0).to(torch.uint8 if self.task.classes < 256 else torch.int64)
        sent = {"period": job.period, "vertex": data["vertex"], "x": as_dense(data["x"]), "y": labels}
        return {**sent, "mask": data["train"], "edges": own.to(data["y"].device)}

    def upload_like(self, job: Job) -> Tree:
        """Return a tree as large as the upload."""
        like = {"update": job.download["model"], "samples": 0}
        return {**like, "data": self.report(job)} if self.reports(job) else like

    def effort(self, job: Job) -> float:
        """Return the round's steps as a multiple of the scenario's."""
        return job.download["steps"] / self.local_steps


def assembled(parts: Sequence[Tree], n: int, features: int, train: Tensor) -> Graph:
    """Return the graph of n vertices that clients have uploaded, without edges to vertices that are not there."""
    x, y, there = torch.zeros(n, features), torch.zeros(n, dtype=torch.long), torch.zeros(n, dtype=torch.bool)
    for part in parts:
        rows = part["vertex"].long().cpu()
        x[rows], y[rows], there[rows] = part["x"].cpu(), part["y"].long().cpu(), True
    edges = torch.cat([part["edges"].cpu() for part in parts], 1)
    edges = edges[:, there[edges[1]]]
    return graph_of(x, edges[:, torch.argsort(edges[0] * n + edges[1])], y, train)


def moved(graph: Graph, device: str) -> Graph:
    """Return the graph on a device."""
    return Graph(**{key: value.to(device) for key, value in graph.items()})  # type: ignore[typeddict-item, attr-defined]
