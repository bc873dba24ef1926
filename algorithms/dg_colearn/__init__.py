"""DG-CoLearn: incremental learning on snapshots, with an exchange of embeddings over cut edges (Au et al., 2026).

Each client trains on what the last change affects (`fedsim/learn/continual/snapshots.py`), starting from the states
that a recurrent model keeps of every node; the server averages by edges.  When the schedule says so, the clients send
rows of nodes at the cut, and the server, which knows the whole graph, sends back what they lack (`exchange.py`):

- `exact`: δ and r of A X and A² X, two vectors a node as in the paper, with the term that its Eq. 6 lacks;
- `paper`: Eqs. 5 and 6 as printed, for nodes at the cut only;
- `layerwise`: each layer's sums over cut neighbours, one exchange a layer: exact for nonlinear layers too;
- `full_graph`: `exact`, for every node at the cut and not only the affected ones;
- `fedgcn`: (A X) in place of the features, kept from period to period and refreshed where something changed, at home or
  at a neighbour elsewhere (incremental FedGCN, appendix F.1.2);
- `none`.

The paper does not say how the corrected embeddings are used.  Here δ is added to the first layer's sums before the
weight, r to the second layer's, carried through the first layer's weight, as if that were linear; the corrected states
are stored and enter the next snapshot.  Under `exact` and `layerwise` nodes beside the cut are corrected through
their neighbours.

Where a model is scored on a later snapshot, clients first exchange rows of that one (`ahead.py`), which is billed
beside the scores.

`privacy: paper` exchanges rows of nodes at the cut only, which reveals to a client which these are; `strict`
exchanges a row for every node affected at its owner, with zeros where there is nothing to send.  `k_min` drops
corrections that are sums over fewer nodes: a sum over one is that node's own features.

Not modelled: clients that communicate directly, features that must not be seen even in sums, and EvolveGCN's unrolling.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from algorithms.dg_colearn import incremental, unrolling
from algorithms.dg_colearn.ahead import Ahead
from algorithms.dg_colearn.answers import rows_asked_for, take_corrections
from algorithms.dg_colearn.overseer import Overseer
from algorithms.fedavg import FedAvg
from fedsim.core.span import Span
from fedsim.core.units import Count
from fedsim.data.graph import Graph
from fedsim.learn.algorithm import Disclosed, Fit, Job, Memory, Reply, State, Tree, Work
from fedsim.learn.continual.snapshots import forwarded, joined
from fedsim.learn.engine import tree
from fedsim.learn.job import Seen, Sight
from fedsim.learn.model import Parameters

Exchange = Literal["none", "exact", "paper", "layerwise", "full_graph", "fedgcn"]
LAYERS = 8  # that a layerwise exchange may have


@dataclass(frozen=True)
class DGCoLearn(FedAvg):
    """See the module's docstring."""

    title = "DG-CoLearn"

    aggregates = True
    own_steps = True
    discloses = Disclosed(("updates", "features", "edges"), clients=("features",))
    sees_more = True
    prepares = frozenset({"first", "embed", "correct", *(f"layer{i}" for i in range(2, LAYERS + 1))})

    exchange: Exchange = "exact"  # what is exchanged for cut edges
    schedule: Literal[1, 2, 3, 4] = 3  # 1, 2: after each round's first, last epoch; 3, 4: after the first, middle round
    rounds: Count = 10  # R, rounds per snapshot; schedule 4 uses the middle one
    privacy: Literal["paper", "strict"] = "paper"  # rows of nodes at the cut only, or of every affected node
    k_min: Count = 1  # fewest nodes that a correction sums over
    retrain: Literal["incremental", "full"] = "incremental"  # train on what a change reaches, or on the whole graph
    halo: bool = True  # read the states of surrounding nodes; without them sums at the rim are incomplete
    bptt: bool = False  # train on all snapshots so far, with gradients through their states (`unrolling.py`)
    score_past: bool = False  # keep what earlier snapshots were predicted with, to score forgetting (`incremental.py`)
    tunes = {"schedule": Span(choices=(1, 2, 3, 4))}

    def start(self) -> State:
        """Return the first model.  Raises ScenarioError where there is nothing to exchange, or no model for it."""
        incremental.check(self._terms(), changes=self.overview is not None)
        return {"model": self.task.init(), "period": 0, "round": 0, "seen": None, "moved": {}, "heard": {}}

    # ---- when

    def steps(self, state: State) -> Sequence[str]:
        """Return an exchange before the last epochs if the schedule wants one after the first."""
        return ("first", "train") if self.schedule == 1 and self.exchange != "none" else ("train",)

    def more(self, state: State, step: str) -> Sequence[str]:
        """Return the steps of an exchange once it is due, unless nothing was cut."""
        due = {
            1: step == "first",
            2: step == "train",
            3: step == "train" and state["round"] == 1,
            4: step == "train" and state["round"] == -(-self.rounds // 2),
        }[self.schedule]
        if self.exchange == "none" or not due or not state["seen"].crosses(self.exchange, strict=self._strict):
            return ()
        layers = self.task.model.layers if self.exchange == "layerwise" else 1
        return ("embed", *(f"layer{i}" for i in range(2, layers + 1)), "correct")

    @property
    def _strict(self) -> bool:
        return self.privacy == "strict"

    # ---- server

    def download(self, state: State, client: int, step: str) -> Tree:
        """Send the model; in an exchange, which rows the client is to answer with, or corrections."""
        if step in ("train", "first"):
            moved = state["moved"].get(client)
            sent = {"model": state["model"], "period": state["period"], "round": state["round"]}
            return sent if moved is None else {**sent, "moved": moved}
        seen, at = state["seen"], {"period": state["period"]}
        if step == "embed":
            asked = seen.nodes(client, seen.due if self._strict else seen.due & seen.cut.border)
            sent = {**at, "ids": asked.int(), "heard": state["heard"].get(client, 0)}
            held = seen.nodes(client, seen.cut.owner >= 0)
            return sent if seen.norm == "sum" else {**sent, "degree": seen.cut.degree[held].int()}
        ids = seen.nodes(client, seen.addressed(self.exchange, strict=self._strict))
        layer = self.task.model.layers if step == "correct" else int(step.removeprefix("layer")) - 1
        rows = seen.corrections(self.exchange, layer, self.k_min)
        return {**at, "ids": ids.int(), **{key: value[ids] for key, value in rows.items()}}

    def update(self, state: State, replies: Sequence[Reply], step: str) -> State:
        """Average models by edges; keep the rows that clients have sent."""
        if step in ("train", "first"):
            state = self._met(state, replies)
        if step == "first":
            return state
        if step != "train":
            before = state["heard"]
            heard = {r.client: r.upload.get("turn", before.get(r.client, 0)) for r in replies}
            seen = state["seen"].answered([reply.upload for reply in replies])
            took = [reply.download["ids"] for reply in replies if "took" in reply.upload]
            return {**state, "seen": seen.summed(took), "heard": {**before, **heard}}
        return {**super().update(state, replies, step), "round": state["round"] + 1}

    def _met(self, state: State, replies: Sequence[Reply]) -> State:
        """Return the state in the period that the clients report, with the states of nodes that have new owners."""
        period = max(reply.upload["period"] for reply in replies)
        came = {reply.client for reply in replies if "moved" in reply.download}
        moved: Mapping[int, Mapping[str, Tensor]]
        moved = {client: rows for client, rows in state["moved"].items() if client not in came}
        for reply in replies:
            if "left" in reply.upload:
                assert self.overview is not None  # or nothing could have a new owner
                moved = forwarded(moved, reply.upload["left"], self.overview.owners[reply.upload["period"]])
        state = {**state, "moved": moved}
        if self.overview is None or (state["seen"] is not None and period <= state["period"]):
            return state
        seen = state["seen"] or self._overseer()
        return {**state, "seen": seen.at(period), "period": period, "round": 0}

    def _overseer(self) -> Overseer:
        """Return the first view; with `mean` and `sym` degrees reveal changes at the cut in any case."""
        assert self.overview is not None
        terms = self._terms()
        hops = None if self.exchange == "full_graph" else terms.hops
        return Overseer(self.overview, 0, hops, terms.norm, self._strict and terms.norm == "sum")

    def server_flops(self, state: State, replies: Sequence[Reply], step: str) -> float:
        """Return the usual work, and a multiply-add for each number that crosses the cut."""
        crossed = 0.0
        if step not in ("train", "first") and state["seen"] is not None:
            widths = [upload.shape[1] for upload in replies[0].upload.values() if getattr(upload, "ndim", 0) == 2]
            crossed = 2.0 * state["seen"].cut.crossing.shape[1] * sum(widths)
        return super().server_flops(state, replies, step) + crossed

    # ---- client

    def work(self, job: Job) -> Work:
        """Train on the affected part, answer with rows, or apply corrections."""
        if job.step not in ("train", "first"):
            if job.memory.get("period") != job.download["period"]:  # its training was interrupted, or it never trained
                return {"ids": torch.zeros(0, dtype=torch.int32)} if job.step != "correct" else {}
            answer = rows_asked_for if job.step == "embed" else take_corrections
            return answer(self._terms(), job)
        left = incremental.enter(self._terms(), job)
        if "moved" in job.download and job.memory.get("states") is not None:  # other clients' nodes
            moved = job.download["moved"]
            job.memory["states"] = joined(job.memory["states"], (moved["ids"].long(), moved["states"]))
        trained = yield from self._trained(job)
        if job.step == "first":
            job.memory["early"] = job.period, job.download["round"], trained
            return {"period": job.period}
        update = tree.sub(trained, job.download["model"])
        upload = {"update": update, "samples": incremental.edges(self._terms(), job.data), "period": job.period}
        return upload if left is None else {**upload, "left": left}

    def _trained(self, job: Job) -> Work:
        model, memory = job.download["model"], job.memory
        early = memory.get("early", ())
        goes_on = job.step == "train" and early[:2] == (job.period, job.download["round"])
        start = early[2] if goes_on else self._turned(job)
        if self.bptt:
            return (yield from self._replayed(job, start))
        data = incremental.trained_on(self._terms(), job)
        trained = start
        if self.task.examples(data, "train"):
            trained = yield Fit(start, self.loss, given={"received": model}, data=data, steps=self._epochs(job))
        memory["local"] = trained
        return trained

    def _replayed(self, job: Job, start: Parameters) -> Work:
        given, trained = {"received": job.download["model"], "past": job.memory.get("past", ())}, start
        if any(self.task.examples(graph, "train") for graph in (*given["past"], job.data)):
            trained = yield Fit(start, self.loss_over_time, given=given)
        unrolling.remember(self._terms(), job, trained)
        job.memory["local"] = trained
        return trained

    def loss_over_time(self, params: Parameters, data: Graph, given: Tree) -> Tensor:
        """Return the mean of the task's losses on all snapshots so far."""
        return unrolling.loss(self.task, params, (*given["past"], data))

    def _turned(self, job: Job) -> Parameters:
        """Return the model at the beginning of this period, after evolving weights have taken their step."""
        model, before = job.download["model"], job.memory.get("before")
        if before is None or job.period <= job.download["period"]:
            return model
        return tree.at(self.task.model.turn(tree.stack([model]), before), 0)

    def _epochs(self, job: Job) -> tuple[int, int | None]:
        if self.schedule != 1 or self.exchange == "none":
            return 0, None
        return (0, 1) if job.step == "first" else (1, None)

    @property
    def recalls(self) -> bool:
        """Whether clients keep what earlier snapshots were predicted with."""
        return self.score_past

    def sees(self, memory: Memory, graph: Graph) -> Graph:
        """Return the graph with the client's states: before its own period, or after it for a later graph."""
        return incremental.sees(self._terms(), memory, graph)

    def sees_all(self, sights: Sequence[Sight]) -> Sequence[Seen]:
        """Return the same, on later graphs with the corrections that an exchange about them brings (`ahead.py`)."""
        if self.score_past:
            sights = [incremental.recalled(sight) for sight in sights]
        if self.exchange == "none" or self.overview is None or self._given.alone:
            return super().sees_all(sights)
        views, together = dict[int, Seen](), dict[tuple[int, int, int | None], list[int]]()
        for number, sight in enumerate(sights):
            if incremental.is_later(sight.memory, sight.graph):
                together.setdefault((id(sight.state), sight.period, sight.met), []).append(number)
            else:
                views[number] = Seen(self.sees(sight.memory, sight.graph))
        for (_, period, met), numbers in together.items():
            seen = (sights[numbers[0]].state["seen"] or self._overseer()).ahead(period, met)
            exchange = Ahead(self._terms(), seen, self._strict, self.k_min)
            for number, view in zip(numbers, exchange.views([sights[at] for at in numbers]), strict=True):
                views[number] = view
        return [views[number] for number in range(len(sights))]

    def upload_like(self, job: Job) -> Tree:
        """Return a tree as large as the upload, or None for answers in an exchange, whose size depends on them."""
        if job.step == "first":
            return {"period": 0}
        if job.step != "train":
            return None
        like, left = {**super().upload_like(job), "period": 0}, incremental.left_like(self._terms(), job)
        return like if left is None else {**like, "left": left}

    def effort(self, job: Job) -> float:
        """Return the affected part's share of training on the whole graph; zero in an exchange; all with `bptt`."""
        if self.bptt:
            return unrolling.share(self._terms(), job) + 1.0
        return incremental.share(self._terms(), job.data) if job.step == "train" else 0.0

    def extra_steps(self, job: Job) -> float:
        """Return a forward pass for an answer, which is a third of a step; the first epoch is taken from the rest."""
        if job.step == "correct":
            return 0.0
        if self.bptt:
            return unrolling.share(self._terms(), job) / 3
        apart = self.schedule == 1 and self.exchange != "none"
        part = incremental.share(self._terms(), job.data)
        return part * {"first": 1.0, "train": -1.0 * apart}.get(job.step, 1 / 3)

    def _terms(self) -> incremental.Terms:
        hops = None if self.retrain == "full" else self.task.model.layers
        return incremental.Terms(self.task, hops, self.halo, self.exchange, self.bptt, self.score_past)
