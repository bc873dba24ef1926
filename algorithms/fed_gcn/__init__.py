"""FedGCN: sums over neighbours across clients, exchanged once before training (Yao et al., NeurIPS 2023).

    A X  at every vertex:  (A X)_i = Σ_k Σ_{j ∈ N(i) ∪ {i}, owner j = k} A_ij x_j,  the sums over k made by the server

A GCN (summed.py) then reads A X in place of its first layer's sums, and is trained by FedAvg.

    hops 0  nothing is exchanged: FedAvg on the scenario's own model;
    hops 1  a client gets A X at its vertices; later layers sum over its own edges, with their degrees;
    hops 2  also at its vertices' neighbours elsewhere, so that a second layer lacks nothing, and A² X follows.

`norm` is the weighting of A, which has self-loops: none, `sym` by 1/√(d_i d_j), `row` by 1/d_i, with d the degrees in
the whole graph, the vertex itself included.  The sender weights by d_j, the owner of i by d_i.

Clients know the edges between their vertices and those of other clients, by vertex number, and nothing else about the
latter, as in the paper.  The server needs no graph: rows are keyed by vertex number.  A client of n vertices, with m
neighbours elsewhere, h of which have been reported by some client, moves in a period

    up    4 (n + m) + 4 F (n + m) bytes of arrays     (and 4 n of degrees at 2 hops, unless `norm` is none)
    down  4 F n bytes                    (at 2 hops 4 F (n + h) + 4 h, and 4 h more of degrees unless `norm` is none)

Every round begins with `collect`: a client that holds a period of which the server has no rows sends them, the others
send five bytes.  If that has brought anything new, `give` follows.  Sums are over the clients that have sent rows of
the same period; a client that has received them gets them again once they have grown.  Both steps leave the model as it
is and do not count as an update.

On later graphs, which the scores of a live update use, a client adds the sums it received in its own period: nothing is
exchanged for a graph on which nobody trains.  Only a client's latest period is scored.  With fewer layers than hops the
last hop has no effect; with more than two layers the sums of the third lack terms.  Not modelled: encryption (a sum
over one neighbour is that vertex's features), and the published code's handing out of raw features.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor

from algorithms.fed_gcn.summed import Received, SummedGCN, local_degree, local_sums, nothing, total, weighed, widened
from algorithms.fedavg import FedAvg
from fedsim.core.errors import Problem, ScenarioError
from fedsim.core.wire import Spec, Tree
from fedsim.data.graph import Graph, as_dense
from fedsim.learn.algorithm import Job, Memory, Reply, State, Work
from fedsim.learn.convolution import Norm
from fedsim.learn.model import Model
from fedsim.learn.snapshots import bare, places, spread
from fedsim.learn.tasks.node_classification import classes_only

NORMS: dict[str, Norm] = {"none": "sum", "sym": "sym", "row": "mean"}


@dataclass(frozen=True)
class FedGCN(FedAvg):
    """See the module's docstring."""

    aggregates = True
    own_steps = True
    sees_more = True
    evolves = True
    prepares: ClassVar[frozenset[str]] = frozenset({"collect", "give"})
    hops: Literal[0, 1, 2] = 2  # number of hops over which features are summed before training
    norm: Literal["none", "sym", "row"] = "sym"  # normalisation of the sums

    def backbone(self, model: Model) -> Model:
        """Return a GCN whose first sums are given, of the scenario's size; at 0 hops the scenario's own model."""
        if not self.hops:
            return model
        return SummedGCN(hidden=model.hidden, layers=model.layers, dropout=model.dropout, norm=self.weighing)

    @property
    def weighing(self) -> Norm:
        """The name of the norm in `fedsim.learn`."""
        return NORMS[self.norm]

    # ---- server

    def start(self) -> State:
        """Return the first model; no rows are known yet.  Raises ScenarioError if clients know no cut edges."""
        if self.hops and self.overview is None:
            message = (
                f"{self.hops}: clients do not know their edges to other clients under this stream; use {{name: static, "
                "numbered: true} or snapshots, or hops: 0"
            )
            raise ScenarioError([Problem("algorithm.hops", message)])
        if self.hops:
            message = f"{self.hops}: FedGCN classifies vertices; take task: node_classification, or hops: 0"
            classes_only(self.task, message, "algorithm.hops")
        return {**super().start(), "sent": {}, "given": {}, "due": False}

    def steps(self, state: State) -> Sequence[str]:
        """Return the exchange's first step, the only one in most rounds, and the training."""
        return ("collect", "train") if self.hops else ("train",)

    def more(self, state: State, step: str) -> Sequence[str]:
        """Give if a client lacks rows that have arrived."""
        return ("give",) if step == "collect" and state["due"] else ()

    def download(self, state: State, client: int, step: str) -> Tree:
        """Send the model, the period whose rows the server has, or the sums that the client lacks."""
        if step == "train":
            return super().download(state, client, step)
        sent = state["sent"].get(client)
        if step == "collect":
            return {"have": -1 if sent is None else sent["period"]}
        if sent is None or state["given"].get(client) == stamp(state, sent["period"]):
            return {}
        return {"period": sent["period"], **self.sums(state, sent)}

    def update(self, state: State, replies: Sequence[Reply], step: str) -> State:
        """Keep rows, note which clients have received sums, or average."""
        if step == "train":
            return super().update(state, replies, step)
        if step == "give":
            got = {r.client: stamp(state, r.upload["period"]) for r in replies if r.upload}
            return {**state, "given": {**state["given"], **got}, "due": False}
        fresh = {reply.client: reply.upload for reply in replies if reply.upload}
        state = {**state, "sent": dict(sorted({**state["sent"], **fresh}.items()))}
        there = [(r.client, state["sent"][r.client]["period"]) for r in replies if r.client in state["sent"]]
        return {**state, "due": any(state["given"].get(client) != stamp(state, period) for client, period in there)}

    def sums(self, state: State, sent: Received) -> Tree:
        """Return the sums of all clients' rows of the period at a client's vertices, at 2 hops also around them."""
        alike = [one for one in state["sent"].values() if one["period"] == sent["period"]]
        wanted = sent["own"]
        if self.hops < 2:
            return {"rows": total(alike, wanted)}
        known = torch.stack([places(one["own"], sent["ids"])[1] for one in alike]).any(0)
        halo = sent["ids"][known]
        found = {"rows": total(alike, torch.cat([wanted, halo])), "halo": halo}
        if self.norm == "none":
            return found
        return {**found, "degree": sum(spread(halo, (one["own"], one["degree"])) for one in alike)}

    # ---- client

    def work(self, job: Job) -> Tree | Work:
        """Send rows, take sums, or train."""
        if job.step == "collect":
            return self.collected(job)
        return self.taken(job) if job.step == "give" else super().work(job)

    def collected(self, job: Job) -> Tree:
        """Return the sums over the client's own vertices, at them and at their neighbours elsewhere."""
        if job.download["have"] == job.period:
            return {}
        data, (edges, ids) = job.data, self.foreign(job)
        job.memory["summed"] = {"period": job.period, "graph": data, "edges": edges, "ids": ids}
        degree, x = self.degree(data, edges), as_dense(data["x"])
        z = weighed(x, degree, self.weighing, "source")
        away = z.new_zeros(len(ids), z.shape[1]).index_add_(0, edges[1], z[edges[0]])
        sent = {"period": job.period, "own": data["vertex"].int(), "ids": ids.int()}
        sent["rows"] = torch.cat([local_sums(x, degree, data, self.weighing), away])
        return {**sent, "degree": degree.int()} if self.tells_degrees else sent

    @property
    def tells_degrees(self) -> bool:
        """Whether other clients need a vertex's degree."""
        return self.hops == 2 and self.norm != "none"

    def foreign(self, job: Job) -> tuple[Tensor, Tensor]:
        """Return the client's cut edges (2, E'), places of its vertices over places in ids, and ids (m,) ascending."""
        assert self.overview is not None  # `start` refuses it
        source, target = self.overview.snapshots[job.period]["edges"]
        owner = torch.from_numpy(self.overview.owners[job.period])
        cut = (owner[source] == job.client) & (owner[target] >= 0) & (owner[target] != job.client)
        device = job.data["vertex"].device
        ids, place = torch.unique(target[cut].to(device), return_inverse=True)
        return torch.stack([places(job.data["vertex"], source[cut].to(device))[0], place]), ids

    def degree(self, data: Graph, edges: Tensor) -> Tensor:
        """Return the degrees (n,) in the whole graph, the vertex itself counted."""
        return local_degree(data) + torch.bincount(edges[0], minlength=len(data["y"])).float()

    def taken(self, job: Job) -> Tree:
        """Keep what others add to the client's sums; confirm with the period."""
        came, mine = job.download, job.memory.get("summed")
        if not came or mine is None or mine["period"] != came["period"]:  # or its own rows were never finished
            return {}
        data, edges, n, device = mine["graph"], mine["edges"], len(mine["graph"]["y"]), job.data["y"].device
        own = local_sums(as_dense(data["x"]), self.degree(data, edges), data, self.weighing)
        rows = came["rows"].to(device)
        received = {"own": data["vertex"], "others": rows[:n] - own, "count": edges[0].bincount(minlength=n).float()}
        if self.hops == 2:
            halo = came["halo"].long().to(device)
            size = came["degree"].to(device).float() if self.tells_degrees else torch.ones(len(halo), device=device)
            place, there = places(halo, mine["ids"])
            kept = there[edges[1]]
            received["edges"] = torch.stack([place[edges[1][kept]], data["vertex"][edges[0][kept]]])
            received.update(halo=weighed(rows[n:], size, self.weighing, "target"), degree=size)
        job.memory.update(received=received, seen=(data, self.dressed(received, data)))
        return {"period": came["period"]}

    def dressed(self, received: Received | None, graph: Graph) -> Graph:
        """Return the graph with sums in place of the features, and at 2 hops with the vertices around behind it."""
        degree, x, vertices = local_degree(graph), as_dense(graph["x"]), graph["vertex"]
        received = nothing(vertices, x) if received is None else received
        degree = degree + spread(vertices, (received["own"], received["count"]))
        sums = local_sums(x, degree, graph, self.weighing) + spread(vertices, (received["own"], received["others"]))
        sums = weighed(sums, degree, self.weighing, "target")
        return widened(graph, sums, degree, received) if self.hops == 2 else bare(Graph(**{**graph, "x": sums}))

    def looked_at(self, memory: Memory, graph: Graph) -> Graph:
        """Return the graph as the client knows it, the same object as long as it knows the same."""
        known = memory.get("seen")
        if known is not None and known[0] is graph:
            return known[1]
        return self.dressed(memory.get("received"), graph)

    def fit(self, job: Job, given: Tree, **how: Any) -> Work:
        """Train on the sums."""
        if self.hops:
            how = {"data": self.looked_at(job.memory, job.data), **how}
        return super().fit(job, given, **how)

    def sees(self, memory: Memory, graph: Graph) -> Graph:
        """Return the graph with the sums that the client has of it."""
        return self.looked_at(memory, graph) if self.hops else graph

    def upload_like(self, job: Job) -> Tree:
        """Return a tree as large as the upload."""
        if job.step == "train":
            return super().upload_like(job)
        if job.step == "give":
            mine, came = job.memory.get("summed"), job.download
            return {"period": 0} if came and mine is not None and mine["period"] == came["period"] else {}
        if job.download["have"] == job.period:
            return {}
        n, m, x = len(job.data["y"]), len(self.foreign(job)[1]), job.data["x"]
        rows = Spec((n + m, x.shape[1]), str(x.dtype).removeprefix("torch."))
        like = {"period": 0, "own": Spec((n,), "int32"), "ids": Spec((m,), "int32"), "rows": rows}
        return {**like, "degree": Spec((n,), "int32")} if self.tells_degrees else like

    # ---- what it costs

    def effort(self, job: Job) -> float:
        """Return the work on the graph as the client knows it against its own graph's; nothing in other steps."""
        if not self.hops:
            return 1.0
        if job.step != "train":
            return 0.0
        own = self.task.flops(job.data)
        return self.task.flops(self.looked_at(job.memory, job.data)) / own if own else 1.0

    def extra_steps(self, job: Job) -> float:
        """Count the sums, a multiply-add for each edge, self-loop and feature."""
        if job.step == "train" or not (job.step == "give" or job.download["have"] != job.period):
            return 0.0
        ends = job.data["edges"].shape[1] + len(job.data["y"])
        return 2.0 * ends * job.data["x"].shape[1] / self.task.flops(job.data) if ends else 0.0


def stamp(state: State, period: int) -> tuple[int, tuple[int, ...]]:
    """Return the period and the clients whose rows its sums include, which changes when they grow."""
    return period, tuple(client for client, one in state["sent"].items() if one["period"] == period)
