"""LLCG: learn locally, correct globally (Ramezani et al., ICLR 2022).

    client:  ⌊s ρʳ⌋ steps in round r = 1, 2, … on its own graph, whose edges to other clients are missing
    server:  θ ← mean of the θₖ;  then S steps  θ ← θ − γ ∇L  on mini-batches of training nodes in the whole graph

The server's steps are what edges between clients can be learned from.  Each takes a batch without replacement among the
training nodes that it knows of, with their full neighbourhoods; its Adam keeps its state.

The server needs the graph.  By default (`data: uploaded`) a client sends once a period all that it has: per node 4 F
bytes of features, 8 of number and 1 of label and mask each, and 16 an edge, those to other clients included; the server
corrects on what has arrived.  With `data: known` it has the graph and all labels before the run, at no cost, and a
client reports once a period which of its nodes it trains on (8 bytes each).  **Either way the server sees everything**:
LLCG saves traffic, it protects nothing.  Beside that a message holds FedAvg's bytes, and 16 down: how many steps to
take, and the last period known of the client.

What differs: ρ > 1 lengthens rounds, as the paper says (its code divides by ρʳ); the correction uses full
neighbourhoods, as the paper says (its code samples ten); batches are of training nodes, where the code may draw one
without any; clients train full-batch, without sampling neighbours.  `mean: uniform` is the paper's mean, `weighted`
the code's.  Steps are billed to the server over the whole graph, which is what is computed.  Fits of at
most `training.local_steps` steps follow one another; the optimiser goes on, a cosine schedule and the masks of dropout
restart with each.

Peers and clients alone have no server that could correct: there S is 0.  Later snapshots are scored as FedAvg's are.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

import torch
from pydantic import Field, NonNegativeInt
from torch import Tensor

from algorithms.fedavg import FedAvg
from fedsim.core.errors import ScenarioError
from fedsim.core.seeds import integer
from fedsim.core.span import Span
from fedsim.core.units import Count
from fedsim.data.graph import Graph, as_dense, graph_of, to_device
from fedsim.learn.algorithm import Algorithm, Disclosed, Fit, Job, Needs, Reply, State, Tree, Work
from fedsim.learn.averaging import plain_mean
from fedsim.learn.engine import layout, ops, tree
from fedsim.learn.engine.optimiser import SGD, Adam, descend, in_training
from fedsim.learn.model import Parameters


@dataclass(frozen=True)
class LLCG(FedAvg):
    """With `corrections: 0` and `growth: 1` this is FedAvg, except for what clients report."""

    title = "LLCG"
    aggregates = any_model = True
    discloses = Disclosed(("updates", "features", "labels", "edges"))
    upload_like = Algorithm.untrained_upload

    first_steps: Count | None = None  # s, local steps at the beginning; null: the scenario's
    growth: Annotated[float, Field(ge=1, allow_inf_nan=False)] = 1.1  # ρ, by which the steps of every round grow
    most_steps: Count = 128  # local steps that no round exceeds
    corrections: NonNegativeInt = 1  # S, the server's steps after each aggregation
    batch: Count = 256  # training nodes of one of them
    server_optimiser: Literal["adam", "sgd"] = "adam"  # of the correction
    server_lr: float = 1e-2  # γ
    mean: Literal["weighted", "uniform"] = "weighted"  # of the clients' models: by labelled nodes, or all alike
    data: Literal["uploaded", "known"] = "uploaded"  # how the server comes by the whole graph
    tunes = {"corrections": Span(choices=(1, 2, 5, 10)), "server_lr": Span(1e-4, 1e-1, log=True)}

    @property
    def needs(self) -> frozenset[Needs]:  # type: ignore[override]
        """What the correction needs, which trains on the whole graph and leaves buffers as they are."""
        own: set[Needs] = {"own buffers"} if self.corrections or self.mean == "uniform" else set()
        return frozenset(own | ({"vectors"} if self.corrections else set()))

    def tunable(self) -> Mapping[str, Span]:
        """Return the spans of what is switched on."""
        return self.tunes if self.corrections else {}

    # ---- server

    def start(self) -> State:
        """Return the model, and no training node known.  Raises ScenarioError where cut edges cannot be known."""
        if self.corrections and self.overview is None:
            message = f"{self.corrections}: the server corrects on the whole graph, whose edges between clients this "
            message += "stream does not keep; use {name: static, numbered: true} or snapshots, or corrections: 0"
            raise ScenarioError.at("algorithm.corrections", message)
        self.task.require_classes("'llcg' corrects on labels of nodes")
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

    def aggregate(self, replies: Sequence[Reply], factors: Sequence[float] | None = None) -> Tree:
        """Return the differences as one: by default their weighted or plain mean."""
        if self.mean == "weighted" or self._given.aggregation is not None:
            return super().aggregate(replies, factors)
        return plain_mean(replies)

    def graph(self, known: Mapping[int, Tree]) -> Graph | None:
        """Return the graph that the server corrects on, with the training nodes of the last period reported.

        It is kept with the snapshot, and made anew when a report has arrived.
        """
        if not self.corrections or self._given.alone or not known:
            return None
        assert self.overview is not None  # `start` refuses it
        period = max(report["period"] for report in known.values())
        reports = tuple(known[client] for client in sorted(known) if known[client]["period"] == period)
        snapshot, key = self.overview.snapshots[period], ("llcg", self.data, self.task.device, len(reports))
        return layout.once(snapshot, key, reports, lambda: self._joined(snapshot, reports))

    def _joined(self, snapshot: Graph, reports: Sequence[Tree]) -> Graph | None:
        """Return the graph of these reports, None without any node to train on."""
        rows = torch.cat([part["train"] if "train" in part else part["node"][part["mask"]] for part in reports]).long()
        if not len(rows):
            return None
        train = torch.zeros(len(snapshot["y"]), dtype=torch.bool)
        train[rows.cpu()] = True
        if self.data == "known":
            return to_device(graph_of(snapshot["x"], snapshot["edges"], snapshot["y"], train), self.task.device)
        return to_device(assembled(reports, self.task.features, train), self.task.device)

    def corrected(self, state: State, graph: Graph) -> State:
        """Return the state after S steps on mini-batches of the graph's training nodes."""
        drawn = ops.generator(self.task.seed, "llcg", state["round"])
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
        graph = self.graph(self.noted(state, replies)["known"])
        return total if graph is None else total + self.corrections * self.task.flops(graph)

    # ---- client

    def work(self, job: Job) -> Work:
        """Train for the round's steps; in the first job of a period report the training nodes, or everything."""
        model, left = job.download["model"], job.download["steps"]
        while left > 0 and self.task.examples(job.data, "train"):
            taken = min(left, self.local_steps)
            model = yield Fit(model, self.loss, {"received": job.download["model"]}, steps=(0, taken))
            left -= taken
        job.memory["local"] = model
        sent = {"update": tree.sub(model, job.download["model"]), "samples": self.samples(job.data)}
        return {**sent, "data": self.report(job)} if self.reports(job) else sent

    def reports(self, job: Job) -> bool:
        """Return whether the server lacks the client's period."""
        return bool(self.corrections) and not self._given.alone and job.download["known"] != job.period

    def report(self, job: Job) -> Tree:
        """Return the numbers of the training nodes, or all nodes with features, labels, masks and edges."""
        data = job.data
        if self.data == "known":
            return {"period": job.period, "train": data["node"][data["train"]]}
        assert self.overview is not None  # `start` refuses it
        source, target = self.overview.snapshots[job.period]["edges"]
        owner = torch.from_numpy(self.overview.owners[job.period])
        outgoing = torch.stack([source, target])[:, (owner[source] == job.client) & (owner[target] >= 0)]
        labels = torch.where(data["train"], data["y"], 0).to(torch.uint8 if self.task.classes < 256 else torch.int64)
        sent = {"period": job.period, "node": data["node"], "x": as_dense(data["x"]), "y": labels}
        return {**sent, "mask": data["train"], "edges": outgoing.to(data["y"].device)}

    def effort(self, job: Job) -> float:
        """Return the round's steps as a multiple of the scenario's."""
        return job.download["steps"] / self.local_steps


def assembled(parts: Sequence[Tree], features: int, train: Tensor) -> Graph:
    """Return the graph that clients have uploaded, with these training nodes (N,), without edges to unknown nodes."""
    n = len(train)
    x, y, known = torch.zeros(n, features), torch.zeros(n, dtype=torch.long), torch.zeros(n, dtype=torch.bool)
    for part in parts:
        rows = part["node"].long().cpu()
        x[rows], y[rows], known[rows] = part["x"].cpu(), part["y"].long().cpu(), True
    edges = torch.cat([part["edges"].cpu() for part in parts], 1)
    edges = edges[:, known[edges[1]]]
    return graph_of(x, edges[:, torch.argsort(edges[0] * n + edges[1])], y, train)
