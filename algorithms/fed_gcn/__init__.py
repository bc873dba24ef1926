"""FedGCN: sums over neighbours across clients, exchanged once before training (Yao et al., NeurIPS 2023).

    A X  at every node:  (A X)_i = Σ_k Σ_{j ∈ N(i) ∪ {i}, owner j = k} A_ij x_j,  the sums over k made by the server

A GCN (summed.py) then reads A X in place of its first layer's sums, and is trained by FedAvg.

    hops 0  nothing is exchanged: FedAvg on the scenario's own model;
    hops 1  a client gets A X at its nodes; later layers sum over its own edges, with their degrees;
    hops 2  also at its nodes' neighbours elsewhere, so that a second layer lacks nothing, and A² X follows.

`norm` is the weighting of A, which has self-loops: none, `sym` by 1/√(d_i d_j), `row` by 1/d_i, with d the degrees in
the whole graph, the node itself included.  The sender weights by d_j, the owner of i by d_i.

Clients know the edges between their nodes and those of other clients, by node number, and nothing else about the
latter, as in the paper.  The server needs no graph: rows are keyed by node number.  A client of n nodes, with m
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
over one neighbour is that node's features), and the published code's handing out of raw features.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from algorithms.fed_gcn.summed import Received, SummedGCN, local_sums, nothing, total, weighed, widened
from algorithms.fedavg import FedAvg
from fedsim.core.errors import ScenarioError
from fedsim.data.graph import Graph, as_dense
from fedsim.learn.algorithm import Algorithm, Disclosed, Job, Memory, Reply, State, Tree, Work
from fedsim.learn.continual.snapshots import bare, places, spread
from fedsim.learn.engine import layout
from fedsim.learn.layers.convolution import Norm
from fedsim.learn.model import Model

NORMS: dict[str, Norm] = {"none": "sum", "sym": "sym", "row": "mean"}


@dataclass(frozen=True)
class FedGCN(FedAvg):
    """See the module's docstring."""

    aggregates = True
    own_steps = True
    discloses = Disclosed(("updates", "features", "edges"), clients=("features",))
    sees_more = True
    evolves = True
    upload_like = Algorithm.untrained_upload
    prepares = frozenset({"collect", "give"})
    hops: Literal[0, 1, 2] = 2  # number of hops over which features are summed before training
    norm: Literal["none", "sym", "row"] = "sym"  # normalisation of the sums

    @property
    def any_model(self) -> bool:  # type: ignore[override]
        """Whether the scenario's own model is trained."""
        return not self.hops

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
            message = f"{self.hops}: clients do not know their edges to other clients under this stream; use "
            message += "{name: static, numbered: true} or snapshots, or hops: 0"
            raise ScenarioError.at("algorithm.hops", message)
        if self.hops:
            self.task.require_classes(f"{self.hops}: FedGCN classifies nodes, unless hops is 0", "algorithm.hops")
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
        known = [(r.client, state["sent"][r.client]["period"]) for r in replies if r.client in state["sent"]]
        return {**state, "due": any(state["given"].get(client) != stamp(state, period) for client, period in known)}

    def sums(self, state: State, sent: Received) -> Tree:
        """Return the sums of all clients' rows of the period at a client's nodes, at 2 hops also around them."""
        alike = [upload for upload in state["sent"].values() if upload["period"] == sent["period"]]
        if self.hops < 2:
            return {"rows": total(alike, sent["own"])}
        halo = sent["ids"][torch.stack([places(upload["own"], sent["ids"])[1] for upload in alike]).any(0)]
        sums = {"rows": total(alike, torch.cat([sent["own"], halo])), "halo": halo}
        if self.norm != "none":
            sums["degree"] = sum(spread(halo, (upload["own"], upload["degree"])) for upload in alike)
        return sums

    # ---- client

    def work(self, job: Job) -> Tree | Work:
        """Send rows, take sums, or train."""
        if job.step == "collect":
            return self.collected(job)
        return self.taken(job) if job.step == "give" else super().work(job)

    def collected(self, job: Job) -> Tree:
        """Return the sums over the client's own nodes, at them and at their neighbours elsewhere."""
        if job.download["have"] == job.period:
            return {}
        data, (edges, ids) = job.data, self.foreign(job)
        job.memory["summed"] = {"period": job.period, "graph": data, "edges": edges, "ids": ids}
        degree, x = self.degree(data, edges), as_dense(data["x"])
        z = weighed(x, degree, self.weighing, "source")
        away = z.new_zeros(len(ids), z.shape[1]).index_add_(0, edges[1], z[edges[0]])
        sent = {"period": job.period, "own": data["node"].int(), "ids": ids.int()}
        sent["rows"] = torch.cat([local_sums(x, degree, data, self.weighing), away])
        return {**sent, "degree": degree.int()} if self.tells_degrees else sent

    @property
    def tells_degrees(self) -> bool:
        """Whether other clients need a node's degree."""
        return self.hops == 2 and self.norm != "none"

    def foreign(self, job: Job) -> tuple[Tensor, Tensor]:
        """Return the client's cut edges (2, E'), places of its nodes over places in ids, and ids (m,) ascending."""
        assert self.overview is not None  # `start` refuses it
        source, target = self.overview.snapshots[job.period]["edges"]
        owner = torch.from_numpy(self.overview.owners[job.period])
        cut = (owner[source] == job.client) & (owner[target] >= 0) & (owner[target] != job.client)
        device = job.data["node"].device
        ids, place = torch.unique(target[cut].to(device), return_inverse=True)
        return torch.stack([places(job.data["node"], source[cut].to(device))[0], place]), ids

    def degree(self, data: Graph, edges: Tensor) -> Tensor:
        """Return the degrees (n,) in the whole graph, the node itself counted."""
        return layout.of(data).degree + torch.bincount(edges[0], minlength=len(data["y"])).float()

    def taken(self, job: Job) -> Tree:
        """Keep what others add to the client's sums; confirm with the period."""
        came, mine = job.download, job.memory.get("summed")
        if not came or mine is None or mine["period"] != came["period"]:  # or its own rows were never finished
            return {}
        data, edges, n, device = mine["graph"], mine["edges"], len(mine["graph"]["y"]), job.data["y"].device
        local = local_sums(as_dense(data["x"]), self.degree(data, edges), data, self.weighing)
        rows = came["rows"].to(device)
        count = edges[0].bincount(minlength=n).float()
        received = {"own": data["node"], "others": rows[:n] - local, "count": count}
        if self.hops == 2:
            halo = came["halo"].long().to(device)
            size = came["degree"].to(device).float() if self.tells_degrees else torch.ones(len(halo), device=device)
            place, known = places(halo, mine["ids"])
            edges = edges[:, known[edges[1]]]
            received["edges"] = torch.stack([place[edges[1]], data["node"][edges[0]]])
            received.update(halo=weighed(rows[n:], size, self.weighing, "target"), degree=size)
        job.memory.update(received=received, seen=(data, self.dressed(received, data)))
        return {"period": came["period"]}

    def dressed(self, received: Received | None, graph: Graph) -> Graph:
        """Return the graph with sums in place of the features, and at 2 hops with the nodes around behind it."""
        degree, x, nodes = layout.of(graph).degree, as_dense(graph["x"]), graph["node"]
        received = nothing(nodes, x) if received is None else received
        degree = degree + spread(nodes, (received["own"], received["count"]))
        sums = local_sums(x, degree, graph, self.weighing) + spread(nodes, (received["own"], received["others"]))
        sums = weighed(sums, degree, self.weighing, "target")
        return widened(graph, sums, degree, received) if self.hops == 2 else bare(Graph(**{**graph, "x": sums}))

    def fit(self, job: Job, given: Tree, **how: Any) -> Work:
        """Train on the sums."""
        if self.hops:
            how = {"data": self.sees(job.memory, job.data), **how}
        return super().fit(job, given, **how)

    def sees(self, memory: Memory, graph: Graph) -> Graph:
        """Return the graph with the sums that the client has of it, the same object as long as it knows the same."""
        known = memory.get("seen")
        if known is not None and known[0] is graph:
            return known[1]
        return self.dressed(memory.get("received"), graph) if self.hops else graph

    # ---- what it costs

    def effort(self, job: Job) -> float:
        """Return the work on the graph as the client knows it against its own graph's; nothing in other steps."""
        if job.step != "train":
            return 0.0
        plain = self.task.flops(job.data)
        return self.task.flops(self.sees(job.memory, job.data)) / plain if self.hops and plain else 1.0

    def extra_steps(self, job: Job) -> float:
        """Count the sums, a multiply-add for each edge, self-loop and feature."""
        ends = job.data["edges"].shape[1] + len(job.data["y"])
        if job.step == "train" or job.download.get("have") == job.period or not ends:
            return 0.0
        return 2.0 * ends * job.data["x"].shape[1] / self.task.flops(job.data)


def stamp(state: State, period: int) -> tuple[int, tuple[int, ...]]:
    """Return the period and the clients whose rows its sums include, which changes when they grow."""
    return period, tuple(client for client, upload in state["sent"].items() if upload["period"] == period)
